"""LimitPodHardAntiAffinityTopology: required pod anti-affinity may use no topology key but the hostname."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dray.server.admission import CREATE, UPDATE, Attributes, RequestScope

if TYPE_CHECKING:
    from dray.api.types.core import Pod

_HOSTNAME = "kubernetes.io/hostname"


class LimitPodHardAntiAffinityTopology:
    name = "LimitPodHardAntiAffinityTopology"

    def handles(self, scope: RequestScope) -> bool:
        return scope.is_for("", "pods") and scope.operation in (CREATE, UPDATE)

    async def validate(self, attributes: Attributes) -> None:
        pod: Pod = attributes.object
        spec = pod.get("spec", {})
        anti = (spec.get("affinity") or {}).get("podAntiAffinity") or {}
        for term in anti.get("requiredDuringSchedulingIgnoredDuringExecution") or ():
            if term.get("topologyKey") != _HOSTNAME:
                raise attributes.forbidden(
                    "affinity.PodAntiAffinity.RequiredDuringScheduling has TopologyKey "
                    f"{term.get('topologyKey', '')} but only key {_HOSTNAME} is allowed"
                )

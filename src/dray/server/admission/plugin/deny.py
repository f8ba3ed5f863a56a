"""Plugins of one rule each: what services and pods must not ask for, and the one that refuses everything."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dray.server.admission import CREATE, UPDATE, Attributes, RequestScope

if TYPE_CHECKING:
    from dray.api.types.core import PodSpec, ServiceSpec

_HOSTNAME = "kubernetes.io/hostname"


class AlwaysDeny:
    name = "AlwaysDeny"

    def handles(self, scope: RequestScope) -> bool:
        return True

    async def admit(self, attributes: Attributes) -> None:
        raise attributes.forbidden("admission control is denying all modifications")

    async def validate(self, attributes: Attributes) -> None:
        raise attributes.forbidden("admission control is denying all modifications")


class DenyServiceExternalIPs:
    """External addresses of services can be kept and given up, but not taken."""

    name = "DenyServiceExternalIPs"

    def handles(self, scope: RequestScope) -> bool:
        return scope.is_for("", "services") and scope.operation in (CREATE, UPDATE)

    async def validate(self, attributes: Attributes) -> None:
        new: ServiceSpec = attributes.object.get("spec", {})
        old: ServiceSpec = (attributes.old or {}).get("spec", {})
        if not set(new.get("externalIPs") or ()) <= set(old.get("externalIPs") or ()):
            raise attributes.forbidden("Use of external IPs is denied by admission control")


class LimitPodHardAntiAffinityTopology:
    """Pods may insist on keeping apart from others by node, but not by anything larger."""

    name = "LimitPodHardAntiAffinityTopology"

    def handles(self, scope: RequestScope) -> bool:
        return scope.is_for("", "pods") and scope.operation in (CREATE, UPDATE)

    async def validate(self, attributes: Attributes) -> None:
        spec: PodSpec = attributes.object.get("spec", {})
        anti = (spec.get("affinity") or {}).get("podAntiAffinity") or {}
        for term in anti.get("requiredDuringSchedulingIgnoredDuringExecution") or ():
            if term.get("topologyKey") != _HOSTNAME:
                raise attributes.forbidden(
                    "affinity.PodAntiAffinity.RequiredDuringScheduling has TopologyKey "
                    f"{term.get('topologyKey', '')} but only key {_HOSTNAME} is allowed"
                )

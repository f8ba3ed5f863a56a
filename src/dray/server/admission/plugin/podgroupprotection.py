"""PodGroupProtection: a new PodGroup has a finalizer, so that it outlives the pods that refer to it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dray.api.groups.scheduling.podgroup import PROTECTION_FINALIZER
from dray.server.admission import CREATE, Attributes, RequestScope

if TYPE_CHECKING:
    from dray.api.types.scheduling_v1beta1 import PodGroup


class PodGroupProtection:
    name = "PodGroupProtection"

    def handles(self, scope: RequestScope) -> bool:
        return scope.operation == CREATE and scope.is_for("scheduling.k8s.io", "podgroups")

    async def admit(self, attributes: Attributes) -> None:
        group: PodGroup = attributes.object
        meta = group["metadata"]
        finalizers = meta.get("finalizers") or []
        if PROTECTION_FINALIZER not in finalizers:
            meta["finalizers"] = [*finalizers, PROTECTION_FINALIZER]

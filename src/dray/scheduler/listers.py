"""What an attempt reads from informers besides the caches: namespaces, disruption budgets, volumes, owners of pods."""

from __future__ import annotations

from collections.abc import Mapping

from dray.client.informers import Informers
from dray.client.resources import (
    NAMESPACES,
    PERSISTENT_VOLUME_CLAIMS,
    PERSISTENT_VOLUMES,
    POD_DISRUPTION_BUDGETS,
    REPLICASETS,
    SERVICES,
    STATEFULSETS,
    STORAGE_CLASSES,
)
from dray.placement.cache.pods import PodInfo
from dray.placement.config import SchedulerProfile
from dray.placement.plugins import pod_topology_spread
from dray.placement.plugins.pod_topology_spread import SpreadConstraint
from dray.placement.plugins.volume_binding import VolumeBinding
from dray.placement.preemption import DisruptionBudget
from dray.placement.quirks import PlacementQuirks


class Listers:
    """Namespaces, disruption budgets, volumes, and what pods belong to."""

    def __init__(self, informers: Informers, quirks: PlacementQuirks) -> None:
        self._namespaces = informers.get(NAMESPACES)
        self._budgets = informers.get(POD_DISRUPTION_BUDGETS)
        self._owners = pod_topology_spread.DefaultSelectors(
            services=informers.get(SERVICES), replica_sets=informers.get(REPLICASETS), stateful_sets=informers.get(STATEFULSETS)
        )  # fmt: skip
        self.storage = _storage(informers, quirks)

    def budgets(self) -> list[DisruptionBudget]:
        return [DisruptionBudget.of(b) for b in self._budgets.items()]

    def namespace_labels(self) -> dict[str, Mapping[str, str]]:
        return {n["metadata"]["name"]: n["metadata"].get("labels") or {} for n in self._namespaces.items()}

    def spread(self, pod: PodInfo, profile: SchedulerProfile) -> list[SpreadConstraint]:
        if not profile.enabled("PodTopologySpread"):
            return []
        chosen = profile.plugins.default_spread
        return pod_topology_spread.spread_constraints(
            pod, self._owners, pod_topology_spread.SYSTEM_DEFAULT_CONSTRAINTS if chosen is None else chosen
        )


def _storage(informers: Informers, quirks: PlacementQuirks) -> VolumeBinding:
    volumes, storage_classes = informers.get(PERSISTENT_VOLUMES), informers.get(STORAGE_CLASSES)
    return VolumeBinding(
        volume_claim=informers.get(PERSISTENT_VOLUME_CLAIMS).get,
        volume=lambda name: volumes.get("", name),
        storage_class=lambda name: storage_classes.get("", name),
        quirks=quirks,
    )

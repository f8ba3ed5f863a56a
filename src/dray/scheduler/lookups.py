"""What decisions look up in the cluster besides nodes, pods and devices: read from informers when it is asked for."""

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
from dray.scheduler import spreading
from dray.scheduler.config import SchedulerProfile
from dray.scheduler.neighbours import Constraint
from dray.scheduler.pods import Pod
from dray.scheduler.preemption import Budget
from dray.scheduler.volumes import Storage


class Lookups:
    """Namespaces, disruption budgets, volumes, and what pods belong to."""

    def __init__(self, informers: Informers, *, release: int) -> None:
        self._namespaces = informers.get(NAMESPACES)
        self._budgets = informers.get(POD_DISRUPTION_BUDGETS)
        self._owners = spreading.Owners(
            services=informers.get(SERVICES), replica_sets=informers.get(REPLICASETS), stateful_sets=informers.get(STATEFULSETS)
        )  # fmt: skip
        self.storage = _storage(informers, release)

    def budgets(self) -> list[Budget]:
        return [Budget.of(b) for b in self._budgets.items()]

    def namespace_labels(self) -> dict[str, Mapping[str, str]]:
        return {n["metadata"]["name"]: n["metadata"].get("labels") or {} for n in self._namespaces.items()}

    def spread(self, pod: Pod, profile: SchedulerProfile) -> list[Constraint]:
        if not profile.enabled("PodTopologySpread"):
            return []
        chosen = profile.placement.default_spread
        return spreading.constraints(
            pod, self._owners, spreading.SYSTEM_DEFAULTS if chosen is None else chosen
        )


def _storage(informers: Informers, release: int) -> Storage:
    volumes, storage_classes = informers.get(PERSISTENT_VOLUMES), informers.get(STORAGE_CLASSES)
    return Storage(
        volume_claim=informers.get(PERSISTENT_VOLUME_CLAIMS).get,
        volume=lambda name: volumes.get("", name),
        storage_class=lambda name: storage_classes.get("", name),
        release=release,
    )

"""Default topology spread: pods of one Service, ReplicaSet or StatefulSet are kept apart where that costs nothing."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol

from dray.api.objects import controller_of
from dray.placement.cache.pods import PodInfo
from dray.placement.plugins.inter_pod_affinity import SpreadConstraint

#: what upstream does for pods that say nothing themselves
SYSTEM_DEFAULT_CONSTRAINTS: tuple[Mapping[str, Any], ...] = (
    {"topologyKey": "kubernetes.io/hostname", "maxSkew": 3, "whenUnsatisfiable": "ScheduleAnyway"},
    {"topologyKey": "topology.kubernetes.io/zone", "maxSkew": 5, "whenUnsatisfiable": "ScheduleAnyway"},
)


class Lister(Protocol):
    """The objects of one kind, as an informer has them."""

    def get(self, namespace: str, name: str) -> Mapping[str, Any] | None: ...
    def items(self) -> Iterable[Mapping[str, Any]]: ...


class DefaultSelectors:
    """What a pod belongs to, and so which pods count as alike."""

    def __init__(self, *, services: Lister, replica_sets: Lister, stateful_sets: Lister) -> None:
        self._services = services
        self._by_kind = {"ReplicaSet": replica_sets, "StatefulSet": stateful_sets}

    def selector(self, pod: PodInfo) -> Mapping[str, Any] | None:
        labels: dict[str, str] = {}
        for service in self._services.items():
            if service["metadata"]["namespace"] == pod.namespace:
                chosen = (service.get("spec") or {}).get("selector")
                if chosen and all(pod.labels.get(k) == v for k, v in chosen.items()):
                    labels |= chosen
        expressions: list[Any] = []
        owner = controller_of(pod.document)
        if owner is not None and (lister := self._by_kind.get(owner["kind"])) is not None:
            document = lister.get(pod.namespace, owner["name"])
            selector = ((document or {}).get("spec") or {}).get("selector") or {}
            labels |= selector.get("matchLabels") or {}
            expressions += selector.get("matchExpressions") or ()
        if not labels and not expressions:
            return None
        return {"matchLabels": labels, "matchExpressions": expressions}


def spread_constraints(
    pod: PodInfo, owners: DefaultSelectors, defaults: Sequence[Mapping[str, Any]] = SYSTEM_DEFAULT_CONSTRAINTS
) -> list[SpreadConstraint]:
    """The pod's own constraints, or the default ones for what it belongs to."""
    if pod.spread:
        return [SpreadConstraint.of(spec, pod.labels) for spec in pod.spread]
    if not pod.labels or not defaults:
        return []
    selector = owners.selector(pod)
    if selector is None:
        return []
    return [SpreadConstraint.of({**spec, "labelSelector": selector}, pod.labels) for spec in defaults]

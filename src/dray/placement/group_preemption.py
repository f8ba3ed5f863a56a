"""Preemption by and of groups of pods: which pods of lower priority have to go so that a whole group fits.

As upstream: all pods of lower priority are taken away, the group is scheduled, and then as many of them as possible
come back, the most important first. A group that may only be disrupted as a whole is one victim. Beyond upstream, where
nothing is emulated, the devices of claims that only victims use come free too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dray.placement import preemption
from dray.placement.gangs import Composite, Gang, GroupScheduler, gangs_of
from dray.placement.outcome import Bind
from dray.placement.plugins.dynamic_resources import claims_used_only_by

if TYPE_CHECKING:
    from dray.placement.cache.claims import ClaimCache
    from dray.placement.cache.groups import GroupCache
    from dray.placement.cache.nodes import ClusterCache
    from dray.placement.cache.pods import PodInfo
    from dray.placement.profiles import Framework

NO_VICTIMS = "No preemption victims found for incoming preemptor"
NEVER = "not eligible due to preemptionPolicy=Never."
ONGOING = "ongoing preemption on nominated nodes"


@dataclass(frozen=True, slots=True)
class Victims:
    """The pods that go, most important first, and where the members of the group will be."""

    pods: tuple[PodInfo, ...]
    binds: Mapping[str, Bind]

    @property
    def message(self) -> str:
        return f"found a placement for podgroup, preempting {len(self.pods)} victims"


@dataclass(frozen=True, slots=True)
class NoVictims:
    """Nothing is preempted. ``final``: whatever other plugins say about the group is not reported."""

    message: str
    final: bool = False
    waits: bool = False  # victims of an earlier preemption are still terminating


def whole_groups(victims: Iterable[PodInfo], cluster: ClusterCache, groups: GroupCache) -> list[PodInfo]:
    """The victims, with all pods of the groups that may only be disrupted as a whole."""
    found: dict[str, PodInfo] = {}
    for pod in victims:
        found[pod.uid] = pod
        group = groups.of(pod)
        if group is not None and group.disrupted_as_a_whole:
            found |= cluster.pods_of_group(pod.namespace, pod.group)
    return list(found.values())


class GroupPreemption:
    """Looks for victims for one group, or for one tree of groups."""

    def __init__(
        self,
        framework: Framework,
        claim_cache: ClaimCache,
        scheduler: Callable[[], GroupScheduler],
        budgets: Callable[[], Sequence[preemption.DisruptionBudget]],
    ) -> None:
        self._framework = framework
        self._cluster = framework.placement.cluster
        self._claim_cache = claim_cache
        self._scheduler = scheduler
        self._budgets = budgets

    def find(self, root: Gang | Composite) -> Victims | NoVictims:
        members = [pod for gang in gangs_of(root) for pod in gang.members]
        info = root.group if isinstance(root, Gang) else root.composite
        policy = info.preemption_policy
        if not self._framework.quirks.groups_have_preemption_policy and members:
            policy = members[0].document["spec"].get("preemptionPolicy") or policy
        if policy == "Never":
            return NoVictims(NEVER)
        if self._is_ongoing(members, info.priority):
            return NoVictims(ONGOING, waits=True)
        units = [unit for unit in self._units() if max(pod.priority for pod in unit) < info.priority]
        if not units:
            return NoVictims(NO_VICTIMS, final=True)
        units.sort(key=lambda unit: (-max(p.priority for p in unit), -len(unit), _started(unit)))
        everybody = [pod for unit in units for pod in unit]
        with self._without(everybody):
            scheduler = self._scheduler()
            results = scheduler.schedule(root)
            scheduler.assumptions.revert()
        failed = next((result for result in results.values() if not result.placed), None)
        if failed is not None and (isinstance(root, Gang) or all(not r.placed for r in results.values())):
            return NoVictims(failed.message)
        outcomes = {uid: o for result in results.values() for uid, o in result.outcomes.items()}
        binds = {uid: outcome for uid, outcome in outcomes.items() if isinstance(outcome, Bind)}
        return Victims(tuple(self._needed(units, members, binds)), binds)

    def fits_alone(self, root: Gang | Composite) -> bool:
        """Whether the group would be placed if nothing else ran."""
        everybody = [pod for node in self._cluster for pod in node.pods.values()]
        with self._without(everybody, devices=True):
            scheduler = self._scheduler()
            results = scheduler.schedule(root)
            scheduler.assumptions.revert()
        return any(result.placed for result in results.values())

    def _is_ongoing(self, members: Sequence[PodInfo], priority: int) -> bool:
        nodes = {pod.nominated_node for pod in members if pod.nominated_node}
        return any(
            pod.priority < priority and preemption.terminating_by_preemption(pod)
            for name in nodes
            if (node := self._cluster.get(name)) is not None
            for pod in node.pods.values()
        )

    def _units(self) -> Iterator[list[PodInfo]]:
        """The pods that have a node; those of a group that goes as a whole are one unit."""
        seen: set[tuple[str, str]] = set()
        for node in self._cluster:
            for pod in node.pods.values():
                group = self._framework.groups.of(pod)
                if group is None or not group.disrupted_as_a_whole:
                    yield [pod]
                elif group.key not in seen:
                    seen.add(group.key)
                    yield list(self._cluster.pods_of_group(*group.key).values())

    def _needed(
        self, units: Sequence[list[PodInfo]], members: Sequence[PodInfo], binds: Mapping[str, Bind]
    ) -> list[PodInfo]:
        """Bring back as many units as possible."""
        nodes = {bind.node for bind in binds.values()}
        units = [unit for unit in units if any(self._concerns(pod, nodes) for pod in unit)]
        violating, others = preemption.split_by_pdb_violation([u[0] for u in units], self._budgets())
        by_uid = {unit[0].uid: unit for unit in units}
        gone = {pod.uid: pod for unit in units for pod in unit}
        for first in (*violating, *others):
            unit = by_uid[first.uid]
            kept = {uid: pod for uid, pod in gone.items() if pod not in unit}
            if self._fits_without(list(kept.values()), members, binds):
                gone = kept
        return preemption.more_important_first(gone.values())

    def _concerns(self, pod: PodInfo, nodes: set[str]) -> bool:
        """Whether the group may have a node because the pod is gone."""
        if self._cluster.node_of(pod.uid) in nodes:
            return True
        return bool(pod.claims) and self._framework.quirks.groups_preempt_devices

    def _fits_without(
        self, gone: Sequence[PodInfo], members: Sequence[PodInfo], binds: Mapping[str, Bind]
    ) -> bool:
        """Whether all members fit on the nodes that were found for them when only these pods are gone."""
        with self._without(gone):
            scheduler = self._scheduler()
            try:
                for pod in members:
                    bind = binds.get(pod.uid)
                    node = self._cluster.get(bind.node) if bind is not None else None
                    if node is not None and not isinstance(scheduler.try_on(pod, [node]), Bind):
                        return False
            finally:
                scheduler.assumptions.revert()
        return True

    @contextmanager
    def _without(self, pods: Sequence[PodInfo], *, devices: bool = False) -> Iterator[None]:
        devices = devices or self._framework.quirks.groups_preempt_devices
        freed = claims_used_only_by(pods, self._claim_cache) if devices else ()
        where = {pod.uid: self._cluster.node_of(pod.uid) for pod in pods}
        for pod in pods:
            self._cluster.remove_pod(pod.uid)
        try:
            with self._claim_cache.as_if_free(freed):
                yield
        finally:
            for pod in pods:
                if (node := where[pod.uid]) is not None:
                    self._cluster.add_pod(pod, node)


def _started(unit: Sequence[PodInfo]) -> str:
    return min((pod.document.get("status") or {}).get("startTime") or pod.created for pod in unit)

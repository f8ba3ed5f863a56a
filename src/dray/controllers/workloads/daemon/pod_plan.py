"""Which nodes get a pod of a DaemonSet, and how an update replaces pods. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from dray.api import nodeaffinity
from dray.api.intstr import scaled_value
from dray.api.pods import is_ready, is_terminal, phase
from dray.controllers.workloads import owned_pods
from dray.controllers.workloads.daemon.pods import (
    TEMPLATE_GENERATION_LABEL,
    node_of,
    template_generation,
    tolerations,
)
from dray.controllers.workloads.history import REVISION_HASH_LABEL

if TYPE_CHECKING:
    from dray.api.types.apps import DaemonSet, DaemonSetStatus, RollingUpdateDaemonSet
    from dray.api.types.core import Node, Pod


# -- one node, one pod ----------------------------------------------------------------------------------------------


class ShouldRun(NamedTuple):
    """Whether a node should get a pod of the DaemonSet, and whether a pod that runs there may stay."""

    run: bool
    continue_running: bool


def should_run(daemons: DaemonSet, node: Node) -> ShouldRun:
    spec, name = daemons["spec"]["template"]["spec"], node["metadata"]["name"]
    if spec.get("nodeName") and spec["nodeName"] != name:
        return ShouldRun(run=False, continue_running=False)
    test = nodeaffinity.required_node_affinity(spec)
    if test is not None and not test(name, node["metadata"].get("labels") or {}):
        return ShouldRun(run=False, continue_running=False)
    tolerated = tolerations(spec)
    taints = (node.get("spec") or {}).get("taints") or ()
    run = nodeaffinity.find_untolerated_taint(taints, tolerated, ("NoSchedule", "NoExecute")) is None
    stay = nodeaffinity.find_untolerated_taint(taints, tolerated, ("NoExecute",)) is None
    return ShouldRun(run, stay)


# -- all nodes ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class DaemonSetState:
    """A DaemonSet, its nodes and its pods, at a moment."""

    daemons: DaemonSet
    digest: str  # of the present template
    places: Mapping[str, ShouldRun]  # by node
    pods: Mapping[str, Sequence[Pod]]  # by node, the oldest first
    now: float

    @classmethod
    def of(
        cls,
        daemons: DaemonSet,
        digest: str,
        nodes: Iterable[Node],
        pods: Iterable[Pod],
        *,
        now: float,
    ) -> DaemonSetState:
        by_node: dict[str, list[Pod]] = {}
        for pod in sorted(pods, key=_age):
            node = node_of(pod)
            # A deleted pod that has finished only waits for a finalizer; a pod without a node is not counted.
            if node and (_is_not_deleted(pod) or not is_terminal(pod)):
                by_node.setdefault(node, []).append(pod)
        return cls(
            daemons, digest, {n["metadata"]["name"]: should_run(daemons, n) for n in nodes}, by_node, now
        )

    def is_available(self, pod: Pod) -> bool:
        return owned_pods.is_available(pod, self.daemons["spec"].get("minReadySeconds") or 0, self.now)

    def is_new(self, pod: Pod) -> bool:
        labels = pod["metadata"].get("labels") or {}
        generation = template_generation(self.daemons)
        return bool(
            labels.get(REVISION_HASH_LABEL) == self.digest
            or (generation and labels.get(TEMPLATE_GENERATION_LABEL) == generation)
        )

    @property
    def wanted(self) -> list[str]:
        return [name for name, place in self.places.items() if place.run]


@dataclass(frozen=True, slots=True)
class Plan:
    """The nodes that get a pod, the pods that go, and those of them that have ended."""

    start: Sequence[str] = ()
    stop: Sequence[Pod] = ()
    ended: Sequence[Pod] = ()


def plan(state: DaemonSetState, *, held: Collection[str] = ()) -> Plan:
    """One pod on each node that should have one; then, one after the other, pods of the present template.

    Pods that failed on the nodes ``held`` are left for now, as the next would fail too.
    """
    start: list[str] = []
    stop: list[Pod] = []
    ended: list[Pod] = []
    for name, (begin, keep) in state.places.items():
        there = state.pods.get(name, ())
        staying = [p for p in there if _is_not_deleted(p)]
        if begin and not there:
            start.append(name)
        elif not keep:
            stop += staying
        else:
            running = [p for p in staying if not is_terminal(p)]
            over = [p for p in staying if is_terminal(p)]
            ended += [p for p in over if phase(p) == "Succeeded" or name not in held]
            stop += _excess_pods(state, running)
            if begin and not running and _is_surging(state):
                start.append(name)
    # Pods of nodes that are gone are the pod garbage collector's, once they are scheduled.
    for name, there in state.pods.items():
        if name not in state.places:
            stop += [p for p in there if _is_not_deleted(p) and not p["spec"].get("nodeName")]
    if start or stop or ended:
        return Plan(start, [*ended, *stop], ended)
    return _rolling_update(state)


def failed_pods_by_node(state: DaemonSetState) -> dict[str, Pod]:
    """Nodes with a pod that has failed, and that pod."""
    return {
        name: pod
        for name, there in state.pods.items()
        for pod in there
        if phase(pod) == "Failed" and _is_not_deleted(pod)
    }


def _is_not_deleted(pod: Pod) -> bool:
    return "deletionTimestamp" not in pod["metadata"]


def _excess_pods(state: DaemonSetState, pods: Sequence[Pod]) -> list[Pod]:
    """Of several pods on a node the oldest stays; during a surge the oldest old one too, while it is needed."""
    if not _is_surging(state):
        return list(pods[1:])
    new = [p for p in pods if state.is_new(p)]
    old = [p for p in pods if not state.is_new(p)]
    surplus = [*new[1:], *old[1:]]
    if new and old and (not is_ready(old[0]) or state.is_available(new[0])):
        surplus.append(old[0])
    return surplus


def _age(pod: Pod) -> tuple[bool, str, str]:
    metadata = pod["metadata"]
    return not pod["spec"].get("nodeName"), metadata.get("creationTimestamp") or "", metadata["name"]


def _rolling(state: DaemonSetState) -> RollingUpdateDaemonSet | None:
    strategy = state.daemons["spec"].get("updateStrategy") or {}
    return None if strategy.get("type") == "OnDelete" else strategy.get("rollingUpdate") or {}


def _is_surging(state: DaemonSetState) -> bool:
    return scaled_value((_rolling(state) or {}).get("maxSurge", 0), 1, up=True) > 0


def _rolling_update(state: DaemonSetState) -> Plan:
    rolling = _rolling(state)
    if rolling is None:
        return Plan()
    total = len(state.wanted)
    surge = scaled_value(rolling.get("maxSurge", 0), total, up=True)
    if surge:
        return _surge(state, surge)
    unavailable = scaled_value(rolling.get("maxUnavailable", 1), total, up=True) or 1
    replaceable: list[Pod] = []
    broken: list[Pod] = []
    away = 0
    for _, new, old in _pairs(state):
        if len(new) + len(old) != 1:
            away += 1
        elif new:
            away += not state.is_available(new[0])
        elif state.is_available(old[0]):
            replaceable += old
        else:
            away += 1
            broken += old
    return Plan(stop=[*broken, *replaceable[: max(0, unavailable - away)]])


def _pairs(state: DaemonSetState) -> Iterator[tuple[str, list[Pod], list[Pod]]]:
    """New and old pods of each node that has daemons, or should have one."""
    for name in dict.fromkeys([*state.wanted, *state.pods]):
        pods = [p for p in state.pods.get(name, ()) if _is_not_deleted(p)]
        yield name, [p for p in pods if state.is_new(p)], [p for p in pods if not state.is_new(p)]


def _surge(state: DaemonSetState, limit: int) -> Plan:
    """New pods come first; where one is available, the old one goes. Old ones on other nodes go when all are there."""
    start: list[str] = []
    candidates: list[str] = []
    stop: list[Pod] = []
    misplaced: list[Pod] = []
    surging = available = 0
    for name, new, old in _pairs(state):
        if len(new) > 1 or len(old) > 1:
            surging += 1
            continue
        is_well = bool(old or new) and state.is_available((old or new)[0])
        available += is_well
        if not old:
            continue
        if new:
            if state.is_available(new[0]):
                stop += old
            else:
                surging += 1
        elif not state.places.get(name, ShouldRun(run=False, continue_running=False)).run:
            (misplaced if is_well else stop).extend(old)
        else:
            (candidates if is_well else start).append(name)
    stop += misplaced[: max(0, available - len(state.wanted))]
    return Plan(start=[*start, *candidates[: max(0, limit - surging)]], stop=stop)


def status_of(state: DaemonSetState, *, is_observed: bool = True) -> DaemonSetStatus:
    """The counts, by the oldest pod of each node; ``is_observed`` says that the present template has been acted on."""
    current = ready = available = updated = misplaced = 0
    for name, (begin, _) in state.places.items():
        there = state.pods.get(name, ())
        if begin and there:
            oldest = there[0]
            current += 1
            ready += is_ready(oldest)
            available += state.is_available(oldest)
            updated += state.is_new(oldest)
        elif there:
            misplaced += 1
    desired = len(state.wanted)
    known = state.daemons.get("status") or {}
    generation = state.daemons["metadata"].get("generation", 0)
    status: DaemonSetStatus = {
        "currentNumberScheduled": current,
        "numberMisscheduled": misplaced,
        "desiredNumberScheduled": desired,
        "numberReady": ready,
    }
    if observed := generation if is_observed else known.get("observedGeneration", 0):
        status["observedGeneration"] = observed
    if updated:
        status["updatedNumberScheduled"] = updated
    if available:
        status["numberAvailable"] = available
    if desired != available:
        status["numberUnavailable"] = desired - available
    if known.get("collisionCount"):
        status["collisionCount"] = known["collisionCount"]
    if known.get("conditions"):
        status["conditions"] = known["conditions"]
    return status

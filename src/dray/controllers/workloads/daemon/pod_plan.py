"""Where daemons belong: which nodes should have one, which pods have to come and go for that, and the count. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

from dray.api import nodeaffinity
from dray.client.resources import DAEMONSETS
from dray.controllers.pod_status import is_ready
from dray.controllers.workloads import owned_pods
from dray.controllers.workloads.deployment.rollout import scaled_value
from dray.controllers.workloads.history import REVISION_HASH_LABEL

if TYPE_CHECKING:
    from dray.api.types.apps import DaemonSet, DaemonSetStatus, RollingUpdateDaemonSet
    from dray.api.types.core import Affinity, Node, NodeSelectorTerm, Pod, PodSpec, Toleration


TEMPLATE_GENERATION_LABEL: Final = "pod-template-generation"
_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"


def _toleration(name: str, effect: str) -> Toleration:
    return {"key": f"node.kubernetes.io/{name}", "operator": "Exists", "effect": effect}


#: What daemons bear: an ill node needs them all the more.
_DAEMON_TOLERATIONS: Final = (
    _toleration("not-ready", "NoExecute"),
    _toleration("unreachable", "NoExecute"),
    _toleration("disk-pressure", "NoSchedule"),
    _toleration("memory-pressure", "NoSchedule"),
    _toleration("pid-pressure", "NoSchedule"),
    _toleration("unschedulable", "NoSchedule"),
)
_HOST_NETWORK_TOLERATION: Final = _toleration("network-unavailable", "NoSchedule")


# -- one node, one pod ----------------------------------------------------------------------------------------------


def tolerations(spec: PodSpec) -> list[Toleration]:
    """What the template bears, and what all daemons do; one that says the same is replaced."""
    found: list[Toleration] = list(spec.get("tolerations") or ())
    for borne in (
        (*_DAEMON_TOLERATIONS, _HOST_NETWORK_TOLERATION) if spec.get("hostNetwork") else _DAEMON_TOLERATIONS
    ):
        alike = [at for at, one in enumerate(found) if _toleration_key(one) == _toleration_key(borne)]
        for at in alike:
            found[at] = borne
        if not alike:
            found.append(borne)
    return found


def _toleration_key(toleration: Toleration) -> tuple[str, ...]:
    return tuple(toleration.get(name) or "" for name in ("key", "operator", "value", "effect"))


def pod_for(daemons: DaemonSet, node: str, digest: str) -> Pod:
    """A pod that the scheduler can only put on this node."""
    labels = {REVISION_HASH_LABEL: digest}
    generation = _template_generation(daemons)
    if generation:
        labels[TEMPLATE_GENERATION_LABEL] = generation
    pod = owned_pods.pod_from_template(daemons["spec"]["template"], DAEMONSETS, daemons, labels=labels)
    spec: PodSpec = {**pod["spec"], "tolerations": tolerations(pod["spec"])}
    spec["affinity"] = with_node_affinity(spec.get("affinity") or {}, node)
    return {**pod, "spec": spec}


def _template_generation(daemons: DaemonSet) -> str:
    """The number of the template, which goes back to a time before there were revisions."""
    annotations = daemons["metadata"].get("annotations") or {}
    found = annotations.get("deprecated.daemonset.template.generation") or ""
    return found if found.isdecimal() else ""


def with_node_affinity(affinity: Affinity, node: str) -> Affinity:
    """The affinity with every other node ruled out; that the node is fit otherwise has been seen to."""
    pinned: NodeSelectorTerm = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}
    nodes = affinity.get("nodeAffinity") or {}
    return {**affinity, "nodeAffinity": {**nodes, _REQUIRED: {"nodeSelectorTerms": [pinned]}}}


def node_of(pod: Pod) -> str:
    """Where a pod is, or the one node it can go to."""
    return pod["spec"].get("nodeName") or _affinity_node(pod["spec"]) or ""


def _affinity_node(spec: PodSpec) -> str | None:
    nodes = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    for term in (nodes.get(_REQUIRED) or {}).get("nodeSelectorTerms") or ():
        for one in term.get("matchFields") or ():
            if one.get("key") == "metadata.name" and len(one.get("values") or ()) == 1:
                return one["values"][0]
    return None


class ShouldRun(NamedTuple):
    """Whether a node should get a daemon, and whether one that it has may stay."""

    start: bool
    keep: bool


def place(daemons: DaemonSet, node: Node) -> ShouldRun:
    spec, name = daemons["spec"]["template"]["spec"], node["metadata"]["name"]
    if spec.get("nodeName") and spec["nodeName"] != name:
        return ShouldRun(start=False, keep=False)
    test = nodeaffinity.required_node_affinity(spec)
    if test is not None and not test(name, node["metadata"].get("labels") or {}):
        return ShouldRun(start=False, keep=False)
    borne = tolerations(spec)
    taints = (node.get("spec") or {}).get("taints") or ()
    start = nodeaffinity.find_untolerated_taint(taints, borne, ("NoSchedule", "NoExecute")) is None
    keep = nodeaffinity.find_untolerated_taint(taints, borne, ("NoExecute",)) is None
    return ShouldRun(start, keep)


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
            # A pod that is over and deleted only waits for somebody's finalizer; one without a node is no daemon.
            if node and (_is_not_deleted(pod) or not owned_pods.is_finished(pod)):
                by_node.setdefault(node, []).append(pod)
        return cls(daemons, digest, {n["metadata"]["name"]: place(daemons, n) for n in nodes}, by_node, now)

    def is_available(self, pod: Pod) -> bool:
        return owned_pods.is_available(pod, self.daemons["spec"].get("minReadySeconds") or 0, self.now)

    def is_new(self, pod: Pod) -> bool:
        labels = pod["metadata"].get("labels") or {}
        generation = _template_generation(self.daemons)
        return bool(
            labels.get(REVISION_HASH_LABEL) == self.digest
            or (generation and labels.get(TEMPLATE_GENERATION_LABEL) == generation)
        )

    @property
    def wanted(self) -> list[str]:
        return [name for name, place in self.places.items() if place.start]


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
            running = [p for p in staying if not owned_pods.is_finished(p)]
            over = [p for p in staying if owned_pods.is_finished(p)]
            ended += [p for p in over if owned_pods.phase(p) == "Succeeded" or name not in held]
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
        if owned_pods.phase(pod) == "Failed" and _is_not_deleted(pod)
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
        elif not state.places.get(name, ShouldRun(start=False, keep=False)).start:
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

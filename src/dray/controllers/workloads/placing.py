"""Where daemons belong: which nodes should have one, which pods have to come and go for that, and the count. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from dray.api import matching
from dray.api.kinds import Object
from dray.client.resources import DAEMONSETS
from dray.controllers.workloads import owning
from dray.controllers.workloads.revisions import HASH_LABEL
from dray.controllers.workloads.rollout import share

Document = Mapping[str, Any]

GENERATION_LABEL: Final = "pod-template-generation"
_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"


def _toleration(name: str, effect: str) -> Object:
    return {"key": f"node.kubernetes.io/{name}", "operator": "Exists", "effect": effect}


#: What daemons bear: an ill node needs them all the more.
_BORNE: Final = (
    _toleration("not-ready", "NoExecute"),
    _toleration("unreachable", "NoExecute"),
    _toleration("disk-pressure", "NoSchedule"),
    _toleration("memory-pressure", "NoSchedule"),
    _toleration("pid-pressure", "NoSchedule"),
    _toleration("unschedulable", "NoSchedule"),
)
_WITHOUT_NETWORK: Final = _toleration("network-unavailable", "NoSchedule")


# -- one node, one pod ----------------------------------------------------------------------------------------------


def tolerations(spec: Document) -> list[Document]:
    borne = (*_BORNE, _WITHOUT_NETWORK) if spec.get("hostNetwork") else _BORNE
    return [*(spec.get("tolerations") or ()), *borne]


def pod_for(daemons: Document, node: str, digest: str) -> Object:
    """A pod that the scheduler can only put on this node."""
    labels = {HASH_LABEL: digest, GENERATION_LABEL: str(_template_generation(daemons))}
    pod = owning.pod_from(daemons["spec"]["template"], DAEMONSETS, daemons, labels=labels)
    spec = {**pod["spec"], "tolerations": tolerations(pod["spec"])}
    spec["affinity"] = pinned_to(spec.get("affinity") or {}, node)
    return {**pod, "spec": spec}


def _template_generation(daemons: Document) -> str:
    annotations = daemons["metadata"].get("annotations") or {}
    found: str = annotations.get("deprecated.daemonset.template.generation") or str(
        daemons["metadata"].get("generation", 1)
    )
    return found


def pinned_to(affinity: Document, node: str) -> Object:
    """The affinity with every other node ruled out; what else it asks of the node stays."""
    field = {"key": "metadata.name", "operator": "In", "values": [node]}
    nodes = affinity.get("nodeAffinity") or {}
    terms: list[Document] = (nodes.get(_REQUIRED) or {}).get("nodeSelectorTerms") or [{}]
    pinned = [{**term, "matchFields": [field]} for term in terms]
    return {**affinity, "nodeAffinity": {**nodes, _REQUIRED: {"nodeSelectorTerms": pinned}}}


def node_of(pod: Document) -> str:
    """Where a pod is, or the one node it can go to."""
    node: str = pod["spec"].get("nodeName") or _pinned_node(pod["spec"]) or ""
    return node


def _pinned_node(spec: Document) -> str | None:
    nodes = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    for term in (nodes.get(_REQUIRED) or {}).get("nodeSelectorTerms") or ():
        for one in term.get("matchFields") or ():
            if one.get("key") == "metadata.name" and len(one.get("values") or ()) == 1:
                name: str = one["values"][0]
                return name
    return None


class Place(NamedTuple):
    """Whether a node should get a daemon, and whether one that it has may stay."""

    start: bool
    keep: bool


def place(daemons: Document, node: Document) -> Place:
    spec, name = daemons["spec"]["template"]["spec"], node["metadata"]["name"]
    if spec.get("nodeName") and spec["nodeName"] != name:
        return Place(start=False, keep=False)
    test = matching.pod_node_test(spec)
    if test is not None and not test(name, node["metadata"].get("labels") or {}):
        return Place(start=False, keep=False)
    borne = tolerations(spec)
    taints = (node.get("spec") or {}).get("taints") or ()
    start = matching.untolerated(taints, borne, ("NoSchedule", "NoExecute")) is None
    keep = matching.untolerated(taints, borne, ("NoExecute",)) is None
    return Place(start, keep)


# -- all nodes ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Situation:
    """A DaemonSet, its nodes and its pods, at a moment."""

    daemons: Document
    digest: str  # of the present template
    places: Mapping[str, Place]  # by node
    pods: Mapping[str, Sequence[Document]]  # by node
    now: float

    @classmethod
    def of(
        cls,
        daemons: Document,
        digest: str,
        nodes: Iterable[Document],
        pods: Iterable[Document],
        *,
        now: float,
    ) -> Situation:
        by_node: dict[str, list[Document]] = {}
        for pod in pods:
            by_node.setdefault(node_of(pod), []).append(pod)
        return cls(daemons, digest, {n["metadata"]["name"]: place(daemons, n) for n in nodes}, by_node, now)

    def is_available(self, pod: Document) -> bool:
        return owning.is_available(pod, self.daemons["spec"].get("minReadySeconds") or 0, self.now)

    def is_new(self, pod: Document) -> bool:
        return bool((pod["metadata"].get("labels") or {}).get(HASH_LABEL) == self.digest)

    @property
    def wanted(self) -> list[str]:
        return [name for name, place in self.places.items() if place.start]


@dataclass(frozen=True, slots=True)
class Plan:
    """The nodes that get a pod, the pods that go, and those of them that have failed."""

    start: Sequence[str] = ()
    stop: Sequence[Document] = ()
    failed: Sequence[Document] = ()


def plan(situation: Situation) -> Plan:
    """One pod on each node that should have one; then, one after the other, pods of the present template."""
    start: list[str] = []
    stop: list[Document] = []
    failed: list[Document] = []
    for name, (begin, keep) in situation.places.items():
        there = situation.pods.get(name, ())
        dead = [p for p in there if owning.phase(p) == "Failed" and _stays(p)]
        rest = [p for p in there if p not in dead]
        failed += dead
        if begin and not rest:
            if not dead:
                start.append(name)
        elif not keep:
            stop += [p for p in rest if _stays(p)]
        else:
            stop += _surplus(situation, rest)
    for name, there in situation.pods.items():
        if name not in situation.places:
            stop += [p for p in there if _stays(p)]
    if start or stop or failed:
        return Plan(start, [*stop, *failed], failed)
    return _update(situation)


def _stays(pod: Document) -> bool:
    return "deletionTimestamp" not in pod["metadata"]


def _surplus(situation: Situation, pods: Sequence[Document]) -> list[Document]:
    """Of several pods on a node the oldest stays, and during a surge the oldest of each template."""
    surging = _limits(situation)[0] > 0
    new = [p for p in pods if situation.is_new(p)]
    groups = [new, [p for p in pods if p not in new]] if surging else [list(pods)]
    oldest_first = (sorted((p for p in group if _stays(p)), key=_age) for group in groups)
    return [pod for group in oldest_first for pod in group[1:]]


def _age(pod: Document) -> tuple[str, str]:
    return pod["metadata"].get("creationTimestamp") or "", pod["metadata"]["name"]


def _limits(situation: Situation) -> tuple[int, int]:
    """How many pods an update may have too many and too few."""
    strategy = situation.daemons["spec"].get("updateStrategy") or {}
    if strategy.get("type") == "OnDelete":
        return 0, 0
    rolling = strategy.get("rollingUpdate") or {}
    total = len(situation.wanted)
    surge = share(rolling.get("maxSurge", 0), total, up=True)
    unavailable = share(rolling.get("maxUnavailable", 1 if not surge else 0), total, up=True)
    return surge, unavailable if surge or unavailable else 1


def _update(situation: Situation) -> Plan:
    surge, unavailable = _limits(situation)
    if surge:
        return _surge(situation, surge)
    if not unavailable:
        return Plan()
    replaceable: list[Document] = []
    broken: list[Document] = []
    away = 0
    for name in situation.wanted:
        pods = [p for p in situation.pods.get(name, ()) if _stays(p)]
        if len(pods) != 1:
            away += 1
        elif not situation.is_available(pods[0]):
            away += 1
            broken += [p for p in pods if not situation.is_new(p)]
        elif not situation.is_new(pods[0]):
            replaceable += pods
    return Plan(stop=[*broken, *replaceable[: max(0, unavailable - away)]])


def _surge(situation: Situation, limit: int) -> Plan:
    """New pods come first; where one is available, the old one goes."""
    start: list[str] = []
    candidates: list[str] = []
    stop: list[Document] = []
    surging = 0
    for name in situation.wanted:
        pods = [p for p in situation.pods.get(name, ()) if _stays(p)]
        new = next((p for p in pods if situation.is_new(p)), None)
        old = [p for p in pods if not situation.is_new(p)]
        if not old:
            continue
        if new is None:
            (candidates if situation.is_available(old[0]) else start).append(name)
        elif situation.is_available(new):
            stop += old
        else:
            surging += 1
    return Plan(start=[*start, *candidates[: max(0, limit - surging)]], stop=stop)


def status_of(situation: Situation) -> Object:
    """The counts; of several pods on a node the oldest counts, and a new one rather than an old one."""
    current = ready = available = updated = misplaced = 0
    for name, (begin, _) in situation.places.items():
        there = sorted(
            (p for p in situation.pods.get(name, ()) if _stays(p)),
            key=lambda p: (not situation.is_new(p), _age(p)),
        )
        if begin and there:
            current += 1
            ready += any(owning.is_ready(p) for p in there)
            available += any(situation.is_available(p) for p in there)
            updated += situation.is_new(there[0])
        elif there:
            misplaced += 1
    desired = len(situation.wanted)
    status: Object = {
        "currentNumberScheduled": current,
        "numberMisscheduled": misplaced,
        "desiredNumberScheduled": desired,
        "numberReady": ready,
        "observedGeneration": situation.daemons["metadata"].get("generation", 0),
    }
    for name, count in (
        ("updatedNumberScheduled", updated),
        ("numberAvailable", available),
        ("numberUnavailable", desired - available),
    ):
        if count:
            status[name] = count
    known = situation.daemons.get("status") or {}
    return status | {name: known[name] for name in ("collisionCount", "conditions") if known.get(name)}

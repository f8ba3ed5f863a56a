"""Questions about capacity: how many more copies of a job fit, what runs out first, and what a change would do to that.

A job is all pods of some manifests. Copies of it arrive one after the other, nobody leaves, and the first copy that
does not fit as a whole ends the count. Every decision is the scheduler's.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from dray.api.claims import reserved_for
from dray.simulate.engine import simulate
from dray.simulate.model import UNITS_PER_DEVICE, Arrival, Cluster, Options, PodOutcome, SimulationError
from dray.simulate.sources.manifests import Manifests

if TYPE_CHECKING:
    from dray.api.types.core import Pod
    from dray.api.types.resource import DeviceClass, ResourceClaim
    from dray.simulate.sources.node_groups import NodeGroup

_FIRST_TRY, _GROWTH = 16, 4
#: these controllers make pods for one node only, so nothing has to find another place when it goes
_BOUND_TO_NODE = frozenset({"DaemonSet", "Node"})
_CLAIMS = "cannot allocate all claims"


@dataclass(frozen=True, slots=True)
class Capacity:
    """How many copies fit, and why no more do."""

    nodes: int
    devices: int
    allocated_percent: float  # before the first copy
    full_percent: float  # after the last one that fits
    fit: int
    limited: bool  # more copies were not tried
    runs_out: Mapping[str, int]  # what the next copy lacks → on how many nodes, most first
    message: str  # the scheduler's, about the first pod that does not fit
    displaced: int = 0  # pods of removed nodes
    homeless: int = 0  # those of them that fit nowhere else


def capacity(
    cluster: Cluster,
    documents: Sequence[Any],
    *,
    policy: str = "default",
    seed: int = 0,
    at_most: int = 10_000,
    displaced: Sequence[Arrival] = (),
    namespace: str = "default",
) -> Capacity:
    """``displaced``: pods that need a place before the first copy does."""
    job = _Job(documents, namespace)
    options = Options(policy=policy, seed=seed, retries=False)
    tried = min(_FIRST_TRY, at_most)
    while (fit := _complete(_outcomes(cluster, job, tried, displaced, options), job)) == tried < at_most:
        tried = min(tried * _GROWTH, at_most)
    # Once more with the first copy that does not fit, and with reasons.
    last = fit + (fit < at_most)
    result = simulate(cluster, job.events(last, displaced), replace(options, explains=True))
    pods = result.pods[len(displaced) :]
    failed = next((one for one in pods if one.scheduled is None), None)
    message = failed.reason if failed is not None else ""
    used = sum(one.units for one in result.pods[: len(displaced) + fit * job.size])
    last_sample = result.samples[-1]
    started = last_sample.allocated - sum(one.units for one in result.pods)
    total = last_sample.capacity or 1
    classes = job.classes
    return Capacity(
        nodes=result.nodes,
        devices=last_sample.capacity // UNITS_PER_DEVICE,
        allocated_percent=100 * started / total,
        full_percent=100 * (started + used) / total,
        fit=fit,
        limited=failed is None,
        runs_out=_shortages(message, classes),
        message=message,
        displaced=len(displaced),
        homeless=sum(one.scheduled is None for one in result.pods[: len(displaced)]),
    )


class _Job:
    """All pods of some manifests, as often as wanted."""

    def __init__(self, documents: Sequence[Any], namespace: str) -> None:
        self._source = Manifests(documents, namespace)
        self.size = self._source.pods
        if not self.size:
            raise SimulationError("there is no pod in the manifests")

    @property
    def classes(self) -> list[str]:
        """The device classes that its claims name."""
        found: dict[str, None] = {}
        for arrival in self._source.arrivals():
            for claim in arrival.claims:
                for request in (claim["spec"].get("devices") or {}).get("requests") or ():
                    options = [request.get("exactly"), *(request.get("firstAvailable") or ())]
                    found.update({one["deviceClassName"]: None for one in options if one})
        return list(found)

    def events(self, copies: int, displaced: Sequence[Arrival]) -> Iterator[Arrival]:
        yield from displaced
        for number, arrivals in enumerate(self._source.copied(copies)):
            for one in arrivals:
                yield Arrival(float(number + 1), one.pod, one.claims)


def _outcomes(
    cluster: Cluster, job: _Job, copies: int, displaced: Sequence[Arrival], options: Options
) -> Sequence[PodOutcome]:
    return simulate(cluster, job.events(copies, displaced), options).pods[len(displaced) :]


def _complete(pods: Sequence[PodOutcome], job: _Job) -> int:
    for number, one in enumerate(pods):
        if one.scheduled is None:
            return number // job.size
    return len(pods) // job.size


def _shortages(message: str, classes: Sequence[str]) -> dict[str, int]:
    """What the scheduler's message says nodes lack: ``0/9 nodes are available: 3 Insufficient cpu, 6 … . preemption: …``."""
    _, _, listed = message.partition(" nodes are available: ")
    found: dict[str, int] = {}
    for part in listed.partition(". ")[0].rstrip(".").split(", "):
        match = re.fullmatch(r"(\d+) (.+)", part)
        if match:
            found[_named(match[2], classes)] = int(match[1])
    return dict(sorted(found.items(), key=lambda item: (-item[1], item[0])))


def _named(reason: str, classes: Sequence[str]) -> str:
    if reason == _CLAIMS and classes:
        return f"devices ({', '.join(classes)})"
    if reason == "Too many pods":
        return "pods of a node"
    return reason.removeprefix("Insufficient ")


# -- what if -----------------------------------------------------------------------------------------------------------


def with_nodes(cluster: Cluster, group: NodeGroup, count: int) -> Cluster:
    """So many nodes of a group more, with their slices."""
    taken = {node["metadata"]["name"] for node in cluster.nodes}
    numbers = (number for number in range(len(taken) + count) if f"{group.name}-{number}" not in taken)
    made = [group.make(number) for number, _ in zip(numbers, range(count), strict=False)]
    return replace(
        cluster,
        nodes=[*cluster.nodes, *(node for node, _ in made)],
        slices=[*cluster.slices, *(one for _, slices in made for one in slices)],
    )


def with_classes(cluster: Cluster, classes: Iterable[DeviceClass]) -> Cluster:
    """These classes are there, instead of those with the same name."""
    by_name = {one["metadata"]["name"]: one for one in (*cluster.classes, *classes)}
    return replace(cluster, classes=list(by_name.values()))


def without_node(cluster: Cluster, name: str) -> tuple[Cluster, list[Arrival]]:
    """The cluster without a node and its slices, and the pods of that node that need another one."""
    if not any(node["metadata"]["name"] == name for node in cluster.nodes):
        raise SimulationError(f"there is no node {name}")
    gone = [pod for pod in cluster.pods if pod["spec"].get("nodeName") == name]
    freed = {pod["metadata"]["uid"]: [] for pod in gone}  # type: dict[str, list[ResourceClaim]]
    kept: list[ResourceClaim] = []
    for claim in cluster.claims:
        users = [one["uid"] for one in reserved_for(claim)]
        if users and all(uid in freed for uid in users):
            freed[users[0]].append({**claim, "status": {}})
        else:
            kept.append(claim)
    left = replace(
        cluster,
        nodes=[node for node in cluster.nodes if node["metadata"]["name"] != name],
        slices=[one for one in cluster.slices if one["spec"].get("nodeName") != name],
        pods=[pod for pod in cluster.pods if pod["spec"].get("nodeName") != name],
        claims=kept,
    )
    displaced = [
        Arrival(0.0, _without_place(pod), tuple(freed[pod["metadata"]["uid"]]))
        for pod in gone
        if not _bound_to_node(pod)
    ]
    return left, displaced


def _bound_to_node(pod: Pod) -> bool:
    return any(one.get("kind") in _BOUND_TO_NODE for one in pod["metadata"].get("ownerReferences") or ())


def _without_place(pod: Pod) -> Pod:
    spec = {key: value for key, value in pod["spec"].items() if key != "nodeName"}
    made: Pod = {**pod, "spec": spec}  # type: ignore[typeddict-item]
    return made

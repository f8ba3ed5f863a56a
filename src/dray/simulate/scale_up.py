"""Scale from zero: which node group, and how many nodes of it, would let pending pods run, and what that costs.

Nodes of a group are added as its template says, with the devices that they would publish, and the scheduler decides.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Required, TypedDict

from dray.simulate.capacity import with_nodes
from dray.simulate.engine import simulate
from dray.simulate.model import Arrival, Cluster, Options, SimulationError

if TYPE_CHECKING:
    from dray.api.types.core import Node, Taint
    from dray.api.types.resource import Device, ResourceSlice
    from dray.simulate.sources.node_groups import NodeGroup

#: labels that nodes of a group get anew
_OF_ONE_NODE = frozenset({"kubernetes.io/hostname", "dray.dev/node-group"})


@dataclass(frozen=True, slots=True)
class GroupOption:
    """What nodes of one group alone would do."""

    group: str
    nodes: int
    pods: int  # that run because of them
    pending: int  # that still do not
    price: float  # of these nodes for an hour


@dataclass(frozen=True, slots=True)
class ScaleUp:
    pods: int  # that ask for a node
    fit: int  # those that need no new node
    options: tuple[GroupOption, ...]  # each group alone, those that help most first, the cheapest first
    plan: tuple[GroupOption, ...]  # groups one after the other, until no pod is left or none helps

    @property
    def pending(self) -> int:
        """Pods that run after nothing that there is."""
        return self.plan[-1].pending if self.plan else self.pods - self.fit

    @property
    def price(self) -> float:
        return sum(one.price for one in self.plan)


def scale_up(
    cluster: Cluster,
    arrivals: Sequence[Arrival],
    groups: Sequence[NodeGroup],
    *,
    policy: str = "default",
    seed: int = 0,
    at_most: int = 1000,
) -> ScaleUp:
    """``at_most``: nodes of a group."""
    options = Options(policy=policy, seed=seed, retries=False)
    fit = _running(cluster, arrivals, options)
    alone = [_option(cluster, arrivals, group, fit, at_most, options) for group in groups]
    plan: list[GroupOption] = []
    grown, running, left = cluster, fit, list(groups)
    while running < len(arrivals) and left:
        tried = [(_option(grown, arrivals, group, running, at_most, options), group) for group in left]
        helpful = [(one, group) for one, group in tried if one.pods]
        if not helpful:
            break
        best, group = min(
            helpful, key=lambda pair: (pair[0].price / pair[0].pods, pair[0].nodes, pair[0].group)
        )
        plan.append(best)
        grown, running = with_nodes(grown, group, best.nodes), running + best.pods
        left.remove(group)
    return ScaleUp(
        pods=len(arrivals),
        fit=fit,
        options=tuple(sorted(alone, key=lambda one: (-one.pods, one.price, one.nodes, one.group))),
        plan=tuple(plan),
    )


def _running(cluster: Cluster, arrivals: Sequence[Arrival], options: Options) -> int:
    return sum(one.scheduled is not None for one in simulate(cluster, arrivals, options).pods)


def _option(
    cluster: Cluster,
    arrivals: Sequence[Arrival],
    group: NodeGroup,
    before: int,
    at_most: int,
    options: Options,
) -> GroupOption:
    """The fewest nodes that let run as many pods as any number of them would."""

    def running(nodes: int) -> int:
        return _running(with_nodes(cluster, group, nodes), arrivals, options)

    few, enough = 0, min(len(arrivals) - before, at_most)
    most = running(enough) if enough else before
    while enough - few > 1:
        middle = (few + enough) // 2
        if running(middle) >= most:
            enough = middle
        else:
            few = middle
    nodes = enough if most > before else 0
    gained = max(most - before, 0)
    return GroupOption(group.name, nodes, gained, len(arrivals) - before - gained, nodes * group.price)


class _Taint(TypedDict, total=False):
    key: Required[str]
    value: str
    effect: Required[str]


class _Slices(TypedDict):
    driver: str
    devices: Sequence[Device]


class _NodeGroup(TypedDict):
    """A node group as its file has it."""

    name: str
    count: int
    price: float
    allocatable: Mapping[str, str]
    labels: Mapping[str, str]
    taints: Sequence[_Taint]
    slices: Sequence[_Slices]


class _NodeGroupFile(TypedDict):
    groups: Sequence[_NodeGroup]


def node_template(name: str, nodes: Sequence[Node], slices: Sequence[ResourceSlice]) -> _NodeGroupFile:
    """A node group with nodes like this one, as a document of a file for node groups."""
    node = next((one for one in nodes if one["metadata"]["name"] == name), None)
    if node is None:
        raise SimulationError(f"there is no node {name}")
    devices: dict[str, list[Device]] = {}
    for one in slices:
        spec = one["spec"]
        if spec.get("nodeName") != name:
            continue
        if spec.get("sharedCounters"):
            raise SimulationError(
                f"node {name}: slice {one['metadata']['name']} has shared counters, which templates cannot express"
            )
        devices.setdefault(spec["driver"], []).extend(spec.get("devices") or ())
    labels = node["metadata"].get("labels") or {}
    # What Kubernetes says of the state of this one node is not true of its group.
    taints = [
        _taint(one)
        for one in (node.get("spec") or {}).get("taints") or ()
        if not one.get("key", "").startswith("node.kubernetes.io/")
    ]
    group: _NodeGroup = {
        "name": f"like-{name}",
        "count": 1,
        "price": 0.0,
        "allocatable": dict((node.get("status") or {}).get("allocatable") or {}),
        "labels": {key: value for key, value in labels.items() if key not in _OF_ONE_NODE},
        "taints": taints,
        "slices": [{"driver": driver, "devices": listed} for driver, listed in sorted(devices.items())],
    }
    return {"groups": [group]}


def _taint(taint: Taint) -> _Taint:
    """Without the time at which this node got it."""
    if "value" not in taint:
        return {"key": taint["key"], "effect": taint["effect"]}
    return {"key": taint["key"], "value": taint["value"], "effect": taint["effect"]}


def cluster_api_annotations(
    name: str, nodes: Sequence[Node], slices: Sequence[ResourceSlice]
) -> dict[str, object]:
    """What cluster-autoscaler wants of a MachineDeployment of Cluster API whose nodes are like this one, to scale from zero.

    It makes as many devices of one driver as the annotations say; attributes and capacities have no place in them.
    """
    [group] = node_template(name, nodes, slices)["groups"]
    allocatable, taken = group["allocatable"], group["slices"]
    if len(taken) > 1:
        drivers = ", ".join(one["driver"] for one in taken)
        raise SimulationError(
            f"node {name} has devices of {drivers}, and cluster-autoscaler's annotations name one driver: "
            "keep one node of the group running"
        )
    taints = (f"{one['key']}={one.get('value', '')}:{one['effect']}" for one in group["taints"])
    found = {
        "cpu": allocatable.get("cpu"),
        "memory": allocatable.get("memory"),
        "ephemeral-disk": allocatable.get("ephemeral-storage"),
        "maxPods": allocatable.get("pods"),
        "labels": ",".join(f"{key}={value}" for key, value in sorted(group["labels"].items())),
        "taints": ",".join(taints),
    }
    for one in taken:
        found |= {"dra-driver": one["driver"], "gpu-count": str(len(one["devices"]))}
    annotations = {
        f"capacity.cluster-autoscaler.kubernetes.io/{key}": str(value)
        for key, value in found.items()
        if value
    }
    return {"metadata": {"annotations": annotations}}

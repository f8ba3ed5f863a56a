"""Scale from zero: the group and the number of nodes that let pending pods run, and templates of live nodes."""

from __future__ import annotations

from typing import Any

import pytest

from dray.simulate.model import Arrival, Cluster, SimulationError
from dray.simulate.scale_up import node_template, scale_up
from dray.simulate.sources.node_groups import NodeGroup, NodeGroups, SliceTemplate
from dray.simulate.sources.shapes import PodShape

CLASS: Any = {"metadata": {"name": "gpu"}, "spec": {}}
EMPTY = Cluster(classes=[CLASS])


def group(name: str, gpus: int, price: float, cpu: str = "64") -> NodeGroup:
    slices = [SliceTemplate("gpu.example.com", gpus)] if gpus else []
    return NodeGroup(name, allocatable={"cpu": cpu, "memory": "64Gi"}, slices=slices, price=price)


def pods(number: int, gpus: int) -> list[Arrival]:
    shape = PodShape(cpu="1", count=gpus, device_class="gpu" if gpus else "")
    return [Arrival(0.0, *shape.make(f"p{gpus}-{index}")) for index in range(number)]


def test_the_cheapest_group_that_lets_all_run_is_chosen() -> None:
    found = scale_up(
        EMPTY, pods(10, 1), [group("big", 8, 12.0), group("small", 2, 2.0), group("plain", 0, 0.1)]
    )
    assert [(one.group, one.nodes, one.pods, one.price) for one in found.options] == [
        ("small", 5, 10, 10.0),
        ("big", 2, 10, 24.0),
        ("plain", 0, 0, 0.0),
    ]
    assert [(one.group, one.nodes) for one in found.plan] == [("small", 5)]
    assert (found.pending, found.price) == (0, 10.0)


def test_groups_add_up_where_none_is_enough() -> None:
    found = scale_up(
        EMPTY, [*pods(2, 4), *pods(4, 0)], [group("tiny", 0, 1.0, cpu="2"), group("big", 4, 10.0, cpu="1")]
    )
    assert [(one.group, one.nodes, one.pods) for one in found.plan] == [("tiny", 2, 4), ("big", 2, 2)]
    assert found.pending == 0


def test_pods_that_fit_already_need_no_node_and_some_fit_nowhere() -> None:
    cluster = NodeGroups([group("here", 2, 0)], [CLASS]).cluster()
    found = scale_up(cluster, [*pods(2, 1), *pods(1, 16)], [group("big", 8, 1.0)])
    assert (found.fit, found.plan, found.pending) == (2, (), 1)


def test_a_template_of_a_node_makes_nodes_like_it() -> None:
    original = group("a", 3, 0)
    node, slices = original.make(0)
    node["metadata"]["labels"] |= {"zone": "z1"}  # type: ignore[operator]
    node["spec"] = {
        "taints": [
            {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"},
            {"key": "gpu", "effect": "NoSchedule"},
        ]
    }
    made = NodeGroups.parse(node_template("a-0", [node], slices)).groups[0]
    copy, copied = made.make(7)
    assert copy["metadata"]["labels"]["zone"] == "z1"
    assert copy["metadata"]["labels"]["kubernetes.io/hostname"] == copy["metadata"]["name"]
    assert copy["spec"]["taints"] == [{"key": "gpu", "effect": "NoSchedule"}]
    assert copy["status"]["allocatable"] == node["status"]["allocatable"]
    assert copied[0]["spec"]["devices"] == slices[0]["spec"]["devices"]
    with pytest.raises(SimulationError, match="there is no node b"):
        node_template("b", [node], slices)

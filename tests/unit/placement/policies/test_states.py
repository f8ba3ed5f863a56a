"""The states of nodes, and how many of them are remembered."""

from __future__ import annotations

import gc
from types import SimpleNamespace
from typing import Any

from dray.allocation import Features
from dray.allocation.pools import Pool
from dray.allocation.usage import UNUSED
from dray.api.compute import ComputeResources
from dray.api.identity import PoolID
from dray.placement.cache.nodes import NodeInfo
from dray.placement.policies import states
from dray.placement.policies.model import NodeState
from dray.placement.policies.states import NodeStates


def node_states() -> NodeStates:
    no_devices: Any = SimpleNamespace(pools=lambda node, features: ())
    nothing: Any = None
    return NodeStates(no_devices, nothing, nothing, sees_claims=False)


def a_node(name: str) -> NodeInfo:
    node = NodeInfo(name)
    node.document = {"metadata": {"name": name}, "spec": {}, "status": {}}
    return node


def request(node: NodeInfo, cpu: int) -> None:
    node.requested = ComputeResources(cpu=cpu)
    node.generation += 1


def test_former_states_of_nodes_are_forgotten_in_time() -> None:
    known, node, idle = node_states(), a_node("busy"), a_node("idle")
    state_of_idle = known.of(idle)
    before = sum(isinstance(o, NodeState) for o in gc.get_objects())
    for cpu in range(3 * states._REMEMBERED):
        request(node, cpu + 1)
        known.of(node)
    after = sum(isinstance(o, NodeState) for o in gc.get_objects())
    assert after - before <= states._REMEMBERED + 1
    # The state that a node is in stays the same object: scores are found by it.
    idle.generation += 1
    assert known.of(idle) is state_of_idle


def test_nodes_that_are_alike_are_in_one_state() -> None:
    known, one, other = node_states(), a_node("one"), a_node("other")
    assert known.of(one) is known.of(other)
    request(other, 1000)
    assert known.of(one) is not known.of(other)
    request(other, 0)
    assert known.of(one) is known.of(other)


def test_columns_of_pools_that_have_gone_are_forgotten_by_the_devices_in_them(monkeypatch) -> None:
    monkeypatch.setattr(states, "_KEPT_DEVICES", 10)
    pools: dict[str, Any] = {}
    inventory: Any = SimpleNamespace(pools=lambda node, features: pools[node["metadata"]["name"]])
    nothing: Any = SimpleNamespace(of=lambda id: UNUSED)
    known = NodeStates(inventory, nothing, Features(), sees_claims=False)
    lasting, changing = a_node("lasting"), a_node("changing")
    pools["lasting"] = (Pool(PoolID("d", "lasting")),)
    for generation in range(100):
        pools["changing"] = (Pool(PoolID("d", f"changing-{generation}")),)
        for node in (lasting, changing):
            node.generation += 1
            known.of(node)
        held = known._columns | known._former_columns
        assert pools["lasting"] in held and pools["changing"] in held and len(held) <= 2 * 10

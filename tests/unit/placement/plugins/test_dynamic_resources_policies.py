"""Which node, and which of its devices, the policies of a profile choose."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.scheduler import Harness, claim


def nodes_taken(policy: str, *, nodes: int, devices: int, pods: int) -> list[str]:
    stage = Harness({f"n{i}": [f"d{j}" for j in range(devices)] for i in range(nodes)}, device_policy=policy)
    return [stage.place(stage.user(claim()))[0][0] for _ in range(pods)]


def test_packing_fills_a_node_before_the_next() -> None:
    taken = nodes_taken("pack", nodes=3, devices=4, pods=12)
    for at in (0, 4, 8):
        assert len(set(taken[at : at + 4])) == 1
    assert len(set(taken)) == 3


def test_spreading_goes_round_the_nodes() -> None:
    taken = nodes_taken("spread", nodes=4, devices=4, pods=16)
    for at in (0, 4, 8, 12):
        assert len(set(taken[at : at + 4])) == 4


def test_packing_devices_outweighs_spreading_cpu_and_memory() -> None:
    stage = Harness({"a": ["d0", "d1", "d2"], "b": ["d0", "d1", "d2"]}, device_policy="pack")
    taken = [stage.place(stage.user(claim(), requests={"cpu": "1", "memory": "2Gi"}))[0][0] for _ in range(3)]
    assert len(set(taken)) == 1


def on_root(name: str, root: str) -> dict[str, Any]:
    return {"name": name, "attributes": {"root": {"string": root}}}


@pytest.mark.parametrize(("policy", "roots"), [("pack", {"r0"}), ("spread", {"r0", "r1"})])
def test_within_a_node_groups_of_devices_are_filled_or_balanced(policy: str, roots: set[str]) -> None:
    devices = [on_root("d0", "r0"), on_root("d1", "r0"), on_root("d2", "r1"), on_root("d3", "r1")]
    stage = Harness({"a": devices}, device_policy=policy)
    root = {d["name"]: d["attributes"]["root"]["string"] for d in devices}
    assert {root[stage.place(stage.user(claim()))[0][1]] for _ in range(2)} == roots


def test_devices_that_come_free_are_packed_again() -> None:
    stage = Harness({"a": ["d0", "d1"], "b": ["d0", "d1"]}, device_policy="pack")
    first = claim()
    where = stage.place(stage.user(first))[0][0]
    for _ in range(2):
        stage.place(stage.user(claim()))
    stage.claim_cache.remove_claim(first)  # both nodes now have one device in use
    other = ({"a", "b"} - {where}).pop()
    assert {stage.place(stage.user(claim()))[0][0] for _ in range(2)} == {where, other}

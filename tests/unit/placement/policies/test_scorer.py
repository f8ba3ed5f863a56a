"""Policies at work in the scheduler: what they see, and what happens when they are at fault."""

from __future__ import annotations

from typing import Any

import pytest

from dray.allocation import AllocationError
from dray.placement.outcome import Bind, Failure, Outcome
from dray.placement.policies import registry
from dray.placement.policies.model import DevicePolicy, NodeState, PolicyError, Request
from dray.placement.policies.ties import Ties
from tests.support.scheduler import Harness, claim


class Backwards(DevicePolicy):
    name = "backwards"

    def score(self, request: Request, node: NodeState) -> float:
        return node.total_free / 100

    def order(self, request: Request, node: NodeState) -> list[int]:
        return list(range(len(node.free)))[::-1]


class Raising(DevicePolicy):
    name = "raising"

    def score(self, request: Request, node: NodeState) -> float:
        raise KeyError("temperature")


class Nonsense(DevicePolicy):
    name = "nonsense"

    def order(self, request: Request, node: NodeState) -> list[int]:
        return [0, 0]


@pytest.fixture
def of_others(monkeypatch: pytest.MonkeyPatch) -> None:
    types = {one.name: one for one in (Backwards, Raising, Nonsense)}
    monkeypatch.setattr(registry, "BUILT_IN", {**registry.BUILT_IN, **types})


def decide(policy: str, **nodes: list[str]) -> Outcome:
    harness = Harness(nodes, device_policy=policy)
    return harness.decide(harness.user(claim("c")))


@pytest.mark.usefixtures("of_others")
def test_a_policy_chooses_node_and_devices() -> None:
    decided = decide("backwards", small=["a"], large=["a", "b", "c"])
    assert isinstance(decided, Bind)
    assert decided.node == "large"
    assert devices(decided) == ["c"]


@pytest.mark.usefixtures("of_others")
@pytest.mark.parametrize(
    ("policy", "complaint"),
    [
        ("raising", "device policy 'raising' raised KeyError: 'temperature'"),
        ("nonsense", "ordered 2 devices as [0, 0]: it must name the position of each device once"),
    ],
)
def test_a_policy_at_fault_fails_the_attempt_and_is_named(policy: str, complaint: str) -> None:
    decided = decide(policy, n=["a", "b"])
    assert isinstance(decided, Failure)
    assert complaint in decided.message


def test_a_policy_that_does_not_exist_is_an_error_that_names_those_that_do() -> None:
    with pytest.raises(PolicyError, match=r"no device policy 'tidy'; there are default, pack, .*fgd"):
        registry.policy_type("tidy")
    assert issubclass(PolicyError, AllocationError)


def test_the_order_of_equal_nodes_follows_from_the_seed_alone() -> None:
    names = [f"node-{number}" for number in range(50)]
    one, again, other = (sorted(names, key=Ties(seed).rank) for seed in (1, 1, 2))
    assert one == again != other
    assert sorted(names, key=lambda name: Ties(1).mixed(name, 7)) != one


def devices(decided: Bind) -> list[str]:
    plan: Any = decided.reservation
    return [r["device"] for result in plan.plan.results for r in result["devices"]["results"]]

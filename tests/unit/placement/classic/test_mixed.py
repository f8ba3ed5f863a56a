"""Pods with claims of both generations."""

from __future__ import annotations

from typing import Any, cast

import pytest

from dray.placement.claims import ClaimPostFilter, ClassicDeallocate, DeleteLeftover
from dray.placement.classic.attempt import ClassicPlan, ClassicReservation
from dray.placement.classic.mixed import MixedAttempt, MixedPlan, MixedReservation
from dray.placement.classic.plugin import ClassicPlugin
from dray.placement.outcome import Bind, Unschedulable
from dray.placement.plugins.dynamic_resources import DeviceReservation, NodePlan
from dray.placement.status import Rejection
from tests.support.classic import claim, node, plugin, pod

PLAN = NodePlan((), ())


class FakeDevices:
    """The DynamicResources plugin and its attempt for a pod that other nodes than these reject."""

    scores_matter = False
    unallocated = ()

    def __init__(self, *nodes: str, leftover: Any = None) -> None:
        self.nodes = nodes
        self.leftover = leftover
        self.others: frozenset[str] = frozenset()

    def pre_filter(self, pod: Any, others: frozenset[str]) -> FakeDevices:
        self.others = others
        return self

    def filter(self, node: Any) -> NodePlan | Rejection:
        return PLAN if node.name in self.nodes else Rejection("x", ("no device",))

    def reserve(self, node: str, plan: NodePlan) -> Bind:
        return Bind(node, DeviceReservation((), plan))

    def post_filter(self, rejected_by: frozenset[str]) -> ClaimPostFilter:
        return ClaimPostFilter("from devices", (DeleteLeftover(self.leftover),) if self.leftover else ())


def mixed(found: ClassicPlugin, devices: FakeDevices) -> MixedAttempt:
    attempt = found.beside(cast(Any, devices)).pre_filter(pod("a"))
    assert devices.others == {"a"}
    assert isinstance(attempt, MixedAttempt)
    return attempt


def test_a_node_must_fit_both_generations() -> None:
    status = {"resourceClaims": [{"name": "a", "unsuitableNodes": ["n-0"]}]}
    attempt = mixed(plugin(claim("a"), release=None, context={"status": status}), FakeDevices("n-0", "n-1"))
    fits = [name for name in ("n-0", "n-1", "n-2") if not isinstance(attempt.filter(node(name)), Rejection)]
    assert fits == attempt.classic.feasible == ["n-1"]


def test_a_mixed_pod_is_bound_when_drivers_have_allocated_its_classic_claims() -> None:
    plan = MixedPlan(ClassicPlan(), PLAN)
    waiting = mixed(plugin(claim("a"), release=None), FakeDevices("n"))
    assert isinstance(waiting.reserve("n", plan), Unschedulable)
    allocated: Any = claim("a", status={"allocation": {}})
    decision = mixed(plugin(allocated, release=None), FakeDevices("n")).reserve("n", plan)
    classic = ClassicReservation((allocated,), ClassicPlan())
    assert decision == Bind("n", MixedReservation(classic, DeviceReservation((), PLAN)))


@pytest.mark.parametrize("users", [["p"], ["p", "q"], []])
def test_a_claim_that_a_driver_allocated_for_this_pod_alone_is_freed_when_other_claims_fit_nowhere(
    users: list[str],
) -> None:
    status = {"allocation": {"shareable": True}, "reservedFor": [{"uid": uid} for uid in users]}
    allocated: Any = claim("a", status=status)
    leftover: Any = {"metadata": {"name": "left"}}
    attempt = mixed(plugin(allocated, release=None), FakeDevices(leftover=leftover))
    freed = (ClassicDeallocate(allocated, None),) if users == ["p"] else ()
    result = attempt.post_filter(frozenset({"DynamicResources"}))
    assert result == ("from devices", (*freed, DeleteLeftover(leftover)))


def test_a_classic_claim_that_is_available_on_other_nodes_is_freed_and_a_leftover_claim_kept() -> None:
    elsewhere = {"nodeSelectorTerms": [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["m"]}]}]}  # fmt: skip
    allocated: Any = claim("a", status={"allocation": {"availableOnNodes": elsewhere}})
    leftover: Any = {"metadata": {"name": "left"}}
    attempt = mixed(plugin(allocated, release=None), FakeDevices("n", leftover=leftover))
    assert isinstance(attempt.filter(node("n")), Rejection)
    assert attempt.post_filter(frozenset({"DynamicResources"})).writes == (
        ClassicDeallocate(allocated, None),
    )

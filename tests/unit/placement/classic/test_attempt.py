"""Attempts to schedule pods with classic claims: what nodes give, and what drivers are told."""

from __future__ import annotations

from typing import Any

import pytest

from dray.api.release import V1_27, V1_30, Release
from dray.placement.claims import PublishSchedulingContext, ReleaseReservations
from dray.placement.classic.attempt import (
    ClaimInformation,
    ClassicAttempt,
    ClassicPlan,
    ClassicReservation,
)
from dray.placement.outcome import Bind, Unschedulable
from dray.placement.status import Rejection
from tests.support.classic import begun, claim, node, plugin, pod, wanted


def publication(attempt: ClassicAttempt, name: str) -> PublishSchedulingContext:
    found = attempt.scheduling_context(name)
    assert found is not None
    return found


def test_one_delayed_claim_gets_its_node_selected_at_once() -> None:
    attempt = begun(plugin(claim("a")), pod("a"))
    attempt.filter(node("n-1"))
    attempt.filter(node("n-0"))
    context = publication(attempt, "n-1")
    assert (context.selected, context.potential) == ("n-1", ["n-0", "n-1"])


def test_a_scheduling_context_names_128_nodes_at_most_and_among_them_the_selected_one() -> None:
    attempt = begun(plugin(claim("a")), pod("a"))
    for number in range(200):
        attempt.filter(node(f"n-{number:03}"))
    potential = publication(attempt, "n-199").potential
    assert potential is not None
    assert len(potential) == 128
    assert potential == sorted(potential)
    assert "n-199" in potential


def test_two_delayed_claims_wait_for_both_answers() -> None:
    def attempt(*answers: str) -> ClassicAttempt:
        status = {"resourceClaims": [{"name": name} for name in answers]}
        context = {"spec": {"potentialNodes": ["n"]}, "status": status}
        found = begun(plugin(claim("a"), claim("b"), context=context), pod("a", "b"))
        found.filter(node("n"))
        return found

    assert attempt("a").scheduling_context("n") is None
    assert publication(attempt("a", "b"), "n").selected == "n"


def test_a_node_that_a_driver_calls_unsuitable_is_rejected() -> None:
    status = {"resourceClaims": [{"name": "a", "unsuitableNodes": ["n"]}]}
    attempt = begun(plugin(claim("a"), context={"status": status}), pod("a"))
    assert isinstance(attempt.filter(node("n")), Rejection)
    assert isinstance(attempt.filter(node("m")), ClassicPlan)


@pytest.mark.parametrize(("release", "selected"), [(V1_30, None), (None, "n")])
def test_a_pod_with_claims_for_drivers_and_for_the_scheduler_waits_for_ever_only_as_in_1_30(
    release: Release | None, selected: str | None
) -> None:
    found: Any = plugin(claim("a"), claim("b"), release=release)
    attempt = begun(found, pod("a", "b"))
    second = attempt.entries[1]
    attempt.entries[1] = ClaimInformation("b", second.claim, wanted=wanted("true"))
    assert publication(attempt, "n").selected == selected


@pytest.mark.parametrize("release", [V1_30, None])
def test_reservations_by_drivers_are_released_while_a_pod_waits_only_as_in_1_30(
    release: Release | None,
) -> None:
    status = {"allocation": {}, "reservedFor": [{"uid": "p"}]}
    answer = {
        "spec": {"potentialNodes": ["n"], "selectedNode": "n"},
        "status": {"resourceClaims": [{"name": "b"}]},
    }
    reserved: Any = claim("a", status=status)
    attempt = begun(plugin(reserved, claim("b"), release=release, context=answer), pod("a", "b"))
    attempt.filter(node("n"))
    decision = attempt.reserve("n", ClassicPlan())
    assert isinstance(decision, Unschedulable)
    assert decision.writes == ((ReleaseReservations((reserved,)),) if release else ())


def test_of_several_claims_the_first_that_rules_a_node_out_gives_the_reason() -> None:
    attempt = begun(plugin(claim("a"), claim("b"), structured=True), pod("a", "b"))
    second: Any = claim("b")
    attempt.entries[1] = ClaimInformation("b", second, nodes=lambda name, labels: False)
    rejection = attempt.filter(node("n"))
    assert isinstance(rejection, Rejection)
    assert "unsuitable" in rejection.reasons[0]
    attempt.entries.reverse()
    rejection = attempt.filter(node("n"))
    assert isinstance(rejection, Rejection)
    assert "excluded" in rejection.reasons[0]


def test_a_pod_whose_claims_are_all_allocated_is_bound() -> None:
    allocated: Any = claim("a", status={"allocation": {"shareable": True}})
    decision = begun(plugin(allocated), pod("a")).reserve("n", ClassicPlan())
    assert decision == Bind("n", ClassicReservation((allocated,), ClassicPlan()))


def test_a_waiting_pod_publishes_its_scheduling_context() -> None:
    decision = begun(plugin(claim("a")), pod("a")).reserve("n", ClassicPlan())
    assert isinstance(decision, Unschedulable)
    assert (decision.message, decision.waiting) == ("waiting for resource driver", True)
    assert decision.writes == (PublishSchedulingContext(None, "n", ["n"]),)


def test_until_1_27_waiting_for_a_driver_is_an_error() -> None:
    decision = begun(plugin(claim("a"), release=V1_27), pod("a")).reserve("n", ClassicPlan())
    assert isinstance(decision, Unschedulable)
    assert (decision.reason, decision.waiting) == ("SchedulerError", True)
    assert decision.message.endswith("waiting for resource driver to allocate resource")

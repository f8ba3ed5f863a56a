"""Preemption that frees devices, which a profile has to ask for."""

from __future__ import annotations

from typing import Any

import pytest

from dray.placement.cache.pods import PodInfo
from dray.placement.outcome import Bind, Unschedulable
from dray.placement.preemption import DisruptionBudget
from tests.support.scheduler import Harness, claim


def stage(**nodes: int) -> Harness:
    return Harness({name: [f"d{i}" for i in range(n)] for name, n in nodes.items()}, device_preemption=True)


def failed(s: Harness, wanted: PodInfo) -> Unschedulable:
    decision = s.decide(wanted)
    assert isinstance(decision, Unschedulable)
    return decision


def evicted(s: Harness, wanted: PodInfo) -> tuple[str, set[str]]:
    """Node and victims, of which the placement is told as the scheduler tells it."""
    decision = failed(s, wanted)
    assert decision.candidate is not None, decision.message
    s.placement.nominator.nominate(wanted, decision.candidate.node, decision.device_nomination)
    return decision.candidate.node, {v.name for v in decision.candidate.victims}


def gone(s: Harness, *pods: PodInfo) -> None:
    for pod in pods:
        s.cluster.remove_pod(pod.uid)


def free(s: Harness, name: str) -> None:
    """What the claim controller does when the last user has gone."""
    held = s.claim_cache.claim("default", name)
    assert held is not None
    version = str(int(held["metadata"]["resourceVersion"]) + 1)
    s.claim_cache.set_claim(
        {**held, "metadata": {**held["metadata"], "resourceVersion": version}, "status": {}}
    )


def test_preemption_of_devices_is_off_by_default() -> None:
    s = Harness({"a": ["d0"]})
    s.place(s.user(claim(), priority=1))
    decision = failed(s, s.user(claim(), priority=10))
    assert decision.candidate is None
    assert "1 Preemption is not helpful for scheduling." in decision.message


def test_the_pod_of_lower_priority_gives_its_device_back() -> None:
    s = stage(a=1)
    held = claim("held")
    low = s.user(held, name="low", priority=1)
    s.place(low)
    high = s.user(claim(), priority=10)
    assert evicted(s, high) == ("a", {"low"})
    gone(s, low)
    free(s, "held")
    decision = s.decide(high)
    assert isinstance(decision, Bind) and decision.node == "a"


def test_equals_keep_their_devices() -> None:
    s = stage(a=1)
    s.place(s.user(claim(), priority=10))
    decision = failed(s, s.user(claim(), priority=10))
    assert decision.candidate is None
    assert "No preemption victims found for incoming pod" in decision.message


def test_a_pod_may_decline() -> None:
    s = stage(a=1)
    s.place(s.user(claim(), priority=1))
    decision = failed(s, s.user(claim(), priority=10, preemptionPolicy="Never"))
    assert decision.candidate is None
    assert "not eligible due to preemptionPolicy=Never." in decision.message


def test_the_lowest_priorities_are_evicted_and_no_more_than_necessary() -> None:
    s = stage(a=2, b=2)
    # Filled one after the other: each node gets one of the two pods of either kind.
    for priority in (5, 5, 1, 1):
        s.place(s.user(claim(), name=f"p{priority}", priority=priority))
    _, victims = evicted(s, s.user(claim(), priority=10))
    assert victims == {"p1"}


def test_one_pod_with_two_devices_is_evicted_rather_than_two_pods_with_one() -> None:
    s = stage(a=4)
    for name, count in (("large", 2), ("small", 1), ("smaller", 1)):
        s.place(s.user(claim(count=count), name=name, priority=1))
    assert evicted(s, s.user(claim(count=2), priority=10)) == ("a", {"large"})


def test_pods_without_a_suitable_device_are_not_evicted() -> None:
    model = 'device.attributes["gpu.example.com"].model == "{}"'
    devices: list[str | dict[str, Any]] = [
        {"name": m, "attributes": {"model": {"string": m}}} for m in ("big", "little")
    ]
    s = Harness({"a": devices}, device_preemption=True)
    for m in ("big", "little"):
        s.place(s.user(claim(selector=model.format(m)), name=m, priority=1))
    assert evicted(s, s.user(claim(selector=model.format("little")), priority=10)) == ("a", {"little"})
    hopeless = failed(s, s.user(claim(selector=model.format("huge")), priority=10))
    assert hopeless.candidate is None


def test_a_shared_claim_is_free_only_when_all_its_users_are_evicted() -> None:
    s = stage(a=1)
    shared = claim("shared")
    for name, priority in (("one", 1), ("two", 2)):
        s.place(s.user(shared, name=name, priority=priority))
        shared = s.claim_cache.claim("default", "shared")  # type: ignore[assignment]
    assert evicted(s, s.user(claim(), priority=10)) == ("a", {"one", "two"})
    assert failed(s, s.user(claim(), priority=2)).candidate is None


def test_a_user_that_cannot_be_evicted_keeps_a_shared_claim() -> None:
    s = stage(a=1)
    shared = claim("shared")
    for name, priority in (("low", 1), ("high", 20)):
        s.place(s.user(shared, name=name, priority=priority))
        shared = s.claim_cache.claim("default", "shared")  # type: ignore[assignment]
    assert failed(s, s.user(claim(), priority=10)).candidate is None


def test_disruption_budgets_are_not_violated_where_possible() -> None:
    s = stage(a=1, b=1)
    s.place(s.user(claim(), name="guarded", priority=1, labels={"app": "db"}))
    s.place(s.user(claim(), name="unguarded", priority=5))
    s.budgets.append(
        DisruptionBudget.of(
            {
                "metadata": {"namespace": "default", "name": "db"},
                "spec": {"selector": {"matchLabels": {"app": "db"}}},
                "status": {"disruptionsAllowed": 0},
            }
        )
    )
    _, victims = evicted(s, s.user(claim(), priority=10))
    assert victims == {"unguarded"}


def test_no_further_pod_is_evicted_while_the_devices_are_being_freed() -> None:
    s = stage(a=1, b=1)
    lows = [s.user(claim(f"held-{i}"), priority=1, name=f"low-{i}") for i in range(2)]
    for low in lows:
        s.place(low)
    high = s.user(claim(), priority=10)
    node, victims = evicted(s, high)
    gone(s, *(low for low in lows if low.name in victims))  # but their claims are not free yet
    again = failed(s, high)
    assert again.candidate is None and again.keeps_nomination
    free(s, victims.pop().replace("low", "held"))
    decision = s.decide(high)
    assert isinstance(decision, Bind) and decision.node == node


@pytest.mark.parametrize(("priority", "gets_it"), [(1, False), (10, False), (11, True)])
def test_freed_devices_are_kept_for_the_preemptor(priority: int, *, gets_it: bool) -> None:
    s = stage(a=1)
    low = s.user(claim("held"), priority=1)
    s.place(low)
    high = s.user(claim(), priority=10)
    evicted(s, high)
    gone(s, low)
    free(s, "held")
    thief = s.user(claim(), priority=priority)
    assert isinstance(s.decide(thief), Bind) is gets_it
    s.placement.nominator.delete_nominated_pod(high.uid)
    assert isinstance(s.decide(thief), Bind)


def test_devices_for_extended_resources_are_freed_and_kept_too() -> None:
    s = stage(a=1)
    s.claim_cache.set_class(
        {"metadata": {"name": "gpu"}, "spec": {"extendedResourceName": "example.com/gpu"}}
    )
    low = s.user(claim("held"), name="low", priority=1)
    s.place(low)
    high = s.user(priority=10, requests={"example.com/gpu": "1"})
    assert evicted(s, high) == ("a", {"low"})
    gone(s, low)
    free(s, "held")
    assert not isinstance(s.decide(s.user(claim(), priority=1)), Bind)
    assert isinstance(s.decide(high), Bind)

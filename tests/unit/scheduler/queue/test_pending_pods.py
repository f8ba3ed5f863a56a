"""Pods without a node: whatever order informers tell of pods, groups and claims in, no gate stays closed, and an event
costs nothing for pods that it does not concern.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest

from dray.placement.cache.groups import GroupCache
from dray.placement.cache.nodes import ClusterCache
from dray.placement.cache.pods import PodInfo
from dray.placement.profiles import Profiles
from dray.placement.quirks import PlacementQuirks
from dray.scheduler.queue import queueing_hints
from dray.scheduler.queue.pending_pods import PendingPods
from dray.scheduler.queue.scheduling_queue import SchedulingQueue
from tests.support.scheduler import pod

CLAIM = {
    "metadata": {
        "name": "claim",
        "namespace": "default",
        "uid": "claim-uid",
        "ownerReferences": [{"kind": "PodGroup", "name": "g", "uid": "group-uid", "controller": True}],
    }
}
GROUP = {
    "metadata": {"name": "g", "namespace": "default", "uid": "group-uid"},
    "spec": {"schedulingPolicy": {"gang": {"minCount": 2}}},
}


def member(number: int) -> dict[str, Any]:
    return {
        "metadata": {"name": f"p{number}", "namespace": "default", "uid": f"uid-{number}"},
        "spec": {
            "containers": [],
            "schedulingGroup": {"podGroupName": "g"},
            "resourceClaims": [{"name": "c", "resourceClaimTemplateName": "t"}],
        },
        "status": {"resourceClaimStatuses": [{"name": "c", "resourceClaimName": "claim"}]},
    }


def pending_pods(*, gate: Callable[[PodInfo], str] = lambda pod: "") -> PendingPods:
    framework = SimpleNamespace(
        profile=SimpleNamespace(enabled=lambda plugin: True),
        claims=SimpleNamespace(pre_enqueue=gate),
        quirks=PlacementQuirks(),
    )
    profiles = SimpleNamespace(of=lambda pod: framework, by_name={"default-scheduler": framework})
    return PendingPods(
        SchedulingQueue(clock=lambda: 0.0), cast(Profiles, profiles), requeued_by_any_change=False,
        skipped=lambda pod: None, groups=GroupCache(), cluster=ClusterCache(), clock=lambda: 0.0,
    )  # fmt: skip


@pytest.mark.parametrize("order", [*itertools.permutations(("group", "claim", 0, 1))], ids=str)
def test_a_gang_is_tried_once_its_pods_its_group_and_their_claim_are_known(order: tuple[str | int, ...]):
    known: set[str] = set()
    pending = pending_pods(gate=lambda pod: "" if "claim" in known else "the claim is missing")
    assert pending.groups is not None
    for what in order:
        match what:
            case "group":
                pending.groups.set_group(cast(Any, GROUP))
            case "claim":
                known.add("claim")
                pending.recheck(cast(Any, CLAIM))
            case int():
                pending.add_or_update(f"uid-{what}", cast(Any, member(what)))
    tried = pending.queue.pop()
    assert tried is not None
    assert tried.gang is not None


def waiting(name: str, plugin: str) -> PodInfo:
    """A pod whose claim has been made from a template."""
    return pod(
        name,
        resourceClaims=[{"name": "c", "resourceClaimTemplateName": "t"}],
        status={"resourceClaimStatuses": [{"name": "c", "resourceClaimName": f"claim-of-{name}"}]},
        labels={"waits-for": plugin},
    )


def claim_of(name: str, **status: Any) -> Any:
    return {"metadata": {"name": f"claim-of-{name}", "namespace": "default", "uid": name}, "status": status}


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The pods that hints were asked about, one after the other."""
    names: list[str] = []
    for function in ("after_claim_event", "after_assigned_pod_event"):
        original = getattr(queueing_hints, function)

        def counting(old: Any, new: Any, original: Any = original) -> queueing_hints.ClusterEvent:
            event = original(old, new)

            def may_help(entry: Any) -> bool:
                names.append(entry.pod.name)
                return event.may_help(entry)

            return event._replace(may_help=may_help)

        monkeypatch.setattr(queueing_hints, function, counting)
    return names


def test_an_event_asks_only_the_pods_that_it_may_concern(asked: list[str]):
    pending = pending_pods()
    for number in range(100):
        for plugin in ("DynamicResources", "NodeResourcesFit"):
            one = waiting(f"{plugin.lower()}-{number}", plugin)
            pending.add_or_update(one.uid, one.document)
    while (entry := pending.queue.pop()) is not None:
        pending.queue.add_unschedulable(entry, rejected_by=frozenset({entry.pod.labels["waits-for"]}))

    stranger, user = claim_of("stranger"), claim_of("dynamicresources-7")
    pending.claim_event(None, stranger)
    pending.claim_event(stranger, claim_of("stranger", reservedFor=[{"uid": "someone"}]))
    pending.claim_event(user, {**user, "metadata": {**user["metadata"], "labels": {"a": "b"}}})
    pending.claim_event(None, claim_of("noderesourcesfit-7"))
    assert asked == []
    pending.claim_event(user, claim_of("dynamicresources-7", reservedFor=[{"uid": "someone"}]))
    assert asked == ["dynamicresources-7"]
    assert pending.queue.counts["unschedulable"] == 199

    asked.clear()
    pending.assigned_pod_event(None, pod("new"))
    assert asked == []
    pending.assigned_pod_event(pod("gone"), None)
    assert asked == [f"noderesourcesfit-{number}" for number in range(100)]

    asked.clear()
    pending.claim_event(claim_of("stranger", allocation={}), None)
    assert asked == [f"dynamicresources-{number}" for number in range(100) if number != 7]
    assert pending.queue.counts["unschedulable"] == 0

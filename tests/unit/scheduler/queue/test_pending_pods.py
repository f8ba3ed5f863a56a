"""Whatever order informers tell of pods, groups and claims in, no gate stays closed."""

from __future__ import annotations

import itertools
from types import SimpleNamespace
from typing import Any, cast

import pytest

from dray.placement.cache.groups import GroupCache
from dray.placement.cache.nodes import ClusterCache
from dray.placement.profiles import Profiles
from dray.placement.quirks import PlacementQuirks
from dray.scheduler.queue.pending_pods import PendingPods
from dray.scheduler.queue.scheduling_queue import SchedulingQueue

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


@pytest.mark.parametrize("order", [*itertools.permutations(("group", "claim", 0, 1))], ids=str)
def test_a_gang_is_tried_once_its_pods_its_group_and_their_claim_are_known(order: tuple[str | int, ...]):
    known: set[str] = set()
    framework = SimpleNamespace(
        profile=SimpleNamespace(enabled=lambda plugin: True),
        claims=SimpleNamespace(pre_enqueue=lambda pod: "" if "claim" in known else "the claim is missing"),
        quirks=PlacementQuirks(),
    )
    profiles = SimpleNamespace(of=lambda pod: framework, by_name={"default-scheduler": framework})
    pending = PendingPods(
        SchedulingQueue(clock=lambda: 0.0), cast(Profiles, profiles), requeued_by_any_change=False,
        skipped=lambda pod: None, groups=GroupCache(), cluster=ClusterCache(), clock=lambda: 0.0,
    )  # fmt: skip
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

"""An event may help only pods that have one of its subjects: the others are never asked."""

from __future__ import annotations

from itertools import chain, combinations
from typing import Any

import pytest

from dray.placement.cache.pods import PodInfo
from dray.scheduler.queue import queueing_hints
from dray.scheduler.queue.queueing_hints import IN_LINE, ClusterEvent
from dray.scheduler.queue.scheduling_queue import QueuedPodInfo
from tests.support.scheduler import cluster, node, pod

DEVICES = "DynamicResources"
PLUGINS = (
    DEVICES,
    "NodeResourcesFit",
    "NodePorts",
    "InterPodAffinity",
    "VolumeBinding",
    "TaintToleration",
    IN_LINE,
)
ALLOCATED = {"allocation": {"devices": {"results": []}}}


def claim(name: str, **status: Any) -> Any:
    return {"metadata": {"name": name, "namespace": "default", "uid": name}, "spec": {}, "status": status}


def waiting(*plugins: str, name: str = "x", **more: Any) -> QueuedPodInfo:
    uses = pod(resourceClaims=[{"name": "c", "resourceClaimName": name}], **more)
    return QueuedPodInfo(uses, since=0.0, rejected_by=frozenset(plugins))


def small_and_large() -> tuple[PodInfo, PodInfo]:
    return pod(requests={"cpu": "1"}), pod(requests={"cpu": "2"})


def events() -> dict[str, ClusterEvent]:
    small, large = small_and_large()
    on_one_node = cluster(node("n")).get("n")
    return {
        "node": queueing_hints.after_node_event(on_one_node),
        "node deleted": queueing_hints.after_node_event(None),
        "pod": queueing_hints.after_assigned_pod_event(None, small),
        "pod resized": queueing_hints.after_assigned_pod_event(large, small),
        "pod deleted": queueing_hints.after_assigned_pod_event(small, None),
        "claim": queueing_hints.after_claim_event(None, claim("x")),
        "claim reserved": queueing_hints.after_claim_event(claim("x"), claim("x", reservedFor=[{}])),
        "claim labelled": queueing_hints.after_claim_event(claim("x"), claim("x")),
        "claim deallocated": queueing_hints.after_claim_event(claim("x", **ALLOCATED), claim("x")),
        "claim deleted": queueing_hints.after_claim_event(claim("x", **ALLOCATED), None),
        **{
            kind: queueing_hints.after_event(kind)
            for kind in ("ResourceSlice", "DeviceClass", "DeviceTaintRule", "Classic", "StorageClass", IN_LINE)
        },
    }  # fmt: skip


@pytest.mark.parametrize("what", events())
def test_no_event_helps_a_pod_that_has_none_of_its_subjects(what: str):
    event = events()[what]
    for plugins in chain.from_iterable(combinations(PLUGINS, size) for size in range(1, 4)):
        for entry in (waiting(*plugins), waiting(*plugins, name="y", requests={"example.com/gpu": "1"})):
            if event.may_help(entry):
                assert not set(event.subjects).isdisjoint(queueing_hints.subjects_of(entry)), plugins


@pytest.mark.parametrize(
    ("old", "new", "helped"),
    [
        (None, claim("x"), ["user"]),
        (claim("x"), claim("x", reservedFor=[{}]), ["user"]),
        (claim("x"), claim("x", **ALLOCATED), ["user"]),
        (claim("x"), claim("x"), []),
        (claim("x"), None, []),
        (claim("x", **ALLOCATED), claim("x"), ["user", "another"]),
        (claim("x", **ALLOCATED), None, ["user", "another"]),
    ],
    ids=["added", "reserved", "allocated", "labelled", "deleted", "deallocated", "deleted with its devices"],
)
def test_devices_that_come_free_help_everybody_and_other_claim_events_its_users(
    old: Any, new: Any, helped: list[str]
):
    event = queueing_hints.after_claim_event(old, new)
    entries = {
        "user": waiting(DEVICES),
        "another": waiting(DEVICES, name="y"),
        "full": waiting("NodeResourcesFit"),
    }
    assert [name for name, entry in entries.items() if event.may_help(entry)] == helped


def test_a_pod_that_shrinks_helps_those_that_lack_resources():
    small, large = small_and_large()
    lacking = waiting("NodeResourcesFit")
    assert queueing_hints.after_assigned_pod_event(large, small).may_help(lacking)
    assert not queueing_hints.after_assigned_pod_event(large, large).may_help(lacking)
    assert not queueing_hints.after_assigned_pod_event(None, small).may_help(lacking)

"""Unschedulable pods are found by what they wait for."""

from __future__ import annotations

from typing import Any

from dray.api.identity import ObjectKey
from dray.scheduler.queue.scheduling_queue import QueuedPodInfo
from dray.scheduler.queue.unschedulable_pods import UnschedulablePods
from tests.support.scheduler import pod

DEVICES = "DynamicResources"


def entry(name: str, *rejected_by: str, claim: str = "", **more: Any) -> QueuedPodInfo:
    claims = [{"name": "c", "resourceClaimName": claim}] if claim else []
    waiting = pod(name, resourceClaims=claims, **more)
    return QueuedPodInfo(waiting, since=0.0, rejected_by=frozenset(rejected_by))


def names(found: list[QueuedPodInfo]) -> list[str]:
    return [one.pod.name for one in found]


def test_a_pod_is_found_by_each_plugin_that_rejected_it_and_by_its_claims():
    pods = UnschedulablePods()
    for one in (
        entry("a", DEVICES, claim="x"),
        entry("b", "NodePorts", DEVICES, claim="x"),
        entry("c", "NodePorts", claim="x"),  # whatever becomes of its claim, it is not what the pod waits for
        entry("d", DEVICES, claim="x", namespace="other"),
    ):
        pods.add(one)
    assert names(pods.concerned([DEVICES])) == ["a", "b", "d"]
    assert names(pods.concerned(["NodePorts"])) == ["b", "c"]
    assert names(pods.concerned(["NodePorts", DEVICES])) == ["a", "b", "c", "d"]
    assert names(pods.concerned([ObjectKey("default", "x")])) == ["a", "b"]
    assert pods.concerned(["NodeAffinity", ObjectKey("default", "y")]) == []


def test_a_newer_version_of_a_pod_is_found_by_its_claims_and_keeps_its_place():
    pods = UnschedulablePods()
    template = [{"name": "c", "resourceClaimTemplateName": "t"}]
    first, second = (
        QueuedPodInfo(
            pod(resourceClaims=template, status={"resourceClaimStatuses": [{"name": "c", "resourceClaimName": "x"}]}),
            since=0.0,
            rejected_by=frozenset({DEVICES}),
        )
        for _ in range(2)
    )  # fmt: skip
    pods.add(first)
    pods.add(second)
    status: Any = {"resourceClaimStatuses": [{"name": "c", "resourceClaimName": "y"}]}
    pods.update(first.pod.updated({**first.pod.document, "status": status}))
    assert pods.concerned([ObjectKey("default", "x")]) == [second]
    assert pods.concerned([ObjectKey("default", "y")]) == [first]
    assert pods.concerned([DEVICES]) == [first, second]


def test_nothing_is_kept_of_a_pod_that_has_left():
    pods = UnschedulablePods()
    one, other = entry("a", DEVICES, claim="x"), entry("b", DEVICES, "NodePorts", claim="x")
    pods.add(one)
    pods.add(other)
    assert pods.pop(one.pod.uid) is one
    assert pods.pop(one.pod.uid) is None
    assert list(pods) == pods.concerned([DEVICES]) == [other]
    assert pods.pop(other.pod.uid) is other
    assert (len(pods), pods._by_subject) == (0, {})


def test_a_group_is_found_whatever_the_event_is_about():
    class Gang:
        def may_be_helped(self, hint: object) -> bool:
            raise NotImplementedError

    pods = UnschedulablePods()
    group = entry("g", DEVICES)
    group.gang = Gang()
    pods.add(group)
    assert pods.concerned([]) == pods.concerned(["NodePorts"]) == [group]

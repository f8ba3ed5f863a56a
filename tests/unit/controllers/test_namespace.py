"""Namespaces on their way out."""

from __future__ import annotations

import asyncio

from dray.client.resources import CONFIGMAPS, NAMESPACES, PODS, RESOURCE_CLAIMS, Resource
from dray.controllers.discovery import ServerResources
from dray.controllers.namespace import DeletionResult, conditions, deletion_result, remaining_grace_seconds
from tests.support.controlplane import ControlPlane, control_plane, controllers, server
from tests.support.wait import wait_for

NAMESPACE = "namespace-controller"
AT_ONCE = {"settings": {NAMESPACE: {"grace_seconds": 0}}}
SEEN_ALL = ServerResources(())
CATS = Resource("example.com", "v1", "cats", "Cat")


def told(present, outcomes, *, discovered=SEEN_ALL, pods_left=False):
    found = conditions(present, outcomes, discovered, pods_left=pods_left, now="now")
    return None if found is None else {c["type"]: (c["status"], c["reason"], c["message"]) for c in found}


def test_all_conditions_are_told_when_all_is_well():
    found = told([], [])
    assert list(found) == [
        "NamespaceDeletionDiscoveryFailure",
        "NamespaceDeletionGroupVersionParsingFailure",
        "NamespaceDeletionContentFailure",
        "NamespaceContentRemaining",
        "NamespaceFinalizersRemaining",
    ]
    assert {status for status, _, _ in found.values()} == {"False"}


def test_what_remains_and_who_holds_it_are_told_in_order():
    found = told(
        [],
        [
            DeletionResult(RESOURCE_CLAIMS, 2, {"z": 1, "a": 2}, 15),
            DeletionResult(CONFIGMAPS, 1, {"a": 1}, 15),
            DeletionResult(PODS),
        ],
    )
    assert found["NamespaceContentRemaining"] == (
        "True",
        "SomeResourcesRemain",
        "Some resources are remaining: configmaps. has 1 resource instances, "
        "resourceclaims.resource.k8s.io has 2 resource instances",
    )
    assert found["NamespaceFinalizersRemaining"][2] == (
        "Some content in the namespace has finalizers remaining: a in 3 resource instances, z in 1 resource instances"
    )


def test_while_pods_remain_the_rest_is_not_judged():
    found = told([], [DeletionResult(PODS, 3, {}, 30)], pods_left=True)
    assert found["NamespaceContentRemaining"][1] == "ContentRemoved"


def test_failures_are_told():
    discovered = ServerResources((), ("metrics/v1",))
    found = told(
        [], [DeletionResult(CATS, problem="b"), DeletionResult(CATS, problem="a")], discovered=discovered
    )
    assert found["NamespaceDeletionContentFailure"] == (
        "True",
        "ContentDeletionFailed",
        "Failed to delete all resource types, 2 remaining: a, b",
    )
    status, reason, message = found["NamespaceDeletionDiscoveryFailure"]
    assert (status, reason) == ("True", "DiscoveryFailed")
    assert message.startswith("Discovery failed for some groups, 1 failing: unable to retrieve")


def test_conditions_that_are_right_are_not_written_again():
    present = conditions([], [], SEEN_ALL, pods_left=False, now="then")
    assert conditions(present, [], SEEN_ALL, pods_left=False, now="now") is None
    changed = conditions(present, [DeletionResult(CATS, 1, {"f": 1})], SEEN_ALL, pods_left=False, now="now")
    times = {c["type"]: c["lastTransitionTime"] for c in changed}
    assert times["NamespaceContentRemaining"] == "now"
    assert times["NamespaceDeletionContentFailure"] == "then"


def test_conditions_of_others_stay():
    other = {"type": "Mine", "status": "True"}
    assert conditions([other], [], SEEN_ALL, pods_left=False, now="now")[0] == other


def test_the_longest_grace_period_of_a_running_pod_counts_until_it_is_over():
    def pod(seconds, phase="Running"):
        return {"spec": {"terminationGracePeriodSeconds": seconds}, "status": {"phase": phase}}

    pods = [pod(10), pod(30), pod(90, "Succeeded")]
    assert remaining_grace_seconds(pods, deleted=100.0, now=101.0) == 30
    assert remaining_grace_seconds(pods, deleted=100.0, now=130.0) == 0
    assert remaining_grace_seconds([], deleted=100.0, now=100.0) == 0


def test_something_that_stays_without_a_reason_is_a_problem():
    left = [{"metadata": {"name": "a"}}]
    assert deletion_result(CATS, "ns", left, grace=0).problem == (
        "unexpected items still remain in namespace: ns for gvr: example.com/v1, Resource=cats"
    )
    assert deletion_result(CATS, "ns", left, grace=7).estimate == 7
    held = [{"metadata": {"name": "a", "finalizers": ["f"]}}]
    assert deletion_result(CATS, "ns", held, grace=0).estimate == 15
    assert deletion_result(CATS, "ns", [], grace=7) == DeletionResult(CATS)


async def condition(s: ControlPlane, kind: str, name: str = "n") -> tuple[str, str]:
    found = (await s.get(NAMESPACES, name))["status"].get("conditions") or ()
    return next(((c["status"], c["message"]) for c in found if c["type"] == kind), ("", ""))


async def test_a_namespace_goes_with_everything_in_it():
    async with control_plane(NAMESPACE, **AT_ONCE) as s:
        await s.namespace("n")
        await s.configmap("c", namespace="n")
        await s.pod("p", namespace="n")
        await s.client.delete(NAMESPACES, "", "n")
        await s.wait_gone(NAMESPACES, "n")
        assert not (await s.client.list(CONFIGMAPS, "n")).items
        assert not (await s.client.list(PODS, "n")).items


async def test_pods_go_first():
    async with control_plane(NAMESPACE, **AT_ONCE) as s:
        await s.namespace("n")
        await s.configmap("c", namespace="n")
        await s.pod("p", namespace="n", metadata={"finalizers": ["example.com/hold"]})
        await s.client.delete(NAMESPACES, "", "n")

        async def told() -> bool:
            return bool((await s.get(NAMESPACES, "n"))["status"].get("conditions"))

        await wait_for("conditions of namespace n", told)
        assert await s.get(CONFIGMAPS, "c", "n")
        await s.client.patch(PODS, "n", "p", {"metadata": {"finalizers": None}})
        await s.wait_gone(NAMESPACES, "n")


async def test_old_releases_delete_everything_at_once_and_tell_of_all_that_remains():
    async with control_plane(NAMESPACE, emulate="1.30", **AT_ONCE) as s:
        await s.namespace("n")
        await s.configmap("c", namespace="n")
        await s.pod("p", namespace="n", metadata={"finalizers": ["example.com/hold"]})
        await s.client.delete(NAMESPACES, "", "n")
        await s.wait_gone(CONFIGMAPS, "c", "n")

        async def remaining() -> str:
            status, message = await condition(s, "NamespaceContentRemaining")
            return message if status == "True" else ""

        assert (
            await wait_for("NamespaceContentRemaining", remaining)
            == "Some resources are remaining: pods. has 1 resource instances"
        )
        await s.client.patch(PODS, "n", "p", {"metadata": {"finalizers": None}})
        await s.wait_gone(NAMESPACES, "n")


async def test_what_is_held_is_told_and_waited_for():
    async with control_plane(NAMESPACE, **AT_ONCE) as s:
        await s.namespace("n")
        await s.configmap("c", namespace="n", finalizers=["example.com/hold"])
        await s.client.delete(NAMESPACES, "", "n")

        async def held() -> bool:
            return (await condition(s, "NamespaceFinalizersRemaining"))[0] == "True"

        await wait_for("NamespaceFinalizersRemaining", held)
        assert (await condition(s, "NamespaceFinalizersRemaining"))[1] == (
            "Some content in the namespace has finalizers remaining: example.com/hold in 1 resource instances"
        )
        await s.client.patch(CONFIGMAPS, "n", "c", {"metadata": {"finalizers": None}})
        await s.wait_gone(NAMESPACES, "n")


async def test_a_foreign_hold_on_the_namespace_itself_is_respected():
    async with control_plane(NAMESPACE, **AT_ONCE) as s:
        spec = {"finalizers": ["example.com/hold"]}
        await s.client.create(NAMESPACES, "", {"metadata": {"name": "n"}, "spec": spec})
        await s.client.delete(NAMESPACES, "", "n")

        async def ours_is_gone() -> bool:
            return (await s.get(NAMESPACES, "n"))["spec"]["finalizers"] == ["example.com/hold"]

        await wait_for("the kubernetes finalizer to go", ours_is_gone)


async def test_a_deletion_begun_before_the_controller_is_finished():
    async with server() as s:
        await s.namespace("n")
        await s.configmap("c", namespace="n")
        await s.client.delete(NAMESPACES, "", "n")
        async with controllers(s, NAMESPACE, **AT_ONCE):
            await s.wait_gone(NAMESPACES, "n")


async def test_a_namespace_that_is_not_deleted_is_left_alone():
    async with control_plane(NAMESPACE, **AT_ONCE) as s:
        before = await s.namespace("n")
        await s.namespace("gone")
        await s.client.delete(NAMESPACES, "", "gone")
        await s.wait_gone(NAMESPACES, "gone")
        await asyncio.sleep(0)
        assert await s.get(NAMESPACES, "n") == before

"""Namespaces on their way out."""

from __future__ import annotations

from dray.client.resources import CONFIGMAPS, PODS, RESOURCE_CLAIMS, Resource
from dray.controllers.discovery import ServerResources
from dray.controllers.namespace import DeletionResult, conditions, deletion_result, remaining_grace_seconds

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

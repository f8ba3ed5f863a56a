"""Jobs: indexes, policies, counting and the verdict."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dray.controllers.workloads.job import backoff, completion, indexes, pod_failure_policy
from dray.controllers.workloads.job.backoff import Backoff
from dray.controllers.workloads.job.completion import FinishedCondition, JobCounts
from dray.controllers.workloads.job.controller import has_ended, pod_for
from dray.controllers.workloads.job.tracking import counts_with_uncounted, status_of, status_with_uncounted

Object = dict[str, Any]


def job(*, status: Object | None = None, **spec: Any) -> Object:
    template = {"metadata": {}, "spec": {"containers": [{"name": "c"}]}}
    return {
        "metadata": {"name": "j", "namespace": "default", "uid": "j"},
        "spec": {"template": template, "backoffLimit": 6, "parallelism": 1, **spec},
        "status": status or {},
    }


def indexed(**spec: Any) -> Object:
    return job(completionMode="Indexed", **spec)


def pod(
    name: str, phase: str, *, index: int | None = None, failures: int = 0, code: int = 1, **status: Any
) -> Object:
    annotations = (
        {}
        if index is None
        else {indexes.COMPLETION_INDEX: str(index), indexes.INDEX_FAILURE_COUNT: str(failures)}
    )
    metadata = {"name": name, "namespace": "default", "uid": name, "annotations": annotations}
    container = {
        "name": "c",
        "state": {"terminated": {"exitCode": code, "finishedAt": "1970-01-01T00:01:40Z"}},
    }
    return {
        "metadata": metadata,
        "spec": {},
        "status": {"phase": phase, "containerStatuses": [container], **status},
    }


@given(st.sets(st.integers(0, 200)))
def test_indexes_survive_being_written(numbers: set[int]):
    assert indexes.parse_indexes(indexes.format_indexes(numbers)) == numbers


def test_indexes_are_written_as_users_know_them():
    assert indexes.format_indexes([0, 1, 2, 4, 5, 7]) == "0-2,4,5,7"


def test_failures_are_judged_by_the_first_rule_that_fits():
    rules = [
        {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]},
        {"action": "FailJob", "onExitCodes": {"containerName": "other", "operator": "In", "values": [3]}},
        {"action": "FailIndex", "onExitCodes": {"operator": "NotIn", "values": [1, 3]}},
        {"action": "FailJob", "onExitCodes": {"operator": "In", "values": [3]}},
    ]
    one = job(podFailurePolicy={"rules": rules})
    disrupted = [{"type": "DisruptionTarget", "status": "True"}]
    assert (
        pod_failure_policy.match_pod_failure_policy(one, pod("p", "Failed", conditions=disrupted)).action
        == "Ignore"
    )
    assert pod_failure_policy.match_pod_failure_policy(one, pod("p", "Failed", code=1)).action == "Count"
    assert pod_failure_policy.match_pod_failure_policy(one, pod("p", "Failed", code=2)).action == "FailIndex"
    judged = pod_failure_policy.match_pod_failure_policy(one, pod("p", "Failed", code=3))
    words = "Container c for pod default/p failed with exit code 3 matching FailJob rule at index 3"
    assert judged == ("FailJob", words)


def test_an_index_is_given_up_after_its_own_failures():
    one = indexed(completions=3, backoffLimitPerIndex=1, backoffLimit=2147483647)
    counts = completion.count_finished(
        one, JobCounts(), [pod("a", "Failed", index=0), pod("b", "Succeeded", index=1)]
    )
    assert (counts.failed, counts.completed_indexes, counts.failed_indexes) == (1, {1}, frozenset())
    counts = completion.count_finished(one, counts, [pod("c", "Failed", index=0, failures=1)])
    assert counts.failed_indexes == {0}
    assert completion.finished_condition(one, counts, active=1, now=0) is None, (
        "the other indexes still have their chance"
    )
    counts = completion.count_finished(one, counts, [pod("d", "Succeeded", index=2)])
    ended = completion.finished_condition(one, counts, active=0, now=0)
    assert ended is not None and ended.reason == "FailedIndexes"
    assert counts.status(one) == {
        "succeeded": 2,
        "failed": 2,
        "completedIndexes": "1,2",
        "failedIndexes": "0",
    }


@pytest.mark.parametrize(
    ("spec", "counts", "reason"),
    [
        ({"completions": 2}, JobCounts(succeeded=2), "CompletionsReached"),
        ({"completions": 2}, JobCounts(succeeded=1), None),
        ({}, JobCounts(succeeded=1), "CompletionsReached"),
        ({"backoffLimit": 2}, JobCounts(failed=2), None),
        ({"backoffLimit": 2}, JobCounts(failed=3), "BackoffLimitExceeded"),
        ({"activeDeadlineSeconds": 10}, JobCounts(), "DeadlineExceeded"),
        ({"activeDeadlineSeconds": 10, "suspend": True}, JobCounts(), None),
        ({"activeDeadlineSeconds": 1000}, JobCounts(), None),
        ({}, JobCounts(fail_job_message="because"), "PodFailurePolicy"),
    ],
)
def test_a_job_ends_when_its_rules_say_so(spec: Object, counts: JobCounts, reason: str | None):
    ended = completion.finished_condition(
        job(status={"startTime": "1970-01-01T00:00:10Z"}, **spec), counts, active=0, now=100.0
    )
    assert (ended.reason if ended is not None else None) == reason


def test_a_success_policy_can_be_met_before_all_indexes_are_done():
    rules = [{"succeededIndexes": "0-2", "succeededCount": 2}, {"succeededIndexes": "4"}]
    one = indexed(completions=5, successPolicy={"rules": rules})
    assert (
        completion.finished_condition(
            one, JobCounts(succeeded=1, completed_indexes=frozenset({0})), active=1, now=0
        )
        is None
    )
    ended = completion.finished_condition(
        one, JobCounts(succeeded=1, completed_indexes=frozenset({4})), active=1, now=0
    )
    assert ended == ("Complete", "SuccessPolicy", "Matched rules at index 1")


def test_failures_are_waited_out_ever_longer_until_something_succeeds():
    failed = [pod(name, "Failed") for name in "abc"]
    once = Backoff().after([], failed[:1])
    assert once.pause(100.0) == 10.0
    assert once.after([], failed[1:]).pause(100.0) == 40.0
    assert once.after([], failed[1:]).pause(500.0) == 0.0
    assert once.after([pod("d", "Succeeded")], []).pause(100.0) == 0.0
    assert once.after([], []) == once


def test_a_pod_has_ended_when_the_best_witness_says_so():
    bare = {"metadata": {"creationTimestamp": "1970-01-01T00:00:01Z"}, "status": {"phase": "Failed"}}
    assert backoff.finish_time(bare) == 1.0
    deleted = {"deletionTimestamp": "1970-01-01T00:00:40Z", "deletionGracePeriodSeconds": 30}
    gone = {**bare, "metadata": {**bare["metadata"], **deleted}}
    assert backoff.finish_time(gone) == 10.0
    unready = {"type": "Ready", "status": "False", "lastTransitionTime": "1970-01-01T00:00:20Z"}
    assert backoff.finish_time({**gone, "status": {"conditions": [unready]}}) == 20.0
    assert backoff.finish_time(pod("p", "Failed", conditions=[unready])) == 100.0


def test_a_job_without_a_number_lets_the_others_finish_once_one_has_succeeded():
    one = job(parallelism=3)
    assert completion.wanted_active(one, JobCounts(), active=1) == 3
    assert completion.wanted_active(one, JobCounts(succeeded=1), active=2) == 2


def test_containers_that_restart_in_place_fail_the_job_too():
    one = job(backoffLimit=2)
    one["spec"]["template"]["spec"]["restartPolicy"] = "OnFailure"

    def ends(restarts: int) -> bool:
        running = pod("p", "Running", containerStatuses=[{"name": "c", "restartCount": restarts}])
        return completion.finished_condition(one, JobCounts(), active=1, now=0, pods=[running]) is not None

    assert not ends(1)
    assert ends(2)


def test_pods_of_an_index_that_is_not_or_no_longer_free_go_first():
    one = indexed(completions=2)
    pods = [pod("a", "Running", index=0), pod("b", "Running", index=0), pod("c", "Running", index=5)]
    assert {p["metadata"]["name"] for p in completion.active_pods_for_removal(one, pods, 0)} in (
        {"a", "c"},
        {"b", "c"},
    )
    assert completion.count_finished(one, JobCounts(), [pod("c", "Failed", index=5)]) == JobCounts()


def test_a_suspended_job_tells_so_in_place_and_its_time_starts_anew():
    def told(suspend: bool, status: Object, **options: bool) -> Object:
        return status_of(job(suspend=suspend, status=status), JobCounts(), [], None, now=60.0, **options)

    other = {"type": "Other", "status": "True"}
    suspended = told(True, {"startTime": "1970-01-01T00:00:00Z", "conditions": []})
    assert "startTime" not in suspended
    kept = told(True, {"startTime": "1970-01-01T00:00:00Z", "conditions": []}, clears_start_time=False)
    assert kept["startTime"] == "1970-01-01T00:00:00Z"
    resumed = told(False, {**kept, "conditions": [*kept["conditions"], other]})
    assert [c["type"] for c in resumed["conditions"]] == ["Suspended", "Other"]
    assert resumed["conditions"][0]["reason"] == "JobResumed"
    assert resumed["startTime"] == "1970-01-01T00:01:00Z"


def test_what_was_just_made_or_deleted_counts_before_it_is_seen():
    pods = [pod(name, "Running") for name in "ab"]
    status = status_of(job(), JobCounts(), pods, None, now=0.0, made={"b", "c", "d"}, deleted={"a"})
    assert (status["active"], status["terminating"]) == (3, 1)


def test_old_releases_end_a_job_at_once_and_without_a_word():
    done = FinishedCondition("Complete", "", "")
    leaving = pod("p", "Running")
    leaving["metadata"]["deletionTimestamp"] = "1970-01-01T00:00:00Z"
    status = status_of(
        job(), JobCounts(succeeded=1), [leaving], done, now=0.0, interim=False, after_last_pod=False
    )
    assert [set(c) for c in status["conditions"]] == [
        {"type", "status", "lastProbeTime", "lastTransitionTime"}
    ]
    assert status["conditions"][0]["type"] == "Complete"
    waiting = status_of(job(), JobCounts(succeeded=1), [leaving], done, now=0.0)
    assert [c["type"] for c in waiting["conditions"]] == ["SuccessCriteriaMet"]


def test_a_pod_on_record_is_counted_whether_or_not_the_number_was_stored():
    """Whatever step a controller was stopped after, its successor comes to the same numbers."""
    ended = [pod("a", "Succeeded"), pod("b", "Failed")]
    start = job(completions=3, parallelism=2)
    counts = completion.count_finished(start, counts_with_uncounted(start), ended)
    recorded = {**start, "status": status_with_uncounted(start, counts, ended, None, "now")}
    assert recorded["status"].get("succeeded") is None
    assert counts_with_uncounted(recorded) == counts
    reported = {**start, "status": status_of(recorded, counts, [], None, now=0.0)}
    assert counts_with_uncounted(reported) == counts == JobCounts(succeeded=1, failed=1)


def test_free_indexes_are_the_lowest_that_nobody_works_on():
    one = indexed(completions=6)
    busy = [pod("a", "Running", index=1)]
    assert completion.first_pending_indexes(
        one, JobCounts(completed_indexes=frozenset({0}), failed_indexes=frozenset({3})), busy, 2
    ) == [2, 4]


def test_deleted_pods_count_at_once_unless_the_job_waits_for_their_end():
    leaving = {"metadata": {"deletionTimestamp": "x"}, "status": {"phase": "Running"}}
    assert has_ended(job(), leaving)
    assert not has_ended(job(podReplacementPolicy="Failed"), leaving)
    assert not has_ended(job(podFailurePolicy={"rules": []}), leaving)


def test_a_container_that_sets_its_index_itself_is_left_alone():
    one = indexed(completions=1)
    own = {"name": "JOB_COMPLETION_INDEX", "value": "mine"}
    one["spec"]["template"]["spec"]["containers"][0]["env"] = [own]
    assert pod_for(one, 0)["spec"]["containers"][0]["env"] == [own]

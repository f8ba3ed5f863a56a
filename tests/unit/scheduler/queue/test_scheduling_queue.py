from __future__ import annotations

from dray.api.identity import ObjectKey
from dray.placement.cache.pods import PodInfo
from dray.scheduler.queue.scheduling_queue import (
    MAX_BACKOFF,
    MAX_UNSCHEDULABLE_SECONDS,
    QueuedPodInfo,
    SchedulingQueue,
    backoff,
)
from tests.support.scheduler import pod


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def failed(queue: SchedulingQueue, *rejected_by: str) -> QueuedPodInfo:
    """A pod that has been tried once; without a plugin that rejected it, an error was in the way."""
    queue.add(pod())
    entry = queue.pop()
    assert entry is not None
    queue.add_unschedulable(entry, rejected_by=frozenset(rejected_by), error=not rejected_by)
    return entry


def test_higher_priority_is_tried_first_then_the_longer_waiting() -> None:
    clock = Clock()
    queue = SchedulingQueue(clock=clock)
    first, second, urgent = pod(), pod(), pod(priority=5)
    for p in (first, second, urgent):
        queue.add(p)
        clock.now += 1
    order = [queue.pop().pod for _ in range(3)]  # type: ignore[union-attr]
    assert order == [urgent, first, second]
    assert queue.pop() is None


def test_a_rejected_pod_is_unschedulable_until_an_event_may_help_it() -> None:
    queue = SchedulingQueue(clock=(clock := Clock()))
    entry = failed(queue, "NodeResourcesFit")
    clock.now += 5
    assert queue.pop() is None
    assert queue.requeue(lambda e: False) == 0
    assert queue.requeue(lambda e: "NodeResourcesFit" in e.rejected_by) == 1
    assert queue.pop() is entry


def test_an_error_is_retried_after_its_backoff_and_not_before() -> None:
    queue = SchedulingQueue(clock=(clock := Clock()))
    entry = failed(queue)
    assert queue.pop() is None
    assert queue.next_due() == clock.now + backoff(1)
    clock.now += backoff(1)
    assert queue.pop() is entry


def test_backoff_doubles_up_to_its_limit() -> None:
    assert [backoff(n) for n in range(7)] == [0, 1, 2, 4, 8, 10, 10]


def test_when_no_pod_is_active_a_pod_in_backoff_is_tried_early() -> None:
    queue = SchedulingQueue(clock=Clock())
    entry = failed(queue, "X")
    queue.requeue(lambda e: True)
    assert queue.counts["backoff"] == 1
    assert queue.pop() is entry


def test_of_the_pods_in_backoff_the_most_important_is_tried_early_and_of_equals_the_longest_waiting() -> None:
    queue = SchedulingQueue(clock=(clock := Clock()))
    for name in ("first", "second", "raised", "failed"):
        queue.add(pod(name))
        clock.now += 1
    waiting = [entry for _ in range(4) if (entry := queue.pop()) is not None]
    for entry in reversed(waiting):
        queue.add_unschedulable(entry, rejected_by=frozenset({"X"}), error=entry.pod.name == "failed")
    queue.requeue(lambda e: True)
    raised = waiting[2].pod.document
    queue.update(PodInfo({**raised, "spec": {**raised["spec"], "priority": 5}}), gate="", may_help=True)
    order = [entry.pod.name for _ in range(4) if (entry := queue.pop()) is not None]
    assert order == ["raised", "first", "second"]
    assert queue.counts["backoff"] == 1


def test_little_is_kept_of_pods_that_have_left_their_backoff() -> None:
    queue = SchedulingQueue(clock=(clock := Clock()))
    failed(queue, "X")
    for _ in range(1000):
        queue.requeue(lambda e: True)
        clock.now += MAX_BACKOFF
        queue.flush()
        entry = queue.pop()
        assert entry is not None
        queue.add_unschedulable(entry, rejected_by=frozenset({"X"}))
    assert len(queue._early_heap) < 100


def test_a_gated_pod_is_not_tried_until_its_gate_is_lifted() -> None:
    queue = SchedulingQueue(clock=Clock())
    gated = pod()
    queue.add(gated, gate="scheduling gates")
    assert queue.pop() is None
    queue.update(gated, gate="", may_help=False)
    assert queue.pop() is not None


def test_a_discarded_pod_is_never_tried() -> None:
    queue = SchedulingQueue(clock=Clock())
    gone = pod()
    queue.add(gone)
    assert queue.discard(gone.uid) is not None
    assert queue.pop() is None
    assert len(queue) == 0


def test_every_unschedulable_pod_is_requeued_in_the_end() -> None:
    queue = SchedulingQueue(clock=(clock := Clock()))
    entry = failed(queue, "X")
    clock.now += MAX_UNSCHEDULABLE_SECONDS + 1
    queue.flush_unschedulable()
    assert queue.pop() is entry


def test_a_pod_whose_outcome_is_still_being_written_is_tried_again_only_afterwards() -> None:
    queue = SchedulingQueue(clock=(clock := Clock()))
    entry = failed(queue, "NodeResourcesFit")
    entry.in_flight = True
    clock.now += 5
    queue.requeue(lambda e: True)
    queue.update(entry.pod, gate="", may_help=True)
    assert queue.pop() is None
    queue.done(entry)
    assert queue.pop() is entry


def test_a_pod_whose_status_was_written_waits_for_the_claims_that_it_names_now() -> None:
    queue = SchedulingQueue(clock=Clock())
    queue.add(pod(resourceClaims=[{"name": "c", "resourceClaimTemplateName": "t"}]))
    entry = queue.pop()
    assert entry is not None
    queue.add_unschedulable(entry, rejected_by=frozenset({"DynamicResources"}))
    document = entry.pod.document
    queue.adopt_newer(
        entry,
        {
            **document,
            "metadata": {**document["metadata"], "resourceVersion": "2"},
            "status": {"resourceClaimStatuses": [{"name": "c", "resourceClaimName": "claim"}]},
        },
    )
    assert queue.requeue(lambda e: True, about=[ObjectKey("default", "another")]) == 0
    assert queue.requeue(lambda e: True, about=[ObjectKey("default", "claim")]) == 1


def test_without_an_event_a_pod_stays_unschedulable_when_its_outcome_is_written() -> None:
    queue = SchedulingQueue(clock=(clock := Clock()))
    entry = failed(queue, "NodeResourcesFit")
    entry.in_flight = True
    clock.now += 5
    queue.done(entry)
    assert queue.pop() is None
    queue.discard(entry.pod.uid)
    queue.done(entry)
    assert len(queue) == 0


def test_a_pod_that_loses_its_claim_is_gated_again() -> None:
    queue = SchedulingQueue(clock=Clock())
    queue.add(pod())
    entry = queue.pop()
    assert entry is not None
    queue.gate_again(entry, "its claim has gone")
    assert (queue.pop(), queue.at_gate(entry.pod.uid), entry.attempts) == (None, entry, 0)
    queue.update(entry.pod, gate="", may_help=True)
    assert queue.pop() is entry

from __future__ import annotations

import asyncio

import pytest

from dray.client.workqueue import WorkQueue
from dray.metrics.registry import Registry
from dray.metrics.workqueue import QueueMetrics


async def test_a_queue_tells_how_long_items_wait_and_take():
    now = [100.0]
    registry = Registry()
    metrics = QueueMetrics(registry, clock=lambda: now[0])
    queue: WorkQueue[str] = WorkQueue(watch=metrics.watch("jobs"))
    for item in ("a", "b", "a"):
        queue.add(item)
    assert 'workqueue_depth{name="jobs"} 2' in registry.text()
    now[0] += 2
    item = await queue.get()
    now[0] += 3
    assert 'workqueue_unfinished_work_seconds{name="jobs"} 3' in registry.text()
    assert 'workqueue_longest_running_processor_seconds{name="jobs"} 3' in registry.text()
    queue.done(item)
    assert metrics.adds.value("jobs") == 2
    assert metrics.waits.count("jobs") == metrics.works.count("jobs") == 1
    text = registry.text()
    assert 'workqueue_queue_duration_seconds_sum{name="jobs"} 2' in text
    assert 'workqueue_work_duration_seconds_sum{name="jobs"} 3' in text


@pytest.mark.parametrize("failures", [1, 3])
async def test_every_failure_is_a_retry(failures: int):
    metrics = QueueMetrics(Registry())
    queue: WorkQueue[str] = WorkQueue(watch=metrics.watch("jobs"), base_delay=0.0001)
    left = [failures]

    async def work(item: str) -> None:
        if left[0]:
            left[0] -= 1
            raise ValueError(item)
        queue.close()

    queue.add("a")
    await asyncio.wait_for(queue.run(work), 10)
    assert metrics.retries.value("jobs") == failures
    assert metrics.adds.value("jobs") == failures + 1

from __future__ import annotations

import asyncio

import pytest

from dray.client.workqueue import QueueClosed, TokenBucket, WorkQueue


def ready(queue: WorkQueue[str]) -> list[str]:
    return list(queue._ready)


async def test_an_item_waits_at_most_once(timers):
    queue: WorkQueue[str] = WorkQueue(timers=timers)
    for item in ("a", "b", "a"):
        queue.add(item)
    assert ready(queue) == ["a", "b"]


async def test_an_item_added_while_worked_on_comes_after(timers):
    queue: WorkQueue[str] = WorkQueue(timers=timers)
    queue.add("a")
    assert await queue.get() == "a"
    queue.add("a")
    assert len(queue) == 0
    queue.done("a")
    assert ready(queue) == ["a"]
    assert await queue.get() == "a"
    queue.done("a")
    assert len(queue) == 0


async def test_who_waits_gets_what_comes(timers):
    queue: WorkQueue[str] = WorkQueue(timers=timers)
    waiting = [asyncio.create_task(queue.get()) for _ in range(2)]
    await asyncio.sleep(0)
    queue.add("a")
    queue.add("b")
    assert await asyncio.gather(*waiting) == ["a", "b"]


async def test_a_waiter_that_is_cancelled_after_being_woken_passes_its_turn_on(timers):
    queue: WorkQueue[str] = WorkQueue(timers=timers)
    first, second = [asyncio.create_task(queue.get()) for _ in range(2)]
    await asyncio.sleep(0)
    queue.add("a")
    first.cancel()
    assert await second == "a"


async def test_delayed_items_come_when_they_are_due_and_the_earliest_time_counts(timers):
    queue: WorkQueue[str] = WorkQueue(timers=timers)
    queue.add_after("a", 10)
    queue.add_after("a", 5)
    queue.add_after("a", 20)
    queue.add_after("b", 7)
    queue.add_after("c", 0)
    assert ready(queue) == ["c"]
    timers.advance(5)
    assert ready(queue) == ["c", "a"]
    timers.advance(15)
    assert ready(queue) == ["c", "a", "b"]


async def test_failing_items_wait_longer_each_time_until_they_are_forgotten(timers):
    queue: WorkQueue[str] = WorkQueue(timers=timers, base_delay=1, max_delay=5)
    waits = []
    for attempt in range(6):
        if attempt == 5:
            queue.forget("a")
        queue.add_rate_limited("a")
        started = timers.time()
        while not len(queue):
            timers.advance(0.5)
        waits.append(timers.time() - started)
        await queue.get()
        queue.done("a")
    assert waits == [1, 2, 4, 5, 5, 1]
    assert queue.failures("a") == 1


async def test_all_retries_together_are_bounded(timers):
    queue: WorkQueue[str] = WorkQueue(timers=timers, base_delay=0.001, retry_qps=10, retry_burst=3)
    for n in range(8):
        queue.add_rate_limited(str(n))
    timers.advance(0.001)
    assert len(queue) == 3
    timers.advance(0.2)
    assert len(queue) == 5
    timers.advance(0.3)
    assert len(queue) == 8


def test_a_bucket_saves_up_no_more_than_its_burst():
    bucket = TokenBucket(rate=1, burst=2, now=0)
    assert [bucket.try_take(100) for _ in range(3)] == [True, True, False]
    assert bucket.take(100) == 1
    assert bucket.take(100) == 2


async def test_a_closed_queue_gives_out_what_it_has_and_then_ends(timers):
    queue: WorkQueue[str] = WorkQueue(timers=timers)
    queue.add("a")
    queue.add_after("b", 1)
    queue.close()
    timers.advance(2)
    queue.add("c")
    assert await queue.get() == "a"
    with pytest.raises(QueueClosed):
        await queue.get()


async def test_run_works_until_the_queue_is_closed(timers, caplog):
    queue: WorkQueue[str] = WorkQueue(timers=timers, base_delay=1)
    seen = []

    async def work(item: str) -> float | None:
        seen.append(item)
        if item == "fails" and seen.count("fails") == 1:
            raise ValueError("no")
        return 3.0 if item == "again" and seen.count("again") == 1 else None

    for item in ("fine", "fails", "again"):
        queue.add(item)
    running = asyncio.create_task(queue.run(work, workers=2))
    await asyncio.sleep(0.01)
    timers.advance(1)
    await asyncio.sleep(0.01)
    timers.advance(2)
    await asyncio.sleep(0.01)
    queue.close()
    await running
    assert sorted(seen) == ["again", "again", "fails", "fails", "fine"]
    assert queue.failures("fails") == 0


async def test_an_item_is_never_worked_on_twice_at_once(timers):
    queue: WorkQueue[str] = WorkQueue(timers=timers)
    at_work: set[str] = set()
    finished = 0

    async def work(item: str) -> None:
        nonlocal finished
        assert item not in at_work
        at_work.add(item)
        queue.add(item)
        await asyncio.sleep(0)
        at_work.remove(item)
        finished += 1
        if finished == 20:
            queue.close()

    queue.add("a")
    queue.add("b")
    await queue.run(work, workers=4)
    assert finished >= 20

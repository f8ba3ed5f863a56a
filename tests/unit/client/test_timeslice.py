from __future__ import annotations

import asyncio

from dray.client.timeslice import TimeSlice
from dray.client.workqueue import WorkQueue


async def test_the_slice_of_all_workers_ends_with_its_time_and_begins_anew_with_the_next_turn():
    now = 0.0
    time_slice = TimeSlice(seconds=5, clock=lambda: now)
    assert not time_slice.is_spent()
    now = 4
    assert not time_slice.is_spent()
    now = 5
    assert time_slice.is_spent()
    assert time_slice.is_spent()
    await asyncio.sleep(0)
    assert not time_slice.is_spent()


async def test_a_queue_of_items_that_never_wait_lets_others_have_the_loop():
    turns = 0

    async def count_turns() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    async def work(item: int) -> None:
        sum(range(30_000))  # about a millisecond, and nothing is waited for
        if item == 99:
            queue.close()

    queue: WorkQueue[int] = WorkQueue()
    for i in range(100):
        queue.add(i)
    counting = asyncio.create_task(count_turns())
    await queue.run(work, workers=4)
    counting.cancel()
    assert turns > 4

"""Writes beside the scheduler's loop: each runs once, whatever becomes of the others."""

from __future__ import annotations

import asyncio
import logging

import pytest

from dray.scheduler.workers import MOST_IDLE, Workers


async def test_a_worker_that_is_done_takes_the_next_work() -> None:
    ran_in: list[asyncio.Task[object] | None] = []

    async def work() -> None:
        await asyncio.sleep(0)
        ran_in.append(asyncio.current_task())

    async with asyncio.TaskGroup() as tasks:
        workers = Workers(tasks)
        for _ in range(3):
            workers.spawn(work())
            for _ in range(5):
                await asyncio.sleep(0)
        assert len(ran_in) == 3
        assert len(set(ran_in)) == 1
        assert ran_in[0] is not None
        ran_in[0].cancel()


async def test_works_that_were_spawned_together_run_together() -> None:
    everybody = asyncio.Barrier(MOST_IDLE + 10)
    done = 0

    async def work() -> None:
        nonlocal done
        await everybody.wait()
        done += 1

    async def spawn_all() -> None:
        async with asyncio.TaskGroup() as tasks:
            workers = Workers(tasks)
            for _ in range(2):
                for _ in range(everybody.parties):
                    workers.spawn(work())
                await asyncio.sleep(0.05)
            assert done == 2 * everybody.parties
            raise asyncio.CancelledError  # as a scheduler ends

    with pytest.raises(asyncio.CancelledError):
        await spawn_all()


async def test_a_failure_is_logged_and_the_worker_goes_on(caplog: pytest.LogCaptureFixture) -> None:
    done = asyncio.Event()

    async def fail() -> None:
        raise ValueError("no such thing")

    async def work() -> None:
        done.set()

    async def spawn_both() -> None:
        async with asyncio.TaskGroup() as tasks:
            workers = Workers(tasks)
            workers.spawn(fail())
            await asyncio.sleep(0.01)
            workers.spawn(work())
            await asyncio.wait_for(done.wait(), 5)
            raise asyncio.CancelledError

    with caplog.at_level(logging.ERROR), pytest.raises(asyncio.CancelledError):
        await spawn_both()
    assert "a write of the scheduler failed" in caplog.text


@pytest.mark.filterwarnings("error")
async def test_work_that_no_worker_has_begun_is_closed_when_all_are_cancelled() -> None:
    begun = 0

    async def work() -> None:
        nonlocal begun
        begun += 1

    async def spawn_and_end() -> None:
        async with asyncio.TaskGroup() as tasks:
            workers = Workers(tasks)
            workers.spawn(work())
            await asyncio.sleep(0.01)
            workers.spawn(late := work())  # the idle worker is told
            workers.spawn(later := work())  # a new one is made
            closed.extend((late, later))
            raise asyncio.CancelledError

    closed: list[object] = []
    with pytest.raises(asyncio.CancelledError):
        await spawn_and_end()
    assert begun == 1
    assert all(one.cr_frame is None for one in closed)  # type: ignore[attr-defined]

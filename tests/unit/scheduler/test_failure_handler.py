"""Pods that could not be scheduled wait until what was done for them is done."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from types import SimpleNamespace
from typing import Any, cast

from dray.placement.outcome import Unschedulable
from dray.placement.preemption import Candidate
from dray.scheduler.failure_handler import FailureHandler
from dray.scheduler.queue.scheduling_queue import SchedulingQueue
from tests.support.scheduler import pod


def test_a_preemptor_is_tried_again_when_all_its_victims_are_evicted() -> None:
    async def play() -> None:
        evicted, reported = asyncio.Event(), asyncio.Event()
        queue = SchedulingQueue(clock=lambda: 0.0, initial_backoff=0.0)
        entry = queue.add(pod("mighty"))
        assert queue.pop() is entry

        async def preempt(*args: object, **kwargs: object) -> None:
            await evicted.wait()

        async def post_filter(*args: object) -> None:
            reported.set()

        async def failed_scheduling(*args: object, **kwargs: object) -> None:
            return None

        nothing = lambda *args: None  # noqa: E731
        writers = SimpleNamespace(
            preemption=SimpleNamespace(preempt=preempt),
            claims=SimpleNamespace(post_filter=post_filter),
            reporter=SimpleNamespace(failed_scheduling=failed_scheduling),
        )
        framework = SimpleNamespace(
            profile=SimpleNamespace(name="default-scheduler", enabled=lambda plugin: True),
            placement=SimpleNamespace(nominator=SimpleNamespace(nominate=nothing)),
        )
        async with asyncio.TaskGroup() as tasks:

            def spawn(work: Coroutine[Any, Any, object]) -> None:
                tasks.create_task(work)

            handler = FailureHandler(
                cast(Any, SimpleNamespace(queue=queue, wakeup=asyncio.Event())),
                cast(Any, SimpleNamespace(pop_lower_nominated=lambda pod, node: ())),
                cast(Any, writers),
                spawn=spawn,
                metrics=cast(Any, SimpleNamespace(preemption_attempt=nothing)),
            )
            victims = Candidate("a", (pod("first"), pod("second")))
            decision = Unschedulable("no", frozenset({"NodeResourcesFit"}), candidate=victims)
            handler.unschedulable(entry, decision, cast(Any, framework))
            await reported.wait()
            queue.requeue(lambda queued: True)  # the first victim is gone
            assert queue.pop() is None
            evicted.set()
        assert queue.pop() is entry

    asyncio.run(play())

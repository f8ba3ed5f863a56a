from __future__ import annotations

import asyncio
import gc
import threading
import weakref

import pytest

from dray.server.endpoints.largedocuments import LargeDocuments
from tests.support.wait import wait_for


async def test_work_is_done_beside_the_loop_and_its_errors_are_passed_on():
    work = LargeDocuments()
    assert await work.run("a", threading.current_thread) is not threading.main_thread()
    with pytest.raises(ZeroDivisionError):
        await work.run("a", lambda: 1 // 0)
    assert await work.run("a", max, 1, 2) == 2


async def test_users_take_turns():
    work, go, done = LargeDocuments(), threading.Event(), []
    first = asyncio.create_task(work.run("greedy", go.wait))
    await asyncio.sleep(0)
    rest = [asyncio.create_task(work.run("greedy", done.append, f"greedy-{i}")) for i in range(3)]
    await asyncio.sleep(0)
    rest.append(asyncio.create_task(work.run("modest", done.append, "modest")))
    await asyncio.sleep(0)
    go.set()
    await asyncio.gather(first, *rest)
    assert done == ["greedy-0", "modest", "greedy-1", "greedy-2"]


async def test_work_that_nobody_waits_for_keeps_the_thread_until_it_ends():
    work, go, done = LargeDocuments(), threading.Event(), []
    abandoned = asyncio.create_task(work.run("a", go.wait))
    await asyncio.sleep(0)
    waiting = [asyncio.create_task(work.run("b", done.append, i)) for i in range(3)]
    await asyncio.sleep(0)
    abandoned.cancel()
    waiting[0].cancel()
    await asyncio.wait([abandoned, waiting[0]])
    await asyncio.sleep(0.01)
    assert done == []
    go.set()
    await asyncio.gather(*waiting[1:])
    assert done == [1, 2]


async def test_a_turn_that_is_cancelled_when_it_comes_is_passed_on():
    work, go = LargeDocuments(), threading.Event()
    first = asyncio.create_task(work.run("a", go.wait))
    await asyncio.sleep(0)
    second, third = (asyncio.create_task(work.run(user, max, 1, 2)) for user in "bc")
    await asyncio.sleep(0)
    first.add_done_callback(lambda _: second.cancel())
    go.set()
    assert await third == 2


async def test_an_error_does_not_keep_the_document():
    class Document:
        pass

    def refuse(document: Document) -> None:
        raise ValueError

    work, document = LargeDocuments(), Document()
    known = weakref.ref(document)
    gc.disable()
    try:
        with pytest.raises(ValueError):
            await work.run("a", refuse, document)
        del document
        await wait_for("the document to be freed", lambda: known() is None)
    finally:
        gc.enable()

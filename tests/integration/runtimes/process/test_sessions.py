"""Commands in containers, of whom one side does not do its part: it does not read, or does not let the command begin."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from dray.runtimes.process import session as sessions
from dray.runtimes.process.runtime import MAX_EXEC_OUTPUT_BYTES, ProcessRuntime
from tests.integration.runtimes.test_every_runtime import container, running, start
from tests.support.wait import wait_for

#: Stops every other process that it sees but the first, as only root in the same PID namespace can.
STOPPER = """
import os, signal
while True:
    for pid in map(int, filter(str.isdigit, os.listdir("/proc"))):
        if pid not in (1, os.getpid()):
            try: os.kill(pid, signal.SIGSTOP)
            except OSError: pass
"""


def open_descriptors() -> int:
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


def scene(play: Callable[[ProcessRuntime, Path], Awaitable[None]]) -> Callable[[Path], Awaitable[None]]:
    """A test with a runtime of its own."""

    async def run(tmp_path: Path) -> None:
        async with running("process", tmp_path) as runtime:
            assert isinstance(runtime, ProcessRuntime)
            await play(runtime, tmp_path)

    return run


@scene
async def test_a_container_that_stops_commands_stops_nothing_else(
    runtime: ProcessRuntime, tmp_path: Path
) -> None:
    if runtime.mode != "root":
        pytest.skip("needs a PID namespace that commands join at once")
    hostile = await start(runtime, tmp_path, container(tmp_path, "python3", "-c", STOPPER))

    async def is_stopped() -> bool:
        try:
            await runtime.exec_sync(hostile.id, ["true"], timeout=0.5)
        except TimeoutError:
            return True
        return False

    await wait_for("a command to be stopped before it begins", is_stopped)
    other = await start(runtime, tmp_path)
    assert (await runtime.exec_sync(other.id, ["echo", "fine"], timeout=30)).stdout == b"fine\n"


@scene
async def test_of_what_a_command_says_without_end_little_is_kept(
    runtime: ProcessRuntime, tmp_path: Path
) -> None:
    started = await start(runtime, tmp_path)
    result = await runtime.exec_sync(started.id, ["head", "-c", "20000000", "/dev/zero"], timeout=60)
    assert (result.exit_code, len(result.stdout)) == (0, MAX_EXEC_OUTPUT_BYTES)


@scene
async def test_a_command_waits_for_a_client_who_does_not_read_and_goes_on_when_he_does(
    runtime: ProcessRuntime, tmp_path: Path
) -> None:
    size = 20_000_000
    started = await start(runtime, tmp_path)
    session = await runtime.exec(started.id, ["head", "-c", f"{size}", "/dev/zero"], tty=False, stdin=False)

    async def is_full() -> bool:
        return session._unread >= sessions._MAX_UNREAD_BYTES  # type: ignore[attr-defined]

    await wait_for("output that is not read", is_full)
    before = session._unread  # type: ignore[attr-defined]
    for _ in range(100):
        await asyncio.sleep(0)
    assert session._unread == before < 2 * sessions._MAX_UNREAD_BYTES  # type: ignore[attr-defined]
    got = sum([len(piece.data) async for piece in session.output()])
    assert (got, await session.wait()) == (size, 0)
    await session.close()


@scene
async def test_commands_that_do_not_read_hold_no_thread_and_no_descriptor(
    runtime: ProcessRuntime, tmp_path: Path
) -> None:
    started = await start(runtime, tmp_path)
    before = open_descriptors()
    count = min(32, (os.cpu_count() or 1) + 4) + 1  # more than asyncio has threads
    open_sessions = [
        await runtime.exec(started.id, ["sleep", "1000"], tty=False, stdin=True) for _ in range(count)
    ]
    writing = [asyncio.create_task(session.write(bytes(1 << 20))) for session in open_sessions]
    await asyncio.to_thread(lambda: None)  # somebody else's work
    assert not any(task.done() for task in writing)
    for session in open_sessions:
        await session.close()
    await asyncio.gather(*writing)

    async def is_tidy() -> bool:
        return open_descriptors() <= before

    await wait_for("all descriptors to be closed", is_tidy)

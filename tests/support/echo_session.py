"""A command that sessions are tried with."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from dray.runtimes.interface import Output


class EchoSession:
    """Says what it hears, in two streams, until its input ends; the exit code is 3."""

    def __init__(self) -> None:
        self.queue: asyncio.Queue[Output | None] = asyncio.Queue()
        self.sizes: list[tuple[int, int]] = []
        self.closed = False

    async def output(self) -> AsyncIterator[Output]:
        while (piece := await self.queue.get()) is not None:
            yield piece

    async def write(self, data: bytes) -> None:
        self.queue.put_nowait(Output("stderr" if data.startswith(b"!") else "stdout", data))

    async def close_input(self) -> None:
        self.queue.put_nowait(None)

    async def resize(self, *, rows: int, columns: int) -> None:
        self.sizes.append((rows, columns))

    async def wait(self) -> int:
        return 3

    async def close(self) -> None:
        self.closed = True

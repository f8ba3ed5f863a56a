"""Two upgraded connections joined: what one side sends goes to the other, byte for byte."""

from __future__ import annotations

import asyncio
import contextlib

from dray.wire.client_connection import ClientConnection
from dray.wire.duplex import Throttle, Wire
from dray.wire.errors import WireError


class Splice:
    """A duplex that joins the connection of a client to one that was opened to another server."""

    def __init__(self, far: ClientConnection) -> None:
        self._far = far
        self._throttle = Throttle()
        self._queue: asyncio.Queue[bytes] = asyncio.Queue()
        self._tasks: list[asyncio.Task[None]] = []

    def opened(self, wire: Wire) -> None:
        self._throttle.wire = wire
        loop = asyncio.get_running_loop()
        self._tasks = [loop.create_task(self._to_client(wire)), loop.create_task(self._to_server())]

    def received(self, data: bytes) -> None:
        self._throttle.arrived(len(data))
        self._queue.put_nowait(data)

    def lost(self) -> None:
        for task in self._tasks:
            task.cancel()
        self._far.close()

    async def _to_client(self, wire: Wire) -> None:
        with contextlib.suppress(WireError):
            while (data := await self._far.read()) is not None:
                wire.write(data)
                await wire.drained()
        wire.close()

    async def _to_server(self) -> None:
        while True:
            data = await self._queue.get()
            self._far.write(data)
            await self._far.drained()
            self._throttle.taken(len(data))

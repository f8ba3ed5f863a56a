"""Word of containers whose state has changed, for everybody who listens."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from dray.runtimes.interface import ContainerStatus


class LifecycleEvents:
    def __init__(self) -> None:
        self._listeners: set[asyncio.Queue[ContainerStatus]] = set()

    def tell(self, status: ContainerStatus) -> None:
        for queue in self._listeners:
            queue.put_nowait(status)

    async def listen(self) -> AsyncIterator[ContainerStatus]:
        queue: asyncio.Queue[ContainerStatus] = asyncio.Queue()
        self._listeners.add(queue)
        try:
            while True:
                yield await queue.get()
        finally:
            self._listeners.discard(queue)

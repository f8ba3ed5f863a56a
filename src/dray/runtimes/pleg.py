"""Events of containers whose state has changed, for all who subscribe (the kubelet's PLEG)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from dray.runtimes.interface import ContainerStatus


class LifecycleEvents:
    def __init__(self) -> None:
        self._subscribers: set[asyncio.Queue[ContainerStatus]] = set()

    def publish(self, status: ContainerStatus) -> None:
        for queue in self._subscribers:
            queue.put_nowait(status)

    async def subscribe(self) -> AsyncIterator[ContainerStatus]:
        queue: asyncio.Queue[ContainerStatus] = asyncio.Queue()
        self._subscribers.add(queue)
        try:
            while True:
                yield await queue.get()
        finally:
            self._subscribers.discard(queue)

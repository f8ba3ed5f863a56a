"""Asks etcd for its newest revision, once for all who want to know at the same time.

Every read of an object that must not be stale asks. An answer serves those who asked before the question was sent, and
nobody who asked later: what was written in between may be newer. etcd's own members confirm reads in this way.
"""

from __future__ import annotations

import asyncio

from dray.store.etcd_api import rpc_pb2 as rpc
from dray.store.etcd_api.connection import EVERYTHING, Connection
from dray.store.interface import StoreError, StoreUnavailable


class NewestRevision:
    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._waiting: asyncio.Future[int] | None = None  # of those whose question has not been sent yet
        self._asking: asyncio.Task[None] | None = None

    async def get(self) -> int:
        """The newest revision, linearizable."""
        if self._waiting is None:
            self._waiting = asyncio.get_running_loop().create_future()
            self._waiting.add_done_callback(_look_at)
        waiting = self._waiting
        if self._asking is None or self._asking.done():
            self._asking = asyncio.create_task(self._ask())
        return await asyncio.shield(waiting)

    async def _ask(self) -> None:
        while (waiting := self._waiting) is not None:
            self._waiting = None
            try:
                waiting.set_result(await newest(self._connection))
            except StoreError as error:
                waiting.set_exception(error)
            except BaseException as error:
                waiting.set_exception(StoreUnavailable(f"etcd could not be asked: {error!r}"))
                raise

    async def close(self) -> None:
        if self._asking is not None:
            self._asking.cancel()
            await asyncio.gather(self._asking, return_exceptions=True)
        if self._waiting is not None:
            self._waiting.set_exception(StoreUnavailable("the store has been closed"))


def _look_at(answer: asyncio.Future[int]) -> None:
    """Those who waited may all have gone: then nobody else looks at an error."""
    if not answer.cancelled():
        answer.exception()


async def newest(connection: Connection) -> int:
    reply = await connection.range(rpc.RangeRequest(key=EVERYTHING, count_only=True))
    return reply.header.revision

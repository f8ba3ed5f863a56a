"""Calls to a driver, with every failure as one kind of exception."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from dray.wire.unix import SocketPath

#: Seconds for one call; a kubelet would wait longer, a person should not have to.
CALL_TIMEOUT = 15.0


class CallFailed(Exception):
    """A call came back with an error, or not at all."""


@asynccontextmanager
async def channel(path: Path) -> AsyncIterator[Any]:
    import grpc.aio

    with SocketPath(path) as address:
        async with grpc.aio.insecure_channel(address.grpc) as opened:
            yield opened


async def call(method: Any, request: Any) -> Any:
    import grpc.aio

    try:
        return await method(request, timeout=CALL_TIMEOUT)
    except grpc.aio.AioRpcError as e:
        raise CallFailed(f"{e.code().name}: {e.details()}") from e

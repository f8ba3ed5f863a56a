"""Several API servers on one store, started at the same time, each with a data directory of its own."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from dray.app.options import Address, ServerOptions
from dray.app.server import RunningServer, run_server
from dray.client.client import Client
from dray.client.config import Config
from dray.client.http import HttpTransport

TOKEN = "several"


@asynccontextmanager
async def servers(
    data: Path, store: str, *, count: int = 2, **options: Any
) -> AsyncIterator[list[RunningServer]]:
    """``count`` running servers. They start at once, as after a power cut."""
    ended = asyncio.Event()
    running: list[asyncio.Future[RunningServer]] = [
        asyncio.get_running_loop().create_future() for _ in range(count)
    ]

    async def serve(number: int) -> None:
        settings = ServerOptions(
            listen=Address("127.0.0.1", 0, 1),
            data=data / f"server-{number}",
            store=store,
            admin_token=TOKEN,
            **options,
        )
        try:
            async with run_server(settings) as server:
                running[number].set_result(server)
                await ended.wait()
        except BaseException as e:
            if not running[number].done():
                running[number].set_exception(e)
            else:
                raise

    async with asyncio.TaskGroup() as tasks:
        for number in range(count):
            tasks.create_task(serve(number))
        try:
            yield list(await asyncio.gather(*running))
        finally:
            ended.set()


def config(*reached: RunningServer, token: str = TOKEN) -> Config:
    """How to reach one server, or one of several."""
    first, *others = reached
    return Config(
        server=first.url,
        other_servers=tuple(other.url for other in others),
        ca=first.pki.ca.read_bytes(),
        token=token,
    )


@asynccontextmanager
async def client(*reached: RunningServer, token: str = TOKEN) -> AsyncIterator[Client]:
    made = Client(HttpTransport(config(*reached, token=token)))
    try:
        yield made
    finally:
        await made.close()

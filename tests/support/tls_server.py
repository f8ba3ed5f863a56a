"""A whole API server over TLS in this process, and a plain HTTP client for it."""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp

from dray.app.options import Address, ServerOptions
from dray.app.server import RunningServer, run_server

TOKEN = "integration"


@dataclass
class Reached:
    """A running server and a session that trusts it."""

    server: RunningServer
    session: aiohttp.ClientSession

    async def call(self, method: str, path: str, **options: Any) -> tuple[int, Any]:
        async with self.session.request(method, self.server.url + path, **options) as answer:
            raw = await answer.read()
            kind = answer.headers.get("Content-Type", "")
            return answer.status, (
                await answer.json() if kind.startswith("application/json") and raw else raw
            )


@asynccontextmanager
async def reached(data: Path, **options: Any) -> AsyncIterator[Reached]:
    settings = ServerOptions(
        **{
            "listen": Address("127.0.0.1", 0, 1),
            "data": data,
            "store": "memory",
            "admin_token": TOKEN,
            **options,
        }
    )
    async with run_server(settings) as server:
        trust = ssl.create_default_context(cafile=str(server.pki.ca))
        connector = aiohttp.TCPConnector(ssl=trust, limit=0)
        headers = {"Authorization": f"Bearer {TOKEN}"}
        async with aiohttp.ClientSession(connector=connector, headers=headers) as session:
            yield Reached(server, session)

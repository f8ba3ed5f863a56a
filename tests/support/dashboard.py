"""A dashboard over an API server in memory, and a viewer that reads it as a browser does."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

from dray.api.user import UserInfo
from dray.client.client import Client
from dray.server.apiserver import APIServer
from dray.server.auth.user import MASTERS
from dray.server.inprocess import InProcessTransport
from dray.ui.guard import Guard
from dray.ui.server import Dashboard, Options, dashboard
from dray.wire.http_server import listening_socket
from tests.support.apiserver import assembled

TOKEN = "a-token-for-tests"


class Served:
    """A running dashboard; ``admin`` changes the cluster that it shows."""

    def __init__(self, found: Dashboard, port: int, admin: Client, api: APIServer) -> None:
        self.dashboard = found
        self.host = f"127.0.0.1:{port}"
        self.port = port
        self.admin = admin
        self._api = api

    def of_user(self, name: str, *, namespace: str) -> AbstractAsyncContextManager[Served]:
        """Another dashboard of the same cluster, with this user's rights."""
        client = Client(InProcessTransport(self._api, UserInfo(name, groups=("system:authenticated",))))
        return _served(self._api, self.admin, client, namespace)

    async def ask(
        self, path: str, *, method: str = "GET", body: bytes = b"", token: str = TOKEN, **headers: str
    ) -> tuple[int, dict[str, str], bytes]:
        """Status, headers and body of an answer, to a path that is sent as it is."""
        sent = {"host": self.host, "connection": "close", "content-length": str(len(body))}
        if token:
            sent["authorization"] = f"Bearer {token}"
        sent |= {name.replace("_", "-"): value for name, value in headers.items()}
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        lines = "".join(f"{name}: {value}\r\n" for name, value in sent.items())
        writer.write(f"{method} {path} HTTP/1.1\r\n{lines}\r\n".encode() + body)
        head, _, content = (await reader.read()).partition(b"\r\n\r\n")
        writer.close()
        status, *fields = head.decode().split("\r\n")
        pairs = (field.partition(": ") for field in fields)
        return int(status.split()[1]), {name.lower(): value for name, _, value in pairs}, content

    async def json(self, path: str) -> Any:
        return json.loads((await self.ask(path))[2])

    @asynccontextmanager
    async def events(self) -> AsyncIterator[AsyncIterator[tuple[str, Any]]]:
        """The stream of the page: the name and the content of each event."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        writer.write(
            f"GET /api/stream HTTP/1.1\r\nHost: {self.host}\r\nAuthorization: Bearer {TOKEN}\r\n\r\n".encode()
        )
        await reader.readuntil(b"\r\n\r\n")

        async def read() -> AsyncIterator[tuple[str, Any]]:
            name = ""
            while line := await reader.readline():
                if line.startswith(b"event: "):
                    name = line[7:].decode().strip()
                elif line.startswith(b"data: "):
                    yield name, json.loads(line[6:])

        try:
            yield read()
        finally:
            writer.close()


@asynccontextmanager
async def served(data: Path) -> AsyncIterator[Served]:
    """A dashboard with the administrator's rights."""
    async with assembled(data, disable_plugins=("ServiceAccount", "TaintNodesByCondition")) as api:
        admin = Client(InProcessTransport(api, UserInfo("admin", groups=(MASTERS,))))
        async with _served(api, admin, admin, "default") as found:
            yield found


@asynccontextmanager
async def _served(api: APIServer, admin: Client, client: Client, namespace: str) -> AsyncIterator[Served]:
    listener = listening_socket("127.0.0.1", 0)
    options = Options(guard=Guard.of(TOKEN, listen="127.0.0.1"), namespace=namespace)
    async with dashboard(client, listener, options) as found:
        yield Served(found, listener.getsockname()[1], admin, api)

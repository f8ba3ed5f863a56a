"""Hooks that reach over the network."""

from __future__ import annotations

import asyncio
from typing import Any

from dray.node.container.lifecycle_hooks import run_hook
from dray.runtimes.simulated import SimulatedRuntime

SPEC: Any = {"name": "c", "ports": [{"name": "web", "containerPort": 1}]}


async def test_a_hook_calls_a_port_of_the_pod_by_name() -> None:
    asked: list[bytes] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked.append(await reader.readline())
        writer.write(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n")
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    spec = {"name": "c", "ports": [{"name": "web", "containerPort": server.sockets[0].getsockname()[1]}]}
    hook: Any = {"httpGet": {"port": "web", "path": "/bye"}}
    problem = await run_hook(SimulatedRuntime(), "id", spec, hook, address="127.0.0.1", timeout=5)  # type: ignore[arg-type]
    server.close()
    assert (asked, problem) == ([b"GET /bye HTTP/1.1\r\n"], "")


async def test_a_hook_that_nobody_hears_says_so() -> None:
    for hook in ({"tcpSocket": {"port": 1}}, {"httpGet": {"port": "nameless"}}):
        assert await run_hook(SimulatedRuntime(), "id", SPEC, hook, address="127.0.0.1", timeout=5)  # type: ignore[arg-type]

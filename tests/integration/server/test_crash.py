"""Killed in the middle of writing: what was acknowledged is there, revisions go on, watchers resume."""

from __future__ import annotations

import asyncio
import contextlib
import json
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp

from tests.support.paths import DRAY
from tests.support.process import free_port

MAPS = "/api/v1/namespaces/default/configmaps"
WRITERS = 8


@asynccontextmanager
async def process(data: Path, port: int) -> AsyncIterator[asyncio.subprocess.Process]:
    child = await asyncio.create_subprocess_exec(
        DRAY, "server", "--data", str(data), "--listen", f"127.0.0.1:{port}",
        "--admin-token", "t", stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT,
    )  # fmt: skip
    assert child.stdout is not None
    while b"ready on" not in (line := await asyncio.wait_for(child.stdout.readline(), 30)):
        assert line, "the server ended"
    try:
        yield child
    finally:
        with contextlib.suppress(ProcessLookupError):
            child.terminate()
        await asyncio.wait_for(child.communicate(), 30)


@asynccontextmanager
async def session(data: Path) -> AsyncIterator[aiohttp.ClientSession]:
    context = ssl.create_default_context(cafile=str(data / "pki" / "ca.crt"))
    headers = {"Authorization": "Bearer t"}
    connector = aiohttp.TCPConnector(ssl=context, limit=0)
    async with aiohttp.ClientSession(connector=connector, headers=headers) as found:
        yield found


async def watched(http: aiohttp.ClientSession, url: str, version: str, count: int) -> list[str]:
    """The names of the first ``count`` objects a watch from a version tells of."""
    names: list[str] = []
    async with http.get(f"{url}{MAPS}?watch=1&resourceVersion={version}") as stream:
        while len(names) < count:
            line = await asyncio.wait_for(stream.content.readuntil(b"\n"), 10)
            names.append(json.loads(line)["object"]["metadata"]["name"])
    return names


async def test_nothing_acknowledged_is_lost_when_the_server_is_killed(tmp_path: Path):
    port = free_port()
    url = f"https://127.0.0.1:{port}"
    acknowledged: dict[str, int] = {}
    enough = asyncio.Event()
    async with process(tmp_path, port) as child, session(tmp_path) as http:
        async with http.get(url + MAPS) as answer:
            start = (await answer.json())["metadata"]["resourceVersion"]

        async def write(worker: int) -> None:
            i = 0
            while True:
                name = f"w{worker}-{i}"
                try:
                    async with http.post(url + MAPS, json={"metadata": {"name": name}}) as answer:
                        if answer.status == 201:
                            body = await answer.json()
                            acknowledged[name] = int(body["metadata"]["resourceVersion"])
                            if len(acknowledged) == 200:
                                enough.set()
                except (aiohttp.ClientError, ConnectionError):
                    return
                i += 1

        tasks = [asyncio.create_task(write(w)) for w in range(WRITERS)]
        await asyncio.wait_for(enough.wait(), 30)
        child.kill()
        await asyncio.gather(*tasks)
    async with process(tmp_path, port), session(tmp_path) as http:
        async with http.get(url + MAPS) as answer:
            listed = await answer.json()
        stored = {i["metadata"]["name"]: int(i["metadata"]["resourceVersion"]) for i in listed["items"]}
        assert acknowledged.items() <= stored.items()
        async with http.post(url + MAPS, json={"metadata": {"name": "after"}}) as answer:
            version = int((await answer.json())["metadata"]["resourceVersion"])
        assert version > max(stored.values())
        seen = await watched(http, url, start, len(stored) + 1)
        assert seen == [*sorted(stored, key=stored.__getitem__), "after"]
        middle = sorted(acknowledged.values())[len(acknowledged) // 2]
        later = sorted((n for n in stored if stored[n] > middle), key=stored.__getitem__)
        assert await watched(http, url, str(middle), len(later)) == later

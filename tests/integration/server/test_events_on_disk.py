"""Events on a SQLite store: they stay in its file, and the API shows nothing of that."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from dray.api.errors import AlreadyExists, NotFound
from dray.server.inprocess import WatchEvent
from dray.store.sqlite import SqliteStore
from tests.support.apiserver import Server, make_server
from tests.support.wait import wait_for

EVENTS = "/api/v1/namespaces/default/events"
PREFIX = "/registry/events/"


def event(name: str, uid: str = "1") -> dict[str, Any]:
    about = {"kind": "Pod", "name": "p", "namespace": "default", "uid": uid}
    return {"metadata": {"name": name}, "involvedObject": about, "reason": "R", "message": "m", "count": 1}


@asynccontextmanager
async def served(path: Path, **options: Any) -> AsyncIterator[tuple[Server, SqliteStore]]:
    store = await SqliteStore.open(path / "s.db", on_disk=PREFIX, **options)
    try:
        server = await make_server(store=store)
        assert server.api.resource("", "events").cache.on_disk
        yield server, store
        server.api.resources.close()
    finally:
        await store.close()


def names(listed: dict[str, Any]) -> list[str]:
    return [item["metadata"]["name"] for item in listed["items"]]


async def test_they_are_written_read_listed_and_deleted_as_all_objects_are(tmp_path):
    async with served(tmp_path) as (server, store):
        ask = server.as_user().request
        for n in range(5):
            written = (await ask("POST", EVENTS, body=event(f"e{n}", uid=str(n % 2)))).object
            assert written["metadata"]["resourceVersion"] == str(store.revision)
        with pytest.raises(AlreadyExists):
            await ask("POST", EVENTS, body=event("e1"))
        patch = {"count": 2}
        await ask("PATCH", f"{EVENTS}/e1", body=patch, content_type="application/merge-patch+json")
        assert (await ask("GET", f"{EVENTS}/e1")).object["count"] == 2
        assert names((await ask("GET", EVENTS)).object) == ["e0", "e1", "e2", "e3", "e4"]
        assert names((await ask("GET", "/apis/events.k8s.io/v1/events")).object) == [
            "e0",
            "e1",
            "e2",
            "e3",
            "e4",
        ]
        chosen = {"fieldSelector": "involvedObject.uid=1"}
        assert names((await ask("GET", EVENTS, query=chosen)).object) == ["e1", "e3"]
        page = (await ask("GET", EVENTS, query={"limit": "2"})).object
        assert names(page) == ["e0", "e1"] and page["metadata"]["remainingItemCount"] == 3
        await ask("DELETE", f"{EVENTS}/e3")
        rest = {"limit": "9", "continue": page["metadata"]["continue"]}
        assert names((await ask("GET", EVENTS, query=rest)).object) == ["e2", "e3", "e4"], (
            "as of the first page"
        )
        with pytest.raises(NotFound):
            await ask("GET", f"{EVENTS}/e3")
        await ask("DELETE", EVENTS)
        assert names((await ask("GET", EVENTS)).object) == []


async def test_a_watch_begins_with_what_is_there_and_goes_on(tmp_path):
    async with served(tmp_path) as (server, _):
        client, found = server.as_user(), list[WatchEvent]()

        async def watch() -> None:
            async with client.watch(EVENTS) as stream:
                async for batch in stream:
                    found.extend(batch)

        await client.request("POST", EVENTS, body=event("a"))
        watching = asyncio.create_task(watch())
        await wait_for("the first event", lambda: bool(found))
        await client.request("DELETE", f"{EVENTS}/a")
        await client.request("POST", EVENTS, body=event("b"))
        await wait_for("three events", lambda: len(found) == 3)
        watching.cancel()
        told = [(e.type, e.object["metadata"]["name"]) for e in found]
        assert told == [("ADDED", "a"), ("DELETED", "a"), ("ADDED", "b")]


async def test_they_end_after_their_time_also_if_the_process_did_not_live_as_long(tmp_path):
    now = [1000.0]
    async with served(tmp_path, clock=lambda: now[0]) as (server, _):
        await server.as_user().request("POST", EVENTS, body=event("a"))
    now[0] += 3599
    async with served(tmp_path, clock=lambda: now[0]) as (server, _):
        ask = server.as_user().request
        assert names((await ask("GET", EVENTS)).object) == ["a"]
        now[0] += 2

        async def is_gone() -> bool:
            return names((await ask("GET", EVENTS)).object) == []

        await wait_for("the event to end", is_gone)


async def test_what_is_held_in_memory_does_not_grow_with_their_number(tmp_path):
    """Of ten times as many events, no more is held: by history, window and caches together."""
    async with served(tmp_path, history_bytes=200_000) as (server, store):
        ask, cache = server.as_user().request, server.api.resource("", "events").cache
        cache._budget.limit = 200_000
        held = []
        for many in (150, 1500):
            await asyncio.gather(*(ask("POST", EVENTS, body=event(f"{many}-{n}")) for n in range(many)))
            held.append(store._state.history.held_bytes + cache.window_bytes)
        assert held[1] < 1.5 * held[0] <= 600_000
        assert not cache.documents and not store._expiries
        assert not any(key.startswith(PREFIX) for key in store._state._entries)
        assert len((await store.range(PREFIX)).entries) == len(cache) == 1650

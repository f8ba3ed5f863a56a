from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from dray.api.errors import Expired, Invalid, StatusError
from dray.server.endpoints import watch as endpoints_watch
from dray.server.endpoints.requests import Request
from dray.server.endpoints.watch import Watch
from dray.server.handlers import watch as handler
from dray.server.inprocess import WatchEvent
from dray.wire.messages import Headers, Query
from tests.support.apiserver import Server, make_server
from tests.support.authorization import RBAC, Guarded, guarded, rule

MAPS = "/api/v1/namespaces/default/configmaps"


def config(name: str, **labels: str) -> dict:
    return {"metadata": {"name": name, "labels": labels}}


async def events(server: Server, count: int, path: str = MAPS, **query: str) -> list[WatchEvent]:
    """The first ``count`` events of a watch."""
    found: list[WatchEvent] = []
    async with server.as_user().watch(path, query=query) as stream:
        async for batch in stream:
            found += batch
            if len(found) >= count:
                return found
    return found


def told(found: Sequence[WatchEvent]) -> list[tuple[str, str]]:
    return [(e.type, e.object["metadata"].get("name", "")) for e in found]


async def test_without_a_version_a_watch_begins_with_what_is_there():
    server = await make_server()
    client = server.as_user()
    await client.request("POST", MAPS, body=config("a"))
    watch = asyncio.create_task(events(server, 3))
    await asyncio.sleep(0)
    await client.request(
        "PATCH", f"{MAPS}/a", body={"data": {"k": "v"}}, content_type="application/merge-patch+json"
    )
    await client.request("DELETE", f"{MAPS}/a")
    assert told(await watch) == [("ADDED", "a"), ("MODIFIED", "a"), ("DELETED", "a")]


async def test_from_a_version_a_watch_tells_everything_since():
    server = await make_server()
    client = server.as_user()
    version = (await client.request("GET", MAPS)).object["metadata"]["resourceVersion"]
    await client.request("POST", MAPS, body=config("a"))
    await client.request("DELETE", f"{MAPS}/a")
    assert told(await events(server, 2, resourceVersion=version)) == [("ADDED", "a"), ("DELETED", "a")]


async def test_a_watch_outlives_the_cache_it_began_on():
    server = await make_server()
    client = server.as_user()
    version = (await client.request("GET", MAPS)).object["metadata"]["resourceVersion"]
    await client.request("POST", MAPS, body=config("a"))
    await client.request("POST", "/api/v1/namespaces/kube-system/configmaps", body=config("x"))
    await server.api.resource("", "configmaps").cache.load()  # as after a restart: the window is empty
    await client.request("POST", MAPS, body=config("b"))
    assert told(await events(server, 2, resourceVersion=version)) == [("ADDED", "a"), ("ADDED", "b")]


async def test_a_version_that_is_gone_is_an_error_in_the_stream():
    server = await make_server()
    client = server.as_user()
    version = (await client.request("GET", MAPS)).object["metadata"]["resourceVersion"]
    for name in "abc":
        await client.request("POST", MAPS, body=config(name))
    await server.api.store.compact(server.api.store.revision)
    await server.api.resource("", "configmaps").cache.load()
    with pytest.raises(Expired, match=f"too old resource version: {version}"):
        await events(server, 1, resourceVersion=version)


async def test_a_selector_turns_transitions_into_additions_and_deletions():
    server = await make_server()
    client = server.as_user()
    version = (await client.request("GET", MAPS)).object["metadata"]["resourceVersion"]
    await client.request("POST", MAPS, body=config("a", l="1"))
    patch = {"body": {"metadata": {"labels": {"l": "2"}}}, "content_type": "application/merge-patch+json"}
    await client.request("PATCH", f"{MAPS}/a", **patch)
    found = await events(server, 2, resourceVersion=version, labelSelector="l=1")
    assert told(found) == [("ADDED", "a"), ("DELETED", "a")]
    assert found[1].object["metadata"]["labels"] == {"l": "1"}


async def test_initial_events_end_with_a_marked_bookmark():
    server = await make_server()
    await server.as_user().request("POST", MAPS, body=config("a"))
    query = {
        "sendInitialEvents": "true",
        "resourceVersionMatch": "NotOlderThan",
        "allowWatchBookmarks": "true",
    }
    found = await events(server, 2, **query)
    assert told(found) == [("ADDED", "a"), ("BOOKMARK", "")]
    marked = found[1].object["metadata"]
    assert marked["annotations"] == {"k8s.io/initial-events-end": "true"}
    assert int(marked["resourceVersion"]) == server.api.store.revision


async def test_bookmarks_come_by_and_by_and_a_watch_times_out(monkeypatch):
    monkeypatch.setattr(endpoints_watch, "_BOOKMARK_SECONDS", 0.05)
    monkeypatch.setattr(endpoints_watch, "_LAST_BOOKMARK_SECONDS", 0.01)
    server = await make_server()
    found = await events(server, 100, timeoutSeconds="1", allowWatchBookmarks="true")
    assert len(found) > 5 and {e.type for e in found} == {"BOOKMARK"}
    assert await events(server, 100, timeoutSeconds="1") == []


async def test_selecting_the_initial_objects_gives_way_to_others_and_misses_nothing(monkeypatch):
    monkeypatch.setattr(handler, "AT_ONCE", 2)
    server = await make_server()
    client = server.as_user()
    for number in range(10):
        await client.request("POST", MAPS, body=config(f"m{number}", l="1"))
    watch = asyncio.create_task(events(server, 12, labelSelector="l=1"))
    for _ in range(3):
        await asyncio.sleep(0)
    assert server.api.resource("", "configmaps").cache.watchers == 1
    await client.request("DELETE", f"{MAPS}/m9")
    await client.request("POST", MAPS, body=config("n", l="1"))
    found = told(await watch)
    assert found[:10] == [("ADDED", f"m{number}") for number in range(10)]
    assert found[10:] == [("DELETED", "m9"), ("ADDED", "n")]


async def test_a_client_who_leaves_while_the_initial_objects_are_selected_leaves_no_watcher(monkeypatch):
    monkeypatch.setattr(handler, "AT_ONCE", 2)
    server = await make_server()
    for number in range(10):
        await server.as_user().request("POST", MAPS, body=config(f"m{number}", l="1"))
    cache = server.api.resource("", "configmaps").cache
    watch = asyncio.create_task(events(server, 1, labelSelector="l=1"))
    for _ in range(3):
        await asyncio.sleep(0)
    assert cache.watchers == 1
    watch.cancel()
    await asyncio.wait([watch])
    assert watch.cancelled() and cache.watchers == 0


async def test_one_object_can_be_watched_by_name():
    server = await make_server()
    client = server.as_user()
    version = (await client.request("GET", MAPS)).object["metadata"]["resourceVersion"]
    for name in ("a", "b"):
        await client.request("POST", MAPS, body=config(name))
    found = await events(server, 1, resourceVersion=version, fieldSelector="metadata.name=b")
    assert told(found) == [("ADDED", "b")]


async def test_bad_options_are_refused_before_the_stream_begins():
    server = await make_server()
    with pytest.raises(Invalid, match="sendInitialEvents requires setting resourceVersionMatch"):
        await events(server, 1, sendInitialEvents="true")
    with pytest.raises(StatusError, match='Invalid value: "abc"'):
        await events(server, 1, resourceVersion="abc")


async def test_every_watch_is_taken_off_when_it_ends():
    server = await make_server()
    cache = server.api.resource("", "configmaps").cache
    await server.as_user().request("POST", MAPS, body=config("a"))
    await events(server, 1)
    assert cache.watchers == 0


async def followed(server: Guarded, token: str) -> tuple[Watch, asyncio.Task[int]]:
    """A watch of somebody who came over the network, and the task that counts its events until it ends."""
    headers = Headers([("authorization", f"Bearer {token}")])
    watch = (await server.api.handle(Request("GET", MAPS, Query.of({"watch": "1"}), headers))).body
    assert isinstance(watch, Watch)

    async def count() -> int:
        return sum([len(batch) async for batch in watch.batches()])

    return watch, asyncio.create_task(count())


@pytest.mark.parametrize("lost", ["role", "account", "nothing"])
@pytest.mark.parametrize("busy", [False, True])
async def test_a_watch_ends_soon_after_the_rights_or_the_credentials_of_its_caller(
    tmp_path, monkeypatch, lost, busy
):
    monkeypatch.setattr(endpoints_watch, "_ALLOWED_SECONDS", 0.05)
    accounts = "/api/v1/namespaces/default/serviceaccounts"
    async with guarded(tmp_path) as server:
        await server.post(accounts, {"metadata": {"name": "robot"}})
        await server.grant("system:serviceaccount:default:robot", rule("watch", "configmaps"))
        token = (await server.post(f"{accounts}/robot/token", {"spec": {}}))["status"]["token"]
        watch, ended = await followed(server, token)
        await asyncio.sleep(0.2)
        assert not ended.done()
        match lost:
            case "role":
                await server.root.request("DELETE", f"{RBAC}/namespaces/default/rolebindings/given")
            case "account":
                await server.root.request("DELETE", f"{accounts}/robot")
        for turn in range(40):
            if busy:
                await server.post(MAPS, config(f"c-{turn}"))
            await asyncio.sleep(0.01)
        assert ended.done() == (lost != "nothing")
        watch.close()
        await ended

from __future__ import annotations

import asyncio
import itertools
from contextlib import asynccontextmanager
from functools import partial

import pytest

from dray.api.errors import BadRequest, Expired, ServiceUnavailable
from dray.backoff import Backoff
from dray.client.informers import Informer, Informers
from dray.client.resources import NODES, PODS, key_of
from tests.support.wait import wait_for

PATH = "/api/v1/pods"
QUICK = Backoff(initial=0)
soon = partial(wait_for, pause=0)  # some of these states last for one turn of the event loop


def by_node(pod):
    return [pod["node"]] if "node" in pod else []


class Log(list):
    """What handlers were told, as text."""

    def attach(self, informer: Informer) -> Log:
        informer.add_handler(
            on_add=lambda obj: self.append(f"+{key_of(obj)}"),
            on_update=lambda old, new: self.append(
                f"{key_of(new)} {old['metadata']['resourceVersion']}>{new['metadata']['resourceVersion']}"
            ),
            on_delete=lambda obj: self.append(f"-{key_of(obj)}"),
        )
        return self


@asynccontextmanager
async def running(informer: Informer):
    task = asyncio.create_task(informer.run())
    try:
        await informer.synced()
        yield
    finally:
        task.cancel()
        await asyncio.wait([task])
        if not task.cancelled():
            task.result()


async def test_it_knows_the_collection_and_follows_its_changes(client, server):
    server.put(f"{PATH}/a", {"node": "n1"})
    informer = Informer(client, PODS, indexers={"node": by_node}, backoff=QUICK)
    log = Log().attach(informer)
    assert not informer.has_synced
    async with running(informer):
        assert log == ["+a"]
        server.put(f"{PATH}/b", {"node": "n1"})
        server.put(f"{PATH}/a", {"node": "n2"})
        server.remove(f"{PATH}/b")
        await soon("four notifications", lambda: len(log) == 4)
    assert log == ["+a", "+b", "a 11>13", "-b"]
    assert [key_of(obj).name for obj in informer.by_index("node", "n2")] == ["a"]
    assert informer.by_index("node", "n1") == []
    assert list(informer.cache.index_values("node")) == ["n2"]
    assert informer.get("", "a") is server.objects[f"{PATH}/a"]
    assert informer.resource_version == "14"


async def test_a_watch_that_ends_is_resumed_where_it_was(client, server):
    informer = Informer(client, PODS, backoff=QUICK)
    log = Log().attach(informer)
    async with running(informer):
        await soon("a watch", lambda: server.streams)
        server.put(f"{PATH}/a", {})
        await soon("a notification", lambda: log)
        server.end_watches()
        await soon("all watches to end", lambda: not server.streams)
        server.put(f"{PATH}/b", {})
        await soon("two notifications", lambda: len(log) == 2)
        assert [method for method, *_ in server.requests] == ["GET", "WATCH", "WATCH"]
        assert server.requests[-1][2]["resourceVersion"] == "11"


async def test_bookmarks_move_the_point_to_resume_from(client, server):
    informer = Informer(client, PODS, backoff=QUICK)
    async with running(informer):
        await soon("a watch", lambda: server.streams)
        server.bookmark()
        await soon("resource version 11", lambda: informer.resource_version == "11")
        server.forget_history()
        server.end_watches(ServiceUnavailable("restarting"))
        await soon("a watch after the third request", lambda: len(server.requests) == 3 and server.streams)
        assert [method for method, *_ in server.requests] == ["GET", "WATCH", "WATCH"]


async def test_a_version_that_is_gone_leads_to_a_new_list_and_the_differences(client, server):
    for name in ("kept", "changed", "gone"):
        server.put(f"{PATH}/{name}", {})
    informer = Informer(client, PODS, backoff=QUICK)
    log = Log().attach(informer)
    async with running(informer):
        await soon("a watch", lambda: server.streams)
        log.clear()
        streams, server.streams = server.streams, set()  # the watch no longer hears anything
        server.put(f"{PATH}/changed", {})
        server.remove(f"{PATH}/gone")
        server.put(f"{PATH}/new", {})
        for stream in streams:
            stream.put_nowait(Expired("too old resource version"))
        await soon("three notifications", lambda: len(log) == 3)
    assert log == ["changed 12>14", "+new", "-gone"]
    assert {key_of(obj).name for obj in informer.items()} == {"kept", "changed", "new"}


async def test_a_failing_server_is_asked_again_and_again(client, server, caplog):
    server.put(f"{PATH}/a", {})
    server.failures += [ServiceUnavailable("starting")] * 3
    informer = Informer(client, PODS, backoff=QUICK)
    async with running(informer):
        assert informer.get("", "a")
        assert [method for method, *_ in server.requests][:4] == ["GET"] * 4


async def test_a_watch_that_keeps_ending_at_once_is_not_reopened_without_a_pause(client, server):
    pauses = []

    class Counting(Backoff):
        def pauses(self, **_):
            while True:
                pauses.append(None)
                yield 0.0

    informer = Informer(client, PODS, backoff=Counting(initial=0))
    async with running(informer):
        for n in range(3):
            await soon("a watch", lambda: server.streams)
            server.end_watches()
            await soon(f"{n + 1} pauses", lambda n=n: len(pauses) == n + 1)


async def test_a_watch_that_worked_and_broke_off_is_opened_again_after_the_shortest_pause(client, server):
    """Servers come and go. Each time counts for itself, or a component would stand still for a minute in the end."""
    places = []

    class Counting(Backoff):
        def pauses(self, **_):
            for place in itertools.count():
                places.append(place)
                yield 0.0

    informer = Informer(client, PODS, backoff=Counting(initial=0))
    log = Log().attach(informer)
    async with running(informer):
        for n in range(4):
            await soon("a watch", lambda: server.streams)
            server.put(f"{PATH}/{n}", {})
            await soon("a notification", lambda n=n: len(log) == n + 1)
            server.failures += [ServiceUnavailable("restarting")]  # it does not come back at once
            server.end_watches(ServiceUnavailable("the server closed the connection"))
            await soon("two pauses", lambda n=n: len(places) == 2 * n + 2)
    assert places == [0, 1] * 4


async def test_a_handler_that_comes_late_is_told_of_what_is_there(client, server):
    server.put(f"{PATH}/a", {})
    informer = Informer(client, PODS, backoff=QUICK)
    async with running(informer):
        log = Log().attach(informer)
        assert log == ["+a"]


async def test_a_handler_that_fails_keeps_nobody_from_hearing(client, server, caplog):
    informer = Informer(client, PODS, backoff=QUICK)
    informer.add_handler(on_add=lambda obj: 1 / 0)
    log = Log().attach(informer)
    async with running(informer):
        server.put(f"{PATH}/a", {})
        server.put(f"{PATH}/b", {})
        await soon("two notifications", lambda: len(log) == 2)
    assert "ZeroDivisionError" in caplog.text


async def test_a_handler_of_what_is_there_hears_of_additions_and_updates_alike(client, server):
    server.put(f"{PATH}/a", {})
    informer = Informer(client, PODS, backoff=QUICK)
    heard = []
    async with running(informer):
        informer.add_handler(on_set=lambda obj: heard.append(key_of(obj).name))
        server.put(f"{PATH}/b", {})
        server.put(f"{PATH}/a", {})
        server.remove(f"{PATH}/b")
        server.put(f"{PATH}/c", {})
        await soon("a notification about c", lambda: "c" in heard)
    assert heard == ["a", "b", "a", "c"]


async def test_handlers_of_an_update_are_called_in_the_order_of_their_coming(client, server):
    server.put(f"{PATH}/a", {})
    informer = Informer(client, PODS, backoff=QUICK)
    async with running(informer):
        heard = []
        informer.add_handler(on_update=lambda old, new: heard.append(1))
        informer.add_handler(on_set=lambda obj: heard.append(2))
        informer.add_handler(on_update=lambda old, new: heard.append(3))
        heard.clear()
        server.put(f"{PATH}/a", {})
        await soon("three notifications", lambda: len(heard) == 3)
    assert heard == [1, 2, 3]


async def test_a_removed_handler_hears_nothing(client, server):
    informer = Informer(client, PODS, backoff=QUICK)
    heard = []
    handler = informer.add_handler(on_add=heard.append)
    log = Log().attach(informer)
    informer.remove_handler(handler)
    async with running(informer):
        server.put(f"{PATH}/a", {})
        await soon("a notification", lambda: log)
    assert not heard


async def test_resync_reports_every_object_as_updated(client, server):
    server.put(f"{PATH}/a", {})
    informer = Informer(client, PODS, resync=0.001, backoff=QUICK)
    updates = []
    done = asyncio.Event()
    informer.add_handler(on_update=lambda old, new: (updates.append((old, new)), done.set()))
    async with running(informer):
        await done.wait()
    assert updates[0][0] is updates[0][1]


async def test_the_collection_can_be_streamed_instead_of_listed(client, server):
    server.put(f"{PATH}/a", {})
    informer = Informer(client, PODS, watch_list=True, backoff=QUICK)
    log = Log().attach(informer)
    async with running(informer):
        server.put(f"{PATH}/b", {})
        await soon("two notifications", lambda: len(log) == 2)
    assert {method for method, *_ in server.requests} == {"WATCH"}
    assert server.requests[0][2]["resourceVersionMatch"] == "NotOlderThan"


async def test_a_server_that_cannot_stream_the_collection_is_listed(client, server):
    server.put(f"{PATH}/a", {})
    server.failures.append(BadRequest("sendInitialEvents is forbidden"))
    informer = Informer(client, PODS, watch_list=True, backoff=QUICK)
    async with running(informer):
        assert informer.get("", "a")
    assert [method for method, *_ in server.requests][:2] == ["WATCH", "GET"]


async def test_informers_are_shared_by_selection_and_run_together(client, server):
    server.put(f"{PATH}/a", {"node": "n1"})
    informers = Informers(client)
    pods = informers.get(PODS, indexers={"node": by_node})
    assert informers.get(PODS, indexers={"node": by_node}) is pods
    assert informers.get(PODS, field_selector="x=y") is not pods
    async with informers:
        await informers.synced()
        assert pods.by_index("node", "n1")
        nodes = informers.get(NODES)  # asked for while the others run
        await informers.synced()
        assert nodes.has_synced
    await soon("all watches to end", lambda: not server.streams)


async def test_what_goes_wrong_beside_informers_is_not_wrapped(client, server):
    with pytest.raises(KeyError):
        async with Informers(client) as informers:
            informers.get(PODS)
            raise KeyError("mine")


async def test_two_indexes_cannot_have_one_name(client):
    informer = Informer(client, PODS, indexers={"node": by_node})
    with pytest.raises(ValueError, match="node"):
        informer.add_index("node", lambda obj: [])

"""Which controllers are run."""

from __future__ import annotations

import asyncio
from importlib import import_module

import pytest

from dray.api.errors import ServiceUnavailable
from dray.api.release import EMULATED, EffectiveVersion, Gates
from dray.client.client import Client
from dray.client.resources import NAMESPACES
from dray.client.transport import Reply
from dray.controllers import manager
from dray.controllers.controller import Controller, for_each
from dray.controllers.manager import CONTROLLERS, UnknownController, enabled_controllers
from tests.support.controlplane import controllers, server

GATES = EffectiveVersion().gates()


def test_all_that_are_on_by_default():
    found = enabled_controllers(("*",), GATES)
    assert "resourceclaim-controller" in found
    assert "resourceslice-cleanup-controller" not in found


def test_single_ones_are_switched_by_name_or_upstreams_other_name():
    assert enabled_controllers(("namespace", "resourceslice-cleanup-controller"), GATES) == [
        "resourceslice-cleanup-controller", "namespace-controller",
    ]  # fmt: skip
    assert "garbage-collector-controller" not in enabled_controllers(("*", "-garbagecollector"), GATES)


def test_a_controller_without_its_feature_has_no_work():
    assert "device-taint-eviction-controller" not in enabled_controllers(("*",), Gates(frozenset()))


def test_an_unknown_name_is_refused():
    with pytest.raises(UnknownController, match="there are: resourceclaim-controller"):
        enabled_controllers(("*", "-nonsense"), GATES)


@pytest.mark.parametrize("name", CONTROLLERS)
def test_every_controller_is_where_the_table_says_and_has_that_name(name):
    module, _, kind = CONTROLLERS[name].where.partition(":")
    found = getattr(import_module(module), kind)
    assert issubclass(found, Controller)
    assert found.name == name


class Stumbling:
    """A transport whose first answer is a failure."""

    def __init__(self, inner) -> None:
        self.inner = inner
        self.failures = 1

    async def request(self, *args, **options):
        if self.failures:
            self.failures -= 1
            raise ServiceUnavailable("not yet")
        return await self.inner.request(*args, **options)

    def __getattr__(self, name):
        return getattr(self.inner, name)


async def test_a_server_that_is_not_up_yet_is_waited_for(monkeypatch):
    monkeypatch.setattr(manager, "RELIST_BACKOFF", manager.RELIST_BACKOFF.__class__(initial=0))
    async with server() as s:
        ready = asyncio.Event()
        options = manager.Options(controllers=("garbagecollector",), gates=GATES)
        client = Client(Stumbling(s.client.transport))
        task = asyncio.create_task(manager.run(client, options=options, ready=ready.set))
        await ready.wait()
        task.cancel()
        await asyncio.wait([task])


async def test_controllers_for_kinds_that_are_not_served_are_left_out():
    async with server() as s:
        ready = asyncio.Event()

        class Blind:
            """A server that does not show any resource group."""

            def __getattr__(self, name):
                return getattr(s.client.transport, name)

            async def request(self, method, path, **options):
                reply = await s.client.transport.request(method, path, **options)
                if path == "/apis":
                    groups = [g for g in reply.body["items"] if g["metadata"]["name"] != "resource.k8s.io"]
                    return Reply(reply.status, reply.headers, {**reply.body, "items": groups})
                return reply

        options = manager.Options(
            controllers=("resourceclaim-controller", "device-taint-eviction-controller", "namespace"),
            gates=GATES,
        )
        task = asyncio.create_task(manager.run(Client(Blind()), options=options, ready=ready.set))
        await ready.wait()
        assert {t.get_name() for t in asyncio.all_tasks()} >= {"namespace-controller"}
        assert not {t.get_name() for t in asyncio.all_tasks()} & {"resourceclaim-controller"}
        task.cancel()
        await asyncio.wait([task])


async def test_all_get_their_turn_before_a_failure_is_raised():
    done = []

    async def work(number: int) -> None:
        done.append(number)
        if number == 1:
            raise ServiceUnavailable("one")

    with pytest.raises(ServiceUnavailable, match="one"):
        await for_each(range(5), work, at_once=2)
    assert done == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("release", ["", *map(str, EMULATED)])
async def test_all_controllers_get_ready_on_every_release(release):
    async with server(release) as s, controllers(s, "*"):
        await s.namespace("n")
        await s.client.delete(NAMESPACES, "", "n")

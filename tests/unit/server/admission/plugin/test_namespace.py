"""Namespaces: what must be there before anything can be in it, and what must stay."""

from __future__ import annotations

from dray.api.errors import Forbidden, NotFound
from tests.support.admission import config_map, make_world, refusal

MAPS = "/api/v1/namespaces/{}/configmaps"


async def test_nothing_is_created_in_a_namespace_that_is_not_there() -> None:
    world = await make_world("NamespaceLifecycle")
    error = await refusal(world.post(MAPS.format("none"), config_map()))
    assert isinstance(error, NotFound)
    assert error.message == 'namespaces "none" not found'


async def test_a_namespace_on_its_way_out_takes_changes_but_nothing_new() -> None:
    world = await make_world("NamespaceLifecycle")
    await world.post("/api/v1/namespaces", {"metadata": {"name": "ns"}})
    await world.post(MAPS.format("ns"), config_map())
    await world.delete("/api/v1/namespaces/ns")
    error = await refusal(world.post(MAPS.format("ns"), config_map("late")))
    assert isinstance(error, Forbidden)
    assert error.details is not None
    assert error.details["causes"][0]["reason"] == "NamespaceTerminating"
    changed = await world.patch(MAPS.format("ns") + "/m", {"data": {"a": "b"}})
    assert changed["data"] == {"a": "b"}


async def test_some_namespaces_must_stay() -> None:
    world = await make_world("NamespaceLifecycle")
    for name in ("default", "kube-system", "kube-public"):
        error = await refusal(world.delete(f"/api/v1/namespaces/{name}"))
        assert "this namespace may not be deleted" in error.message


async def test_namespaces_can_be_provided_on_demand() -> None:
    world = await make_world("NamespaceAutoProvision", "NamespaceLifecycle")
    assert await world.post(MAPS.format("fresh"), config_map())
    assert await world.get("/api/v1/namespaces/fresh")


async def test_existence_alone_can_be_asked_for() -> None:
    world = await make_world("NamespaceExists")
    assert isinstance(await refusal(world.post(MAPS.format("none"), config_map())), NotFound)

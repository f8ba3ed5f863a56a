from __future__ import annotations

import pytest

from dray.api.errors import Conflict, Expired, NotFound
from dray.client.client import PatchType
from dray.client.resources import PODS, key_of

PODS_PATH = "/api/v1/namespaces/a/pods"


async def test_an_object_goes_through_its_life(client, server):
    created = await client.create(PODS, "a", {"metadata": {"name": "p"}})
    assert created["kind"] == "Pod" and created["apiVersion"] == "v1"
    assert await client.get(PODS, "a", "p") == created
    updated = await client.update(PODS, "a", {**created, "spec": {"x": 1}})
    with pytest.raises(Conflict):
        await client.update(PODS, "a", {**created, "spec": {"x": 2}})
    patched = await client.patch(PODS, "a", "p", {"spec": {"x": 3}})
    assert (updated["spec"], patched["spec"]) == ({"x": 1}, {"x": 3})
    await client.delete(PODS, "a", "p")
    with pytest.raises(NotFound):
        await client.get(PODS, "a", "p")


async def test_a_list_is_read_page_by_page_at_one_version(client, server):
    for n in range(7):
        server.put(f"{PODS_PATH}/p{n}", {})
    listed = await client.list(PODS, "a", label_selector="x=y", page_size=3)
    assert [key_of(obj).name for obj in listed.items] == [f"p{n}" for n in range(7)]
    assert listed.resource_version == str(server.version)
    assert [query.get("continue") for _, _, query, _ in server.requests] == [None, "3", "6"]
    assert all(query["labelSelector"] == "x=y" for _, _, query, _ in server.requests)


async def test_a_list_whose_pages_expire_is_read_once_more_in_one_piece(client, server):
    for n in range(7):
        server.put(f"{PODS_PATH}/p{n}", {})
    server.forget_history()
    listed = await client.list(PODS, "a", page_size=3)
    assert len(listed.items) == 7
    assert "limit" not in server.requests[-1][2]


async def test_an_expired_version_of_the_callers_own_is_the_callers_problem(client, server):
    server.failures.append(Expired("too old"))
    with pytest.raises(Expired):
        await client.list(PODS, "a", resource_version="3")


async def test_options_become_parameters_and_bodies(client, server):
    server.put(f"{PODS_PATH}/p", {"metadata": {"uid": "u"}})
    await client.patch(
        PODS, "a", "p", {"metadata": {}}, type=PatchType.STRATEGIC, field_manager="me", dry_run=True
    )
    assert server.requests[-1][2] == {"fieldManager": "me", "dryRun": "All"}
    await client.apply(PODS, "a", {"metadata": {"name": "p"}}, field_manager="me", force=True)
    method, path, query, body = server.requests[-1]
    assert (method, path, query) == ("PATCH", f"{PODS_PATH}/p", {"fieldManager": "me", "force": "true"})
    assert body["kind"] == "Pod"
    await client.delete(
        PODS, "a", "p", uid="u", resource_version="7", grace_seconds=0, propagation="Foreground"
    )
    assert server.requests[-1][3] == {
        "apiVersion": "v1",
        "kind": "DeleteOptions",
        "preconditions": {"uid": "u", "resourceVersion": "7"},
        "gracePeriodSeconds": 0,
        "propagationPolicy": "Foreground",
    }


async def test_binding_and_eviction_are_posted_to_the_pod(client, server):
    await client.bind("a", "p", "node-1", uid="u")
    method, path, _, body = server.requests[-1]
    assert (method, path) == ("POST", f"{PODS_PATH}/p/binding")
    assert body["target"] == {"apiVersion": "v1", "kind": "Node", "name": "node-1"}
    assert body["metadata"] == {"name": "p", "namespace": "a", "uid": "u"}
    await client.evict("a", "p", grace_seconds=5)
    _, path, _, body = server.requests[-1]
    assert path == f"{PODS_PATH}/p/eviction"
    assert body["deleteOptions"]["gracePeriodSeconds"] == 5


async def test_an_empty_name_does_not_become_the_whole_collection(client):
    with pytest.raises(ValueError, match="no name"):
        await client.delete(PODS, "a", "")

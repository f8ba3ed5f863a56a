from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest

from dray.api.errors import Invalid, NotFound, StatusError
from dray.server.apiextensions.controller import CRDController
from dray.server.inprocess import InProcessTransport
from tests.support.apiserver import SERVED, Server, make_server
from tests.support.wait import wait_for

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
CATS = "/apis/example.com/v1/namespaces/default/cats"
MERGE = "application/merge-patch+json"


def definition(**names: object) -> dict:
    spec = {
        "type": "object",
        "properties": {"color": {"type": "string"}, "lives": {"type": "integer", "default": 9}},
    }
    shape = {
        "type": "object",
        "properties": {
            "spec": spec,
            "status": {"type": "object", "properties": {"mood": {"type": "string"}}},
        },
    }
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": shape},
        "subresources": {"status": {}},
    }
    plural = names.get("plural", "cats")
    return {
        "metadata": {"name": f"{plural}.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": {"plural": "cats", "kind": "Cat", **names},
            "versions": [version],
        },
    }


@asynccontextmanager
async def defining() -> AsyncIterator[tuple[Server, InProcessTransport]]:
    server = await make_server(served=SERVED | {"customresourcedefinitions"})
    definitions = CRDController(server.api)
    await definitions.start()
    task = asyncio.create_task(definitions.run())
    try:
        yield server, server.as_user()
    finally:
        task.cancel()


def serves(server: Server, plural: str = "cats") -> Callable[[], bool]:
    return lambda: server.api.resources.resource("example.com", plural) is not None


async def test_a_definition_is_established_and_its_objects_are_served():
    async with defining() as (server, client):
        await client.request("POST", DEFINITIONS, body=definition())
        await wait_for("cats to be served", serves(server))
        seen = (await client.request("GET", f"{DEFINITIONS}/cats.example.com")).object["status"]
        assert [(c["type"], c["status"]) for c in seen["conditions"]] == [
            ("NamesAccepted", "True"),
            ("Established", "True"),
        ]
        tom = (
            await client.request(
                "POST", CATS, body={"metadata": {"name": "tom"}, "spec": {"color": "red", "x": 1}}
            )
        ).object
        assert tom["spec"] == {"color": "red", "lives": 9} and tom["metadata"]["generation"] == 1
        assert (await client.request("GET", "/apis/example.com/v1")).object["resources"][0]["kind"] == "Cat"


async def test_objects_follow_the_schema():
    async with defining() as (server, client):
        await client.request("POST", DEFINITIONS, body=definition())
        await wait_for("cats to be served", serves(server))
        with pytest.raises(Invalid, match=r"spec\.lives in body must be of type integer"):
            await client.request("POST", CATS, body={"metadata": {"name": "tom"}, "spec": {"lives": "x"}})
        await client.request(
            "POST", CATS, body={"metadata": {"name": "tom"}, "spec": {}, "status": {"mood": "x"}}
        )
        assert "status" not in (await client.request("GET", f"{CATS}/tom")).object
        await client.request(
            "PATCH", f"{CATS}/tom/status", body={"status": {"mood": "good"}}, content_type=MERGE
        )
        after = (await client.request("GET", f"{CATS}/tom")).object
        assert after["status"] == {"mood": "good"} and after["metadata"]["generation"] == 1


async def test_apply_tracks_who_owns_the_fields_of_a_custom_resource():
    async with defining() as (server, client):
        await client.request("POST", DEFINITIONS, body=definition())
        await wait_for("cats to be served", serves(server))
        body = {
            "apiVersion": "example.com/v1",
            "kind": "Cat",
            "metadata": {"name": "tom"},
            "spec": {"color": "red"},
        }
        made = await client.request(
            "PATCH",
            f"{CATS}/tom",
            body=body,
            content_type="application/apply-patch+yaml",
            query={"fieldManager": "me"},
        )
        assert made.status == 201
        assert made.object["metadata"]["managedFields"][0]["fieldsV1"] == {"f:spec": {"f:color": {}}}


async def test_names_that_are_taken_are_refused():
    async with defining() as (server, client):
        await client.request("POST", DEFINITIONS, body=definition(shortNames=["c"]))
        await wait_for("cats to be served", serves(server))
        await client.request("POST", DEFINITIONS, body=definition(plural="dogs", kind="Cat"))

        def refused() -> bool:
            found = server.api.resource("apiextensions.k8s.io", "customresourcedefinitions").cache.get(
                "dogs.example.com"
            )
            conditions = (found.hub.get("status") or {}).get("conditions") or () if found is not None else ()
            return any(c["type"] == "NamesAccepted" and c["status"] == "False" for c in conditions)

        await wait_for("the definition of dogs to be refused", refused)
        assert not serves(server, "dogs")()


async def test_a_definition_takes_its_objects_with_it():
    async with defining() as (server, client):
        await client.request("POST", DEFINITIONS, body=definition())
        await wait_for("cats to be served", serves(server))
        await client.request("POST", CATS, body={"metadata": {"name": "tom"}})
        await client.request("DELETE", f"{DEFINITIONS}/cats.example.com")
        await wait_for("cats not to be served", lambda: not serves(server)())
        await wait_for(
            "the definition of cats to go",
            lambda: (
                server.api.resource("apiextensions.k8s.io", "customresourcedefinitions").cache.get(
                    "cats.example.com"
                )
                is None
            ),
        )
        with pytest.raises(NotFound):
            await client.request("GET", f"{DEFINITIONS}/cats.example.com")
        with pytest.raises(StatusError, match="404 page not found"):
            await client.request("POST", CATS, body={"metadata": {"name": "tom"}})
        assert not (await server.api.store.range("/registry/example.com/")).entries


async def test_established_definitions_are_served_from_the_start():
    async with defining() as (server, client):
        await client.request("POST", DEFINITIONS, body=definition())
        await wait_for("cats to be served", serves(server))
        await client.request("POST", CATS, body={"metadata": {"name": "tom"}})
        await server.api.resources.remove("example.com", "cats")
        again = CRDController(server.api)
        await again.start()
        assert (await client.request("GET", f"{CATS}/tom")).object["metadata"]["name"] == "tom"

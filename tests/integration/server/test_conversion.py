"""Custom resources whose versions a webhook converts."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from dray.api.errors import InternalError
from dray.server.apiextensions.controller import CRDController
from dray.server.inprocess import InProcessTransport
from tests.support.apiserver import SERVED, make_server
from tests.support.wait import wait_for
from tests.support.webhook_server import WebhookServer, webhook

OLD = "/apis/example.com/v1/namespaces/default/hosts"
NEW = "/apis/example.com/v2/namespaces/default/hosts"
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
MERGE = "application/merge-patch+json"


def version(name: str, fields: list[str], *, storage: bool) -> dict[str, Any]:
    spec = {"type": "object", "properties": {field: {"type": "string"} for field in fields}}
    schema = {"type": "object", "properties": {"spec": spec}}
    column = {"name": fields[0], "type": "string", "jsonPath": f".spec.{fields[0]}"}
    return {
        "name": name,
        "served": True,
        "storage": storage,
        "schema": {"openAPIV3Schema": schema},
        "additionalPrinterColumns": [column],
    }


def convert(request: dict[str, Any]) -> dict[str, Any]:
    """v1 has ``hostPort``, v2 has ``host`` and ``port``."""
    converted = []
    for obj in request["objects"]:
        spec = obj["spec"]
        if request["desiredAPIVersion"].endswith("v2"):
            host, _, port = spec["hostPort"].partition(":")
            changed = {"host": host, "port": port}
        else:
            changed = {"hostPort": f"{spec['host']}:{spec['port']}"}
        converted.append({**obj, "apiVersion": request["desiredAPIVersion"], "spec": changed})
    return {"convertedObjects": converted, "result": {"status": "Success"}}


@asynccontextmanager
async def hosts(directory: Path) -> AsyncIterator[tuple[InProcessTransport, WebhookServer]]:
    server = await make_server(served=SERVED | {"customresourcedefinitions"})
    definitions = CRDController(server.api)
    await definitions.start()
    task = asyncio.create_task(definitions.run())
    client = server.as_user()
    async with webhook(directory) as hook:
        hook.answer = convert
        conversion = {
            "strategy": "Webhook",
            "webhook": {"clientConfig": hook.config, "conversionReviewVersions": ["v1"]},
        }
        spec = {
            "group": "example.com",
            "scope": "Namespaced",
            "names": {"plural": "hosts", "kind": "Host"},
            "versions": [
                version("v1", ["hostPort"], storage=False),
                version("v2", ["host", "port"], storage=True),
            ],
            "conversion": conversion,
        }
        definition = {"metadata": {"name": "hosts.example.com"}, "spec": spec}
        await client.request("POST", DEFINITIONS, body=definition)
        await wait_for("hosts to be served", lambda: server.api.resources.find("example.com", "v1", "hosts"))
        try:
            yield client, hook
        finally:
            task.cancel()


async def test_objects_are_read_and_written_in_any_version(tmp_path: Path):
    async with hosts(tmp_path) as (client, hook):
        body = {"metadata": {"name": "a", "labels": {"x": "y"}}, "spec": {"hostPort": "h:1"}}
        made = (await client.request("POST", OLD, body=body)).body
        assert (made["apiVersion"], made["spec"]) == ("example.com/v1", {"hostPort": "h:1"})
        newer = (await client.request("GET", f"{NEW}/a")).body
        assert newer["spec"] == {"host": "h", "port": "1"}
        assert newer["metadata"]["labels"] == {"x": "y"}
        assert newer["metadata"]["resourceVersion"] == made["metadata"]["resourceVersion"]
        patch = {"spec": {"hostPort": "other:2"}}
        await client.request("PATCH", f"{OLD}/a", body=patch, content_type=MERGE)
        assert (await client.request("GET", f"{NEW}/a")).body["spec"] == {"host": "other", "port": "2"}
        replaced = {**newer, "spec": {"host": "third", "port": "3"}}
        del replaced["metadata"]["resourceVersion"]
        replaced["metadata"]["resourceVersion"] = (await client.request("GET", f"{NEW}/a")).body["metadata"][
            "resourceVersion"
        ]
        await client.request("PUT", f"{NEW}/a", body=replaced)
        for i in range(3):
            await client.request(
                "POST", NEW, body={"metadata": {"name": f"n{i}"}, "spec": {"host": "n", "port": str(i)}}
            )
        asked = len(hook.requests)
        listed = (await client.request("GET", OLD)).body["items"]
        assert [item["spec"]["hostPort"] for item in listed] == ["third:3", "n:0", "n:1", "n:2"]
        assert len(hook.requests) == asked + 1, "a list is converted at once"


async def test_watches_tell_of_objects_in_their_own_version(tmp_path: Path):
    async with hosts(tmp_path) as (client, _), client.watch(OLD) as batches:
        await client.request(
            "POST", NEW, body={"metadata": {"name": "a"}, "spec": {"host": "h", "port": "1"}}
        )
        async for batch in batches:
            assert batch[0].object["spec"] == {"hostPort": "h:1"}
            break


async def test_a_webhook_that_fails_is_named_and_nothing_is_stored(tmp_path: Path):
    async with hosts(tmp_path) as (client, hook):
        hook.answer = lambda request: {"result": {"status": "Failed", "message": "no such luck"}}
        body = {"metadata": {"name": "a"}, "spec": {"hostPort": "h:1"}}
        with pytest.raises(
            InternalError, match=r"conversion webhook for example\.com/v1, Kind=Host failed: no such"
        ):
            await client.request("POST", OLD, body=body)
        hook.answer = lambda request: {
            "convertedObjects": [
                {**o, "apiVersion": request["desiredAPIVersion"], "metadata": {"name": "b"}}
                for o in request["objects"]
            ],
            "result": {"status": "Success"},
        }
        with pytest.raises(InternalError, match="another name"):
            await client.request("POST", OLD, body=body)
        assert (await client.request("GET", NEW)).body["items"] == []


@pytest.mark.parametrize(
    "answer",
    [
        {"result": [1]},
        {"result": "Success"},
        {"convertedObjects": 5},
        {"convertedObjects": [1]},
        {"convertedObjects": {"a": 1}},
        {"metadata": {"labels": [1]}},
        {"metadata": {"annotations": {"a": {}}}},
        {"metadata": "a"},
    ],
)
async def test_an_answer_that_makes_no_sense_fails_the_request(tmp_path: Path, answer: dict[str, Any]):
    def nonsense(request: dict[str, Any]) -> dict[str, Any]:
        sound = convert(request)
        if (metadata := answer.get("metadata")) is not None:
            for obj in sound["convertedObjects"]:
                obj["metadata"] = {**obj["metadata"], **metadata} if isinstance(metadata, dict) else metadata
            return sound
        return sound | answer

    async with hosts(tmp_path) as (client, hook):
        hook.answer = nonsense
        body = {"metadata": {"name": "a"}, "spec": {"hostPort": "h:1"}}
        with pytest.raises(InternalError, match=r"conversion webhook for example\.com/v1, Kind=Host failed"):
            await client.request("POST", OLD, body=body)
        assert (await client.request("GET", NEW)).body["items"] == []


async def test_objects_that_were_stored_in_another_version_are_converted_when_they_are_read(tmp_path: Path):
    async with hosts(tmp_path) as (client, _):
        body = {"metadata": {"name": "a"}, "spec": {"host": "h", "port": "1"}}
        await client.request("POST", NEW, body=body)
        old, new = version("v1", ["hostPort"], storage=True), version("v2", ["host", "port"], storage=False)
        old["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]["kept"] = {
            "type": "string",
            "default": "v1",
        }
        change = {"spec": {"versions": [old, new]}}
        await client.request("PATCH", f"{DEFINITIONS}/hosts.example.com", body=change, content_type=MERGE)

        async def stored_as_v1() -> bool:
            return (await client.request("GET", f"{OLD}/a")).body["spec"].get("kept") == "v1"

        await wait_for("v1 to be the version of storage", stored_as_v1)
        assert (await client.request("GET", f"{OLD}/a")).body["spec"] == {"hostPort": "h:1", "kept": "v1"}
        assert (await client.request("GET", f"{NEW}/a")).body["spec"] == {"host": "h", "port": "1"}
        (listed,) = (await client.request("GET", NEW)).body["items"]
        assert listed["spec"] == {"host": "h", "port": "1"}
        await client.request(
            "PATCH", f"{NEW}/a", body={"metadata": {"labels": {"x": "y"}}}, content_type=MERGE
        )
        assert (await client.request("GET", f"{OLD}/a")).body["spec"] == {"hostPort": "h:1", "kept": "v1"}

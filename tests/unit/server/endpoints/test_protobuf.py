"""Protobuf through the whole server: bodies, answers, watches and refusals."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from dray.api import protobuf, schema
from dray.api.protobuf import MEDIA_TYPE
from dray.server.endpoints.requests import Request
from dray.server.endpoints.responsewriter import ResponseWriter
from dray.wire.messages import Headers, Query, Reply
from tests.support.apiserver import ROOT, Server, make_server

MAPS = "/api/v1/namespaces/default/configmaps"
BOTH = f"{MEDIA_TYPE},application/json"


def enclosed(kind: str, *, api_version: str = "v1", **members: Any) -> bytes:
    return protobuf.enclose({"kind": kind, "apiVersion": api_version, **members})


async def call(
    server: Server, method: str, path: str, body: bytes = b"", *, query: str = "", accept: str = BOTH
) -> Reply:
    headers = Headers([("content-type", MEDIA_TYPE), ("accept", accept)])
    return await ResponseWriter(server.api).serve(
        Request(method, path, Query(query), headers, body, user=ROOT)
    )


def opened(data: bytes | None) -> dict[str, Any]:
    """The object in an answer."""
    assert data is not None
    found = protobuf.unwrap(data)
    type_ = protobuf.type_for(found.api_version, found.kind)
    assert type_ is not None
    named = {"kind": found.kind, "apiVersion": found.api_version}
    return named | schema.normalise(type_, protobuf.decode(type_, found.message))


def content_type(reply: Reply) -> str:
    return dict(reply.headers)["Content-Type"]


async def test_an_object_is_created_read_and_deleted_in_protobuf():
    server = await make_server()
    made = await call(server, "POST", MAPS, enclosed("ConfigMap", metadata={"name": "a"}, data={"k": "v"}))
    assert made.code == 201 and content_type(made) == MEDIA_TYPE
    obj = opened(made.body)
    assert obj["data"] == {"k": "v"} and obj["metadata"]["uid"]
    found = opened((await call(server, "GET", f"{MAPS}/a")).body)
    assert found == obj
    uid = {"uid": obj["metadata"]["uid"]}
    options = enclosed("DeleteOptions", api_version="meta.k8s.io/v1", preconditions=uid)
    gone = opened((await call(server, "DELETE", f"{MAPS}/a", options)).body)
    assert (gone["kind"], gone["status"]) == ("Status", "Success")


async def test_protobuf_and_json_say_the_same():
    server = await make_server()
    pod = {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    await call(server, "POST", "/api/v1/namespaces/default/pods", enclosed("Pod", **pod))
    for path in (
        "/api/v1/namespaces/default/pods/p",
        "/api/v1/namespaces/default/pods",
        "/api/v1/namespaces",
    ):
        told = opened((await call(server, "GET", path)).body)
        written = await call(server, "GET", path, accept="application/json")
        assert told == schema.parse(written.body or b"").object


async def test_a_list_of_metadata_can_be_had_in_protobuf():
    server = await make_server()
    await call(server, "POST", MAPS, enclosed("ConfigMap", metadata={"name": "a"}, data={"k": "v"}))
    form = "as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
    found = opened((await call(server, "GET", MAPS, accept=f"{MEDIA_TYPE};{form},application/json")).body)
    assert found["kind"] == "PartialObjectMetadataList"
    assert [item["metadata"]["name"] for item in found["items"]] == ["a"]


class Wire:
    """A connection that keeps what is written to it, and is closed after some frames."""

    congested = False

    def __init__(self, frames: int) -> None:
        self.data = b""
        self._wanted = frames
        self.done = asyncio.Event()

    @property
    def closed(self) -> bool:
        return self.done.is_set()

    def write(self, data: bytes) -> None:
        self.data += data
        if len(self.frames()) >= self._wanted:
            self.done.set()

    async def drained(self) -> None:
        return

    def frames(self) -> list[bytes]:
        found, at = [], 0
        while at < len(self.data):
            size = int.from_bytes(self.data[at : at + 4], "big")
            found.append(self.data[at + 4 : at + 4 + size])
            at += 4 + size
        return found


def event(frame: bytes) -> tuple[str, dict[str, Any]]:
    at = frame.index(b"k8s\x00")
    return frame[2 : 2 + frame[1]].decode(), opened(frame[at:])


@pytest.mark.parametrize("form", ["", ";as=PartialObjectMetadata;g=meta.k8s.io;v=v1"])
async def test_a_watch_is_framed(form: str):
    server = await make_server()
    kind = "PartialObjectMetadata" if form else "ConfigMap"
    await call(server, "POST", MAPS, enclosed("ConfigMap", metadata={"name": "a"}))
    query = "watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"
    reply = await call(server, "GET", MAPS, query=query, accept=f"{MEDIA_TYPE}{form};stream=watch")
    assert content_type(reply) == f"{MEDIA_TYPE};stream=watch"
    assert reply.stream is not None
    wire = Wire(4)
    task = asyncio.create_task(reply.stream.run(wire))
    await asyncio.sleep(0)
    await call(server, "POST", MAPS, enclosed("ConfigMap", metadata={"name": "b"}))
    await call(server, "DELETE", f"{MAPS}/a")
    await asyncio.wait_for(wire.done.wait(), 5)
    reply.stream.close()
    task.cancel()
    found = [event(frame) for frame in wire.frames()]
    assert [(t, o["kind"], o["metadata"].get("name")) for t, o in found] == [
        ("ADDED", kind, "a"),
        ("BOOKMARK", kind, None),
        ("ADDED", kind, "b"),
        ("DELETED", kind, "a"),
    ]
    assert found[1][1]["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}


async def test_refusals_come_in_protobuf_too():
    server = await make_server()
    reply = await call(server, "GET", f"{MAPS}/none")
    status = opened(reply.body)
    assert (reply.code, content_type(reply), status["reason"]) == (404, MEDIA_TYPE, "NotFound")


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b"", "the object provided is unrecognized (must be of type ConfigMap): empty data (<empty>)"),
        (b"k8s\x00\xff", "the object provided is unrecognized (must be of type ConfigMap): unexpected EOF"),
        (
            b"k8s\x00\x12\x02\n\x05",
            'ConfigMap in version "v1" cannot be handled as a ConfigMap: unexpected EOF',
        ),
        (b'{"kind":"ConfigMap"}', "does not appear to be a protobuf message, expected prefix [107 56 115 0]"),
        (enclosed("Secret"), 'Secret in version "v1" cannot be handled as a ConfigMap'),
    ],
)
async def test_what_cannot_be_read_is_a_bad_request(body: bytes, words: str):
    server = await make_server()
    reply = await call(server, "POST", MAPS, body)
    status = opened(reply.body)
    assert reply.code == 400
    assert words in status["message"]


async def test_tables_and_the_version_are_given_as_json():
    server = await make_server()
    form = "as=Table;g=meta.k8s.io;v=v1"
    table = await call(server, "GET", MAPS, accept=f"{MEDIA_TYPE};{form},application/json;{form}")
    assert content_type(table) == "application/json"
    assert content_type(await call(server, "GET", "/version")) == "application/json"
    refused = await call(server, "GET", "/version", accept=MEDIA_TYPE)
    assert refused.code == 406


@pytest.mark.parametrize(
    "path", ["/api", "/apis", "/api/v1", "/apis/resource.k8s.io", "/apis/resource.k8s.io/v1"]
)
async def test_discovery_is_the_same_in_protobuf(path: str) -> None:
    server = await make_server()
    in_protobuf = await call(server, "GET", path, accept=MEDIA_TYPE)
    assert (in_protobuf.code, content_type(in_protobuf)) == (200, MEDIA_TYPE)
    told = json.loads((await call(server, "GET", path, accept="application/json")).body or b"")
    found = opened(in_protobuf.body)
    assert {name: value for name, value in found.items() if value != ""} == told


def test_the_verbs_of_a_resource_are_a_message_of_their_own() -> None:
    verbs = {"name": "pods", "verbs": ["get", "list"]}
    listed = protobuf.enclose({"kind": "APIResourceList", "groupVersion": "v1", "resources": [verbs]})
    assert b"\x0a\x04pods" + b"\x22\x0b" + b"\x0a\x03get\x0a\x04list" in listed
    assert opened(listed)["resources"][0]["verbs"] == ["get", "list"]


@pytest.mark.parametrize("version", ["v2", "v2beta1"])
@pytest.mark.parametrize("path", ["/api", "/apis"])
async def test_aggregated_discovery_is_the_same_in_protobuf(path: str, version: str) -> None:
    server = await make_server()
    form = f"g=apidiscovery.k8s.io;v={version};as=APIGroupDiscoveryList"
    in_protobuf = await call(server, "GET", path, accept=f"{MEDIA_TYPE};{form},application/json")
    in_json = await call(server, "GET", path, accept=f"application/json;{form},application/json")
    assert content_type(in_protobuf) == f"{MEDIA_TYPE};{form}"
    assert content_type(in_json) == f"application/json;{form}"
    assert dict(in_protobuf.headers)["Etag"] == dict(in_json.headers)["Etag"]
    found, told = opened(in_protobuf.body), json.loads(in_json.body or b"")
    assert (found["kind"], found["apiVersion"]) == (told["kind"], told["apiVersion"])
    assert [g["versions"] for g in found["items"]] == [g["versions"] for g in told["items"]]
    assert [g["metadata"].get("name") for g in found["items"]] == [
        g["metadata"].get("name") for g in told["items"]
    ]

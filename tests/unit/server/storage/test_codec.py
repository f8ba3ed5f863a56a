"""Values in the store that somebody else wrote: kube-apiserver's protobuf, older storage versions, and garbage."""

from __future__ import annotations

import json
from typing import Any

import pytest

from dray.api import protobuf
from dray.api.errors import InternalError, StatusError
from dray.server.apiextensions.controller import CRDController
from dray.server.storage.codec import Undecodable
from dray.store.memory import MemoryStore
from tests.support.apiserver import SERVED, make_server

CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"
CLAIMS = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims"
CREATED = "2026-01-02T03:04:05Z"
SCHEMA = {
    "type": "object",
    "properties": {"spec": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}},
}
DEFINITION = {  # as kube-apiserver writes a definition of v1 whose versions are alike
    "kind": "CustomResourceDefinition",
    "apiVersion": "apiextensions.k8s.io/v1beta1",
    "metadata": {"name": "cats.example.com", "uid": "1-2-3", "creationTimestamp": CREATED, "generation": 1},
    "spec": {
        "group": "example.com",
        "version": "v1",
        "names": {"plural": "cats", "singular": "cat", "kind": "Cat", "listKind": "CatList"},
        "scope": "Namespaced",
        "validation": {"openAPIV3Schema": SCHEMA},
        "versions": [{"name": "v1", "served": True, "storage": True}],
        "additionalPrinterColumns": [{"name": "Color", "type": "string", "JSONPath": ".spec.color"}],
        "conversion": {"strategy": "None"},
        "preserveUnknownFields": False,
    },
    "status": {
        "conditions": [
            {"type": kind, "status": "True", "lastTransitionTime": CREATED, "reason": "R", "message": "m"}
            for kind in ("NamesAccepted", "Established")
        ],
        "acceptedNames": {"plural": "cats", "singular": "cat", "kind": "Cat", "listKind": "CatList"},
        "storedVersions": ["v1"],
    },
}


def named(name: str, *, namespace: str = "default") -> dict[str, Any]:
    return {"name": name, "namespace": namespace, "uid": f"uid-{name}", "creationTimestamp": CREATED}


def stored(kind: str, api_version: str, name: str, **parts: Any) -> bytes:
    """An object in protobuf, as kube-apiserver stores it."""
    return protobuf.enclose({"apiVersion": api_version, "kind": kind, "metadata": named(name), **parts})


async def test_protobuf_values_are_served_changed_and_deleted_like_any_other():
    store = MemoryStore()
    await store.create("/registry/configmaps/default/a", stored("ConfigMap", "v1", "a", data={"k": "v"}))
    server = await make_server(store=store)
    client = server.as_user()
    found = (await client.request("GET", f"{CONFIG_MAPS}/a")).body
    assert (found["data"], found["metadata"]["uid"]) == ({"k": "v"}, "uid-a")
    await client.request(
        "PATCH", f"{CONFIG_MAPS}/a", body={"data": {"k": "w"}}, content_type="application/merge-patch+json"
    )
    assert json.loads((await store.get("/registry/configmaps/default/a")).value)["data"] == {"k": "w"}
    await client.request("DELETE", f"{CONFIG_MAPS}/a")
    assert await store.get("/registry/configmaps/default/a") is None


async def test_what_another_server_writes_beside_this_one_reaches_its_readers():
    store = MemoryStore()
    server = await make_server(store=store, served=SERVED | {"endpointslices"})
    client = server.as_user()
    endpoint = {"addresses": ["10.0.0.1"], "topology": {"topology.kubernetes.io/zone": "z", "rack": "r"}}
    value = stored(
        "EndpointSlice", "discovery.k8s.io/v1beta1", "s", addressType="IPv4", endpoints=[endpoint], ports=[]
    )
    await store.create("/registry/endpointslices/default/s", value)
    found = (
        await client.request("GET", "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices/s")
    ).body
    assert found["apiVersion"] == "discovery.k8s.io/v1"
    assert found["endpoints"][0]["zone"] == "z" and found["endpoints"][0]["deprecatedTopology"] == {
        "rack": "r"
    }


@pytest.mark.parametrize(
    "value", [json.dumps(DEFINITION).encode(), protobuf.enclose(DEFINITION)], ids=["json", "protobuf"]
)
async def test_definitions_that_upstream_stored_keep_their_schema(value: bytes):
    store = MemoryStore()
    key = "/registry/apiextensions.k8s.io/customresourcedefinitions/cats.example.com"
    await store.create(key, value)
    server = await make_server(store=store, served=SERVED | {"customresourcedefinitions"})
    await CRDController(server.api).start()
    client = server.as_user()
    path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/cats.example.com"
    patch = {"metadata": {"labels": {"changed": "here"}}}
    await client.request("PATCH", path, body=patch, content_type="application/merge-patch+json")
    written = json.loads((await store.get(key)).value)
    assert written["apiVersion"] == "apiextensions.k8s.io/v1"
    (version,) = written["spec"]["versions"]
    assert version["schema"] == {"openAPIV3Schema": SCHEMA}
    assert version["additionalPrinterColumns"][0]["jsonPath"] == ".spec.color"
    assert not {"version", "validation", "additionalPrinterColumns"} & written["spec"].keys()
    cats = await client.request("GET", "/apis/example.com/v1/namespaces/default/cats")
    assert cats.body["kind"] == "CatList"


@pytest.mark.parametrize(
    "value",
    [
        b'{"kind":"ConfigMap","apiVersion":"v9","metadata":{"name":"bad","namespace":"default"}}',
        b'{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"bad"',
        b"k8s:enc:aescbc:v1:key1:\x00\x01",
        b"k8s\x00\x0a\x0f\x0a\x02v1\x12\x09ConfigMap\x12\x04\xff\xff\xff\xff",
        stored("Secret", "v1", "bad"),
    ],
    ids=["version", "cut", "encrypted", "malformed", "kind"],
)
async def test_a_value_that_cannot_be_read_is_named_and_never_written(value: bytes):
    store = MemoryStore()
    await store.create("/registry/configmaps/default/bad", value)
    await store.create("/registry/configmaps/default/good", stored("ConfigMap", "v1", "good"))
    server = await make_server(store=store)
    client = server.as_user()
    body = {"metadata": {"name": "bad"}}
    for method, path, sent in (
        ("GET", f"{CONFIG_MAPS}/bad", None),
        ("PUT", f"{CONFIG_MAPS}/bad", body),
        ("POST", CONFIG_MAPS, body),
        ("DELETE", f"{CONFIG_MAPS}/bad", None),
    ):
        with pytest.raises(InternalError, match='configmaps "bad" cannot be read from storage'):
            await client.request(method, path, body=sent)
    listed = await client.request("GET", CONFIG_MAPS)
    assert [item["metadata"]["name"] for item in listed.body["items"]] == ["good"]
    assert (await store.get("/registry/configmaps/default/bad")).value == value


async def test_claims_are_not_listed_while_one_of_them_cannot_be_read():
    store = MemoryStore()
    value = b'{"kind":"ResourceClaim","apiVersion":"resource.k8s.io/v7","metadata":{"name":"bad"}}'
    await store.create("/registry/resourceclaims/default/bad", value)
    server = await make_server(store=store)
    with pytest.raises(Undecodable, match='"bad"'):
        await server.as_user().request("GET", CLAIMS)


async def test_a_watch_ends_when_an_object_becomes_unreadable_instead_of_telling_that_it_has_gone():
    store = MemoryStore()
    revision = await store.create("/registry/configmaps/default/a", stored("ConfigMap", "v1", "a"))
    server = await make_server(store=store)
    cache = server.api.resource("", "configmaps").cache
    watcher = cache.watch("default", since=store.revision)
    await store.update("/registry/configmaps/default/a", b"garbage", expected=revision)
    assert not watcher.pending and '"a" cannot be read' in watcher.lost
    with pytest.raises(StatusError):
        cache.get("default/a")

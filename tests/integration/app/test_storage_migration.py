"""Storage version migration of running clusters, on one server and through several."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from dray.app import storage_migration, store_check
from dray.app.server import RunningServer
from dray.client.client import Client
from tests.support import several_servers
from tests.support.etcd import Etcd
from tests.support.several_servers import servers
from tests.support.wait import wait_for

TEMPLATES = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaimtemplates"
STORED = "/registry/resourceclaimtemplates/default/"
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
MERGE = "application/merge-patch+json"
OLD = 60


def old_template(name: str, version: str) -> bytes:
    """A template as servers of earlier releases stored it."""
    request = '{"name":"r","deviceClassName":"gpu","allocationMode":"ExactCount","count":1}'
    if version == "v1beta2":
        request = '{"name":"r","exactly":{"deviceClassName":"gpu","allocationMode":"ExactCount","count":1}}'
    return (
        f'{{"kind":"ResourceClaimTemplate","apiVersion":"resource.k8s.io/{version}","metadata":{{"name":"{name}",'
        f'"namespace":"default","uid":"u-{name}","creationTimestamp":"2025-01-01T00:00:00Z"}},'
        f'"spec":{{"spec":{{"devices":{{"requests":[{request}]}}}}}}}}'
    ).encode()


async def relabel(client: Client, name: str) -> None:
    body = {"metadata": {"labels": {"touched": "yes"}}}
    await client.transport.request("PATCH", f"{TEMPLATES}/{name}", body=body, content_type=MERGE)


@pytest.mark.parametrize("kind", ["sqlite", "etcd"])
async def test_objects_of_older_versions_are_written_anew_under_load_and_nobodys_change_is_lost(
    kind: str, fresh_etcd: Etcd, tmp_path: Path
):
    spec, count = (f"etcd://{fresh_etcd.endpoint}", 2) if kind == "etcd" else ("sqlite", 1)
    async with (
        servers(tmp_path, spec, count=count) as running,
        several_servers.client(*running) as client,
        several_servers.client(running[-1]) as other,
    ):
        store = running[0].api.store
        names = [f"t-{number}" for number in range(OLD)]
        for number, name in enumerate(names):
            await store.create(STORED + name, old_template(name, ("v1beta1", "v1beta2")[number % 2]))
        assert (await store_check.check(store)).outdated == OLD
        found = (await other.transport.request("GET", TEMPLATES)).object["items"]
        before = {item["metadata"]["name"]: item["spec"] for item in found}
        async with asyncio.TaskGroup() as group:
            migration = group.create_task(storage_migration.migrate(client))
            for name in names[::3]:
                group.create_task(relabel(other, name))
        assert migration.result().problems == []
        report = await store_check.check(store)
        assert (report.outdated, report.problems) == (0, [])
        found = (await client.transport.request("GET", TEMPLATES)).object["items"]
        assert {item["metadata"]["name"]: item["spec"] for item in found} == before
        labelled = {item["metadata"]["name"] for item in found if item["metadata"].get("labels")}
        assert labelled == set(names[::3])
        # What is stored as it should be is not written again.
        assert (await storage_migration.migrate(client)).rewritten == 0
        revisions = {item["metadata"]["resourceVersion"] for item in found}
        again = (await client.transport.request("GET", TEMPLATES)).object["items"]
        assert {item["metadata"]["resourceVersion"] for item in again} == revisions


def definition(*, storage: str) -> dict[str, Any]:
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    versions = [
        {"name": name, "served": True, "storage": name == storage, "schema": schema} for name in ("v1", "v2")
    ]
    names = {"plural": "things", "singular": "thing", "kind": "Thing"}
    return {
        "metadata": {"name": "things.example.com"},
        "spec": {"group": "example.com", "scope": "Namespaced", "names": names, "versions": versions},
    }


def stored_version(server: RunningServer) -> str:
    found = server.api.resources.find("example.com", "v1", "things")
    return "" if found is None else found[0].cache.codecs.storage.version.name


async def test_a_custom_kind_whose_objects_are_migrated_is_stored_in_one_version(tmp_path: Path):
    async with servers(tmp_path, "sqlite", count=1) as (server,), several_servers.client(server) as client:
        await client.transport.request("POST", DEFINITIONS, body=definition(storage="v1"))
        await wait_for(
            "things to be served", lambda: server.api.resources.find("example.com", "v1", "things")
        )
        things = "/apis/example.com/v1/namespaces/default/things"
        await client.transport.request("POST", things, body={"metadata": {"name": "a"}})
        change = {"spec": definition(storage="v2")["spec"]}
        path = f"{DEFINITIONS}/things.example.com"
        await client.transport.request("PATCH", path, body=change, content_type=MERGE)
        assert (await client.transport.request("GET", path)).object["status"]["storedVersions"] == [
            "v1",
            "v2",
        ]
        assert (await storage_migration.migrate(client)).rewritten == 1
        assert (await client.transport.request("GET", path)).object["status"]["storedVersions"] == ["v2"]
        entry = await server.api.store.get("/registry/example.com/things/default/a")
        assert entry is not None and b"example.com/v2" in entry.value

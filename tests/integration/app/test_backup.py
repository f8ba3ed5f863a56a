"""Backups of running clusters, restored elsewhere; and data directories of earlier versions."""

from __future__ import annotations

import asyncio
import gzip
import hashlib
import zlib
from pathlib import Path
from typing import Any

import pytest

from dray.api.claims import FINALIZER
from dray.api.errors import Forbidden
from dray.app import backups
from dray.client.client import Client
from dray.store.backup import MAGIC, DamagedBackup, NotEmpty
from tests.support import several_servers
from tests.support.etcd import Etcd
from tests.support.several_servers import servers

MAPS = "/api/v1/namespaces/default/configmaps"
CLAIMS = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims"
MERGE = "application/merge-patch+json"
EARLIER = Path(__file__).with_name("store-without-bookings.db.gz")


async def allocated_claim(client: Client, name: str, device: str) -> None:
    request = {"name": "r", "exactly": {"deviceClassName": "gpu"}}
    body: Any = {
        "metadata": {"name": name, "finalizers": [FINALIZER]},
        "spec": {"devices": {"requests": [request]}},
    }
    await client.transport.request("POST", CLAIMS, body=body)
    result = {"request": "r", "driver": "d.example.com", "pool": "p", "device": device}
    body = {"status": {"allocation": {"devices": {"results": [result]}}}}
    await client.transport.request("PATCH", f"{CLAIMS}/{name}/status", body=body, content_type=MERGE)


async def listed(client: Client, path: str) -> dict[str, Any]:
    found = (await client.transport.request("GET", path)).object["items"]
    return {item["metadata"]["name"]: item for item in found}


@pytest.mark.parametrize(("kind", "target"), [("sqlite", "sqlite"), ("sqlite", "etcd"), ("etcd", "sqlite")])
async def test_a_backup_under_load_has_everything_that_was_acknowledged_before_it_began(
    kind: str, target: str, fresh_etcd: Etcd, tmp_path: Path
):
    etcd = f"etcd://{fresh_etcd.endpoint}"
    acknowledged: list[str] = []
    stop = asyncio.Event()
    file = tmp_path / "cluster.backup"
    async with (
        servers(tmp_path / "from", etcd if kind == "etcd" else "sqlite", count=1) as (server,),
        several_servers.client(server) as client,
    ):
        await allocated_claim(client, "a", "gpu-0")

        async def load(writer: int) -> None:
            number = 0
            while not stop.is_set():
                name = f"load-{writer}-{number}"
                await client.transport.request("POST", MAPS, body={"metadata": {"name": name}})
                acknowledged.append(name)
                number += 1

        async with asyncio.TaskGroup() as group:
            for writer in range(4):
                group.create_task(load(writer))
            while len(acknowledged) < 100:  # noqa: ASYNC110 (the writers are in this loop)
                await asyncio.sleep(0.001)
            before = set(acknowledged)
            await backups.from_server(file, client)
            stop.set()
        expected = await listed(client, MAPS)
    report = await backups.restore(file, etcd if target == "etcd" else "sqlite", tmp_path / "to" / "server-0")
    assert report.problems == [] and report.bookings == 1
    async with (
        servers(tmp_path / "to", etcd if target == "etcd" else "sqlite", count=1) as (server,),
        several_servers.client(server) as client,
    ):
        found = await listed(client, MAPS)
        assert before <= found.keys() <= expected.keys()
        sample = next(iter(before))
        if kind == target:
            assert found[sample] == expected[sample]
        else:
            assert found[sample]["metadata"]["uid"] == expected[sample]["metadata"]["uid"]
        with pytest.raises(Exception, match="gpu-0 is allocated to claim default/a"):
            await allocated_claim(client, "b", "gpu-0")


async def test_a_damaged_backup_and_a_store_that_is_in_use_are_refused(tmp_path: Path):
    file = tmp_path / "cluster.backup"
    async with servers(tmp_path, "sqlite", count=1) as (server,), several_servers.client(server) as client:
        await backups.from_server(file, client)
    whole = file.read_bytes()
    forged = [MAGIC + content for content in (b"x", zlib.compress(b"\0\0\0\1\xc1"), zlib.compress(b""))]
    for wrong in (
        whole[:-1],
        whole[:100] + b"x" + whole[101:],
        b"something else",
        *(content + hashlib.sha256(content).digest() for content in forged),
    ):
        file.write_bytes(wrong)
        with pytest.raises(DamagedBackup):
            await backups.restore(file, "sqlite", tmp_path / "to")
    assert not (tmp_path / "to").exists()
    file.write_bytes(whole)
    with pytest.raises(NotEmpty, match="is there already"):
        await backups.restore(file, "sqlite", tmp_path / "server-0")


async def test_large_objects_are_restored_into_etcd_in_requests_that_it_takes(
    fresh_etcd: Etcd, tmp_path: Path
):
    """Slices of a hundred devices are of this size, and there is one for every node."""
    file = tmp_path / "cluster.backup"
    async with servers(tmp_path, "sqlite", count=1) as (server,), several_servers.client(server) as client:
        for number in range(60):
            body = {"metadata": {"name": f"large-{number}"}, "data": {"value": "x" * 60_000}}
            await client.transport.request("POST", MAPS, body=body)
        await backups.from_server(file, client)
    report = await backups.restore(file, f"etcd://{fresh_etcd.endpoint}", tmp_path / "to")
    assert report.objects > 60 and not report.problems


async def test_only_administrators_may_ask_for_a_backup(tmp_path: Path):
    async with servers(tmp_path, "memory", count=1) as (server,), several_servers.client(server) as admin:
        path = "/api/v1/namespaces/default/serviceaccounts"
        await admin.transport.request("POST", path, body={"metadata": {"name": "robot"}})
        granted = await admin.transport.request("POST", f"{path}/robot/token", body={"spec": {}})
        async with several_servers.client(server, token=granted.object["status"]["token"]) as robot:
            with pytest.raises(Forbidden, match="cannot get path"):
                await backups.from_server(tmp_path / "stolen", robot)
    assert not (tmp_path / "stolen").exists()


async def test_the_store_of_an_earlier_version_is_taken_over_and_its_devices_are_booked(tmp_path: Path):
    data = tmp_path / "server-0"
    data.mkdir()
    (data / "store.db").write_bytes(gzip.decompress(EARLIER.read_bytes()))
    async with servers(tmp_path, "sqlite", count=1) as (server,), several_servers.client(server) as client:
        assert (await listed(client, MAPS))["settings"]["data"] == {"k": "v"}
        assert (await listed(client, CLAIMS)).keys() == {
            "classic", "partition", "pending", "share-1", "share-2", "whole",
        }  # fmt: skip
        for device, holder in (("gpu-0", "whole"), ("gpu-1", "share-1"), ("part-0", "partition")):
            with pytest.raises(Exception, match=f"is allocated to claim default/{holder}"):
                await allocated_claim(client, f"another-{device}", device)

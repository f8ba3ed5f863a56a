"""A server on an etcd that a kube-apiserver has written to, and goes on writing to. The values are of our own encoder."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from dray.api import protobuf
from dray.store.factory import open_store
from tests.support.etcd import Etcd
from tests.support.tls_server import reached

MAPS = "/api/v1/namespaces/default/configmaps"


def config_map(name: str) -> bytes:
    metadata = {
        "name": name,
        "namespace": "default",
        "uid": name,
        "creationTimestamp": "2026-01-02T03:04:05Z",
    }
    return protobuf.enclose(
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"k": "v"}}
    )


async def test_protobuf_is_served_at_the_start_and_while_it_comes_in(
    tmp_path: Path, tool: Callable[[str], str]
):
    etcd = Etcd(tool("etcd"), tmp_path)
    etcd.start()
    try:
        other = await open_store(f"etcd://{etcd.endpoint}", data=tmp_path)
        await other.create("/registry/configmaps/default/a", config_map("a"))
        await other.create("/registry/configmaps/default/bad", b"k8s:enc:aescbc:v1:key:\x00")
        async with reached(tmp_path / "server", store=f"etcd://{etcd.endpoint}") as api:
            status, listed = await api.call("GET", MAPS)
            assert (status, [item["metadata"]["name"] for item in listed["items"]]) == (200, ["a"])
            status, bad = await api.call("GET", f"{MAPS}/bad")
            assert status == 500 and 'configmaps "bad" cannot be read from storage' in bad["message"]
            revision = listed["metadata"]["resourceVersion"]
            url = f"{api.server.url}{MAPS}?watch=1&timeoutSeconds=20&resourceVersion={revision}"
            async with api.session.get(url) as watch:
                await other.create("/registry/configmaps/default/b", config_map("b"))
                event = json.loads(await watch.content.readline())
            assert (event["type"], event["object"]["data"]) == ("ADDED", {"k": "v"})
        await other.close()
    finally:
        etcd.stop()

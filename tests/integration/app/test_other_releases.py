"""A data directory that is started as one release after another."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from dray.app.options import Address, OptionError, ServerOptions
from dray.app.up import Hooks, RunningCluster, UpOptions, run_up
from dray.store.factory import open_store

STORED = {
    "resourceclaims/default/cat": '{"kind":"ResourceClaim","apiVersion":"resource.k8s.io/v1alpha2","metadata":'
    '{"name":"cat","namespace":"default","uid":"u"},"spec":{"resourceClassName":"c"}}',
    "resourceclaimtemplates/default/cats": '{"kind":"ResourceClaimTemplate","apiVersion":"resource.k8s.io/v1alpha2",'
    '"metadata":{"name":"cats","namespace":"default","uid":"v"},"spec":{"spec":{"resourceClassName":"c"}}}',
    "resourceslices/cats": '{"kind":"ResourceSlice","apiVersion":"resource.k8s.io/v1alpha2","metadata":'
    '{"name":"cats","uid":"w"},"nodeName":"n","driverName":"d","namedResources":{"instances":[]}}',
}


async def start(data: Path, stored: tuple[str, ...]) -> list[str]:
    """The slices of a 1.32 cluster that starts with what 1.30 has stored."""
    store = await open_store("sqlite", data=data)
    for key in stored:
        await store.create(f"/registry/{key}", STORED[key].encode())
    await store.close()
    server = ServerOptions(listen=Address("127.0.0.1", 0, 1), data=data, store="sqlite", emulate="1.32")
    end, found = asyncio.Event(), list[str]()

    def ready(cluster: RunningCluster) -> None:
        slices = cluster.server.api.resource("resource.k8s.io", "resourceslices").cache
        found.extend(error.message for error in slices.undecodable())
        found.extend(slices.documents)
        end.set()

    options = UpOptions(server=server, nodes=1, devices=1, drivers=("gpu",))
    await asyncio.wait_for(run_up(options, hooks=Hooks(ready=ready, settled=lambda: None), end=end), 60)
    return found


async def test_slices_of_another_release_are_left_behind(tmp_path: Path) -> None:
    [only] = await start(tmp_path, ("resourceslices/cats",))
    assert only.startswith("node-1-gpu.example.com-")


@pytest.mark.parametrize(
    "stored", [("resourceclaims/default/cat", "resourceclaimtemplates/default/cats"), ("resourceclaimtemplates/default/cats",)]
)  # fmt: skip
async def test_what_users_made_under_another_release_is_named_instead_of_a_cluster_that_never_is_ready(
    tmp_path: Path, stored: tuple[str, ...]
) -> None:
    with pytest.raises(ExceptionGroup) as refused:
        await start(tmp_path, stored)
    [reason] = refused.value.exceptions
    assert isinstance(reason, OptionError)
    text = str(reason)
    assert f"/registry/{stored[0]}" in text and "resource.k8s.io/v1alpha2" in text
    assert ("and 1 more such object" in text) == (len(stored) == 2)
    assert "--data" in text

"""What pods that have come and gone leave in a process."""

from __future__ import annotations

import asyncio
import gc
from pathlib import Path

from dray.app.options import Address, ServerOptions
from dray.app.up import Hooks, RunningCluster, UpOptions, run_up
from dray.client.client import Client
from dray.client.resources import PODS, RESOURCE_CLAIM_TEMPLATES
from dray.testing.objects import claim_template, pod
from tests.support.wait import wait_for

#: Pods that are there at the same time.
TOGETHER = 10


async def live_and_go(cluster: RunningCluster, client: Client, *, pods: int) -> None:
    """So many pods with claims run and are deleted, and nothing of them is left in the API server."""
    objects = {
        plural: cluster.server.api.resource(group, plural).cache.documents
        for group, plural in (("", "pods"), ("resource.k8s.io", "resourceclaims"))
    }

    def running() -> bool:
        found = objects["pods"].values()
        return len(found) == TOGETHER and all(d.hub["status"]["phase"] == "Running" for d in found)

    for begin in range(0, pods, TOGETHER):
        names = [f"p-{begin + number}" for number in range(TOGETHER)]
        for name in names:
            await client.create(PODS, "default", pod(name, templates={"device": "one"}))
        await wait_for("the pods to run", running)
        for name in names:
            await client.delete(PODS, "default", name, grace_seconds=30)
        await wait_for("the pods and their claims to go", lambda: not any(objects.values()))


async def test_a_pod_that_has_gone_leaves_nothing_for_the_garbage_collector(tmp_path: Path) -> None:
    """The collector comes to what was there for a while hardly ever: until then it would stay in memory."""
    listen = Address("127.0.0.1", 0, 1)
    options = UpOptions(
        server=ServerOptions(listen=listen, data=tmp_path, store="memory"),
        nodes=3, devices=8, drivers=("gpu",), runtime="simulated",
    )  # fmt: skip
    started: asyncio.Future[RunningCluster] = asyncio.get_running_loop().create_future()
    end = asyncio.Event()
    hooks = Hooks(ready=started.set_result, settled=lambda: None)
    up = asyncio.create_task(run_up(options, hooks=hooks, end=end))
    try:
        cluster = await asyncio.wait_for(started, 60)
        client = Client(cluster.transport("admin", "system:masters"))
        await client.create(
            RESOURCE_CLAIM_TEMPLATES, "default", claim_template("one", device_class="gpu.example.com")
        )
        await live_and_go(cluster, client, pods=2 * TOGETHER)
        gc.collect()
        gc.disable()
        await live_and_go(cluster, client, pods=4 * TOGETHER)
        assert gc.collect() < 4 * TOGETHER  # hardly anything: not even one object for each pod
    finally:
        gc.enable()
        end.set()
        await up

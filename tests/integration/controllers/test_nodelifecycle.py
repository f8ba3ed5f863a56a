"""Nodes that the controller does not hear from."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from dray.api.pods import condition as pod_condition
from dray.api.times import format_micro_time
from dray.client.resources import (
    EVENTS,
    LEASES,
    NODES,
    PODS,
)
from tests.support.controlplane import NOW, ControlPlane, control_plane
from tests.support.wait import wait_for

Object = dict[str, Any]


def node(ready: str = "True", *, name: str = "n", taints: list[Object] | None = None, **spec: Any) -> Object:
    conditions = [{"type": "Ready", "status": ready, "lastTransitionTime": "x"}] if ready else []
    metadata = {"name": name, "creationTimestamp": "made"}
    return {
        "metadata": metadata,
        "spec": {"taints": taints or [], **spec},
        "status": {"conditions": conditions},
    }


async def test_what_is_said_of_a_node_names_it_without_a_version_and_its_pods_keep_what_they_know():
    settings = {"node-lifecycle-controller": {"grace_seconds": 0.05}}
    async with control_plane("node-lifecycle-controller", emulate="1.36", settings=settings) as s:
        await s.pod("p", nodeName="n")
        ready = {"type": "Ready", "status": "True", "observedGeneration": 1, "reason": "r", "message": "m"}
        await s.client.patch_status(PODS, "default", "p", {"status": {"conditions": [ready]}})
        status = {"conditions": [{"type": "Ready", "status": "True"}]}
        made = await s.client.create(NODES, "", {"metadata": {"name": "n"}, "status": status})
        lease = {"metadata": {"name": "n"}, "spec": {"renewTime": "2026-01-01T00:00:00.000000Z"}}
        await s.client.create(LEASES, "kube-node-lease", lease)

        async def unready() -> Object | None:
            condition = pod_condition(await s.get(PODS, "p"), "Ready")
            return condition if condition["status"] == "False" else None

        condition = await wait_for("pod p to be marked as not ready", unready)
        assert {**condition, "status": "True"}.items() >= ready.items()

        async def events() -> dict[str, Object]:
            found = (await s.client.list(EVENTS, "default")).items
            about = {
                e["message"]: e["involvedObject"] for e in found if e["involvedObject"]["kind"] == "Node"
            }
            return about if len(about) == 2 else {}

        node = {"apiVersion": "v1", "kind": "Node", "name": "n", "uid": made["metadata"]["uid"]}
        assert await wait_for("events about both nodes", events) == {
            "Node n event: Registered Node n in Controller": node,
            "Node n status is now: NodeNotReady": node,
        }


async def taints(a: ControlPlane, name: str) -> set[tuple[str, str]]:
    found = (await a.get(NODES, name))["spec"].get("taints") or ()
    return {(t["key"].removeprefix("node.kubernetes.io/"), t["effect"]) for t in found}


async def new_node(a: ControlPlane, name: str, *, ready: str = "True") -> None:
    condition = {"type": "Ready", "status": ready, "lastHeartbeatTime": NOW, "lastTransitionTime": NOW}
    await a.client.create(NODES, "", {"metadata": {"name": name}, "status": {"conditions": [condition]}})


def test_a_silent_node_loses_its_pods_and_one_without_a_lease_is_left_alone(tmp_path: Path):
    settings = {"node-lifecycle-controller": {"grace_seconds": 0.2}}

    async def play() -> None:
        names = ("node-lifecycle-controller", "taint-eviction-controller")
        async with control_plane(*names, data=tmp_path, settings=settings) as a:
            await new_node(a, "unwatched")
            await new_node(a, "silent")
            renewed = format_micro_time(datetime.now(UTC))
            lease = {"metadata": {"name": "silent"}, "spec": {"renewTime": renewed}}
            await a.client.create(LEASES, "kube-node-lease", lease)
            for name, seconds in (("leaves", 0), ("stays", 3600)):
                toleration = {
                    "key": "node.kubernetes.io/unreachable", "operator": "Exists", "effect": "NoExecute",
                    "tolerationSeconds": seconds,
                }  # fmt: skip
                container = {"name": "c", "image": "i"}
                spec = {"nodeName": "silent", "containers": [container], "tolerations": [toleration]}
                await a.create(PODS, name, spec)
                await a.run(await a.get(PODS, name))

            async def tainted() -> bool:
                return await taints(a, "silent") == {
                    ("unreachable", "NoSchedule"),
                    ("unreachable", "NoExecute"),
                }

            async def leaving() -> bool:
                return "deletionTimestamp" in (await a.get(PODS, "leaves"))["metadata"]

            await wait_for("node silent to be tainted", tainted)
            await wait_for("pod leaves to be evicted", leaving)
            conditions = {c["type"]: c for c in (await a.get(NODES, "silent"))["status"]["conditions"]}
            assert conditions["Ready"]["status"] == "Unknown"
            assert conditions["Ready"]["message"] == "Kubelet stopped posting node status."
            assert conditions["DiskPressure"]["reason"] == "NodeStatusNeverUpdated"
            reasons = {
                c["type"]: c.get("reason") for c in (await a.get(PODS, "leaves"))["status"]["conditions"]
            }
            assert reasons["DisruptionTarget"] == "DeletionByTaintManager"
            stays = await a.get(PODS, "stays")
            assert "deletionTimestamp" not in stays["metadata"]
            assert {c["type"]: c["status"] for c in stays["status"]["conditions"]}["Ready"] == "False"
            assert (await a.get(NODES, "unwatched"))["status"]["conditions"][0]["status"] == "True"
            assert await taints(a, "unwatched") == set()

            ready = {"type": "Ready", "status": "True", "lastHeartbeatTime": renewed[:19] + "Z"}
            patch = {"status": {"conditions": [{**ready, "lastTransitionTime": NOW}]}}
            await a.client.patch_status(NODES, "", "silent", patch)

            async def untainted() -> bool:
                return not await taints(a, "silent")

            await wait_for("node silent to lose its taints", untainted)

    asyncio.run(play())

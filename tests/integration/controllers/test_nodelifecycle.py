"""Nodes that the controller does not hear from."""

from __future__ import annotations

from typing import Any

from dray.api.pods import condition as pod_condition
from dray.client.resources import EVENTS, LEASES, NODES, PODS
from tests.support.controlplane import control_plane
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

"""Pods that do not tolerate the taints of their node."""

from __future__ import annotations

from typing import Any

import pytest

from dray.api.pods import condition as pod_condition
from dray.client.resources import EVENTS, NODES, PODS
from dray.controllers import nodelifecycle
from tests.support.controlplane import ControlPlane, control_plane
from tests.support.wait import wait_for

Object = dict[str, Any]
UNREACHABLE = {"key": nodelifecycle.UNREACHABLE, "effect": "NoExecute", "timeAdded": "1970-01-01T00:01:40Z"}


def node(ready: str = "True", *, name: str = "n", taints: list[Object] | None = None, **spec: Any) -> Object:
    conditions = [{"type": "Ready", "status": ready, "lastTransitionTime": "x"}] if ready else []
    metadata = {"name": name, "creationTimestamp": "made"}
    return {
        "metadata": metadata,
        "spec": {"taints": taints or [], **spec},
        "status": {"conditions": conditions},
    }


def toleration(seconds: int | None = None, key: str = nodelifecycle.UNREACHABLE) -> Object:
    found: Object = {"key": key, "operator": "Exists", "effect": "NoExecute"}
    return found if seconds is None else {**found, "tolerationSeconds": seconds}


FIRE = {"key": "fire", "effect": "NoExecute"}


async def told(s: ControlPlane) -> list[str]:
    found = (await s.client.list(EVENTS, "default")).items
    return [e["message"] for e in found if e["reason"] == "TaintManagerEviction"]


async def test_a_pod_that_does_not_bear_a_taint_is_marked_and_deleted_though_it_was_going_anyway():
    async with control_plane("taint-eviction-controller", emulate="1.36") as s:
        await s.node("n")
        for name in ("p", "going"):
            await s.pod(name, nodeName="n", metadata={"finalizers": ["example.com/hold"]})
        await s.client.delete(PODS, "default", "going")
        await s.client.patch(NODES, "", "n", {"spec": {"taints": [FIRE]}})

        async def marked(name: str) -> Object | None:
            pod = await s.get(PODS, name)
            return (
                pod
                if "deletionTimestamp" in pod["metadata"] and pod_condition(pod, "DisruptionTarget")
                else None
            )

        for name, generation in (("p", 1), ("going", 2)):
            pod = await wait_for(f"node {name} to be tainted", lambda name=name: marked(name))
            condition = pod_condition(pod, "DisruptionTarget")
            assert condition["message"] == "Taint manager: deleting due to NoExecute taint"
            assert condition["observedGeneration"] == generation


async def test_events_about_evictions_name_the_pod_alone():
    async with control_plane("taint-eviction-controller") as s:
        await s.node("n", taints=[FIRE])
        await s.pod("p", nodeName="n")

        async def events() -> list[Object]:
            return [e for e in (await s.client.list(EVENTS, "default")).items if e["type"] == "Normal"]

        [event] = await wait_for("Normal events", events)
        assert event["message"] == "Marking for deletion Pod default/p"
        assert event["involvedObject"] == {
            "apiVersion": "v1", "kind": "Pod", "namespace": "default", "name": "p"
        }  # fmt: skip


@pytest.mark.parametrize("end", ["the taint goes", "the pod goes", "the pod has to go at once"])
async def test_an_eviction_that_was_to_come_is_called_off_aloud(end):
    async with control_plane("taint-eviction-controller") as s:
        await s.node("n", taints=[{"key": "drought", "effect": "NoExecute"}])
        await s.pod("p", nodeName="n", tolerations=[toleration(3600, "drought")])
        await s.wait_quiet()
        if end == "the pod goes":
            await s.client.delete(PODS, "default", "p")
        else:
            taints = [FIRE] if end == "the pod has to go at once" else None
            await s.client.patch(NODES, "", "n", {"spec": {"taints": taints}})
        count = 2 if end == "the pod has to go at once" else 1
        await wait_for(f"{count} lease renewals", lambda: enough(s, count))
        assert sorted(await told(s))[0] == "Cancelling deletion of Pod default/p"


async def enough(s: ControlPlane, count: int) -> bool:
    return len(await told(s)) == count

"""Pods that nobody would end otherwise."""

from __future__ import annotations

from typing import Any

from dray.api.errors import ServiceUnavailable
from dray.api.scheme.kinds import Object
from dray.client.client import Client
from dray.client.resources import NODES, PODS
from tests.support.controlplane import control_plane, server
from tests.support.controlplane import controllers as running
from tests.support.wait import wait_for

PODGC = "pod-garbage-collector-controller"
AT_ONCE = {"settings": {PODGC: {"check_seconds": 0, "quarantine_seconds": 0}}}


def pod(name: str = "p", phase: str = "Running", *, node: str = "n", **metadata: Any) -> Object:
    spec = {"nodeName": node} if node else {}
    return {"metadata": {"name": name, "uid": name, **metadata}, "spec": spec, "status": {"phase": phase}}


async def test_pods_of_a_node_that_is_gone_fail_and_go():
    async with control_plane(PODGC, **AT_ONCE) as s:
        await s.node("n")
        await s.node("m")
        await s.pod("p", nodeName="n", metadata={"finalizers": ["example.com/hold"]})
        await s.pod("q", nodeName="m")
        await s.client.delete(NODES, "", "n")

        async def ended() -> bool:
            found = await s.get(PODS, "p")
            return found["status"]["phase"] == "Failed" and "deletionTimestamp" in found["metadata"]

        await wait_for("pod p to fail and be deleted", ended)
        (told,) = [
            c for c in (await s.get(PODS, "p"))["status"]["conditions"] if c["type"] == "DisruptionTarget"
        ]
        assert (told["reason"], told["message"]) == ("DeletionByPodGC", "PodGC: node no longer exists")
        await s.client.patch(PODS, "default", "p", {"metadata": {"finalizers": None}})
        await s.wait_gone(PODS, "p")
        assert "deletionTimestamp" not in (await s.get(PODS, "q"))["metadata"]


async def test_a_node_lost_while_nobody_looked_counts():
    async with server() as s:
        await s.pod("p", nodeName="never-there")
        async with running(s, PODGC, **AT_ONCE):
            await s.wait_gone(PODS, "p")


async def test_a_pod_that_could_not_be_ended_is_tried_again(monkeypatch):
    tries = []
    patch_status = Client.patch_status

    async def failing_once(self: Client, *args: Any, **options: Any) -> Object:
        tries.append(args)
        if len(tries) == 1:
            raise ServiceUnavailable("not now")
        return await patch_status(self, *args, **options)

    monkeypatch.setattr(Client, "patch_status", failing_once)
    async with server() as s:
        await s.pod("p", nodeName="never-there")
        async with running(s, PODGC, **AT_ONCE):
            await s.wait_gone(PODS, "p")
    assert len(tries) == 2


async def test_a_pod_deleted_before_it_got_a_node_is_failed():
    async with control_plane(PODGC, **AT_ONCE) as s:
        await s.pod("p", metadata={"finalizers": ["example.com/hold"]})
        await s.client.delete(PODS, "default", "p")

        async def failed() -> bool:
            return (await s.get(PODS, "p"))["status"]["phase"] == "Failed"

        await wait_for("pod p to fail", failed)


async def test_pods_on_a_node_out_of_service_are_let_go():
    async with control_plane(PODGC, **AT_ONCE) as s:
        await s.node("n")
        await s.pod("p", nodeName="n", terminationGracePeriodSeconds=3600)
        await s.client.delete(PODS, "default", "p")
        taints = [{"key": "node.kubernetes.io/out-of-service", "effect": "NoExecute"}]
        await s.client.patch(NODES, "", "n", {"spec": {"taints": taints}})
        await s.wait_gone(PODS, "p")


async def test_finished_pods_beyond_the_threshold_go():
    options = {"settings": {PODGC: {"check_seconds": 0, "terminated_pods": 2}}}
    async with control_plane(PODGC, **options) as s:
        await s.node("n")
        for i in range(5):
            await s.pod(f"p-{i}", nodeName="n")
            await s.client.patch_status(PODS, "default", f"p-{i}", {"status": {"phase": "Succeeded"}})

        async def two_left() -> bool:
            return len((await s.client.list(PODS, "default")).items) == 2

        await wait_for("two pods to be left", two_left)

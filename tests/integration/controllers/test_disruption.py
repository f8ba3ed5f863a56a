"""Disruption budgets: what they say when they cannot count."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from dray.client.resources import (
    POD_DISRUPTION_BUDGETS,
    REPLICASETS,
    Resource,
)
from tests.support.controlplane import NAMESPACE, control_plane, pod_template
from tests.support.wait import wait_for

EVENTS = Resource("", "v1", "events", "Event")
LABELS = {"app": "x"}


async def heard(at):
    listed = (await at.client.list(EVENTS, "default")).items
    return [
        (e["reason"], e["message"]) for e in listed if e["involvedObject"]["kind"] == "PodDisruptionBudget"
    ]


@pytest.mark.parametrize(
    ("kind", "api_version", "resource"),
    [("DaemonSet", "apps/v1", "daemonsets.apps"), ("Job", "batch/v1", "jobs.batch")],
)
async def test_workloads_without_a_size_are_named(kind, api_version, resource):
    async with control_plane("disruption-controller") as at:
        owner = {"apiVersion": api_version, "kind": kind, "name": "o", "uid": "u", "controller": True}
        await at.pod("p", metadata={"labels": LABELS, "ownerReferences": [owner]})
        spec = {"selector": {"matchLabels": LABELS}, "maxUnavailable": 1}
        await at.client.create(POD_DISRUPTION_BUDGETS, "default", {"metadata": {"name": "b"}, "spec": spec})
        ((reason, message),) = await wait_for("the controller's event", lambda: heard(at))
        assert reason == "CalculateExpectedPodCountFailed"
        assert message.endswith(f": {resource} does not implement the scale subresource")


async def test_pods_that_nobody_manages_are_pointed_out():
    async with control_plane("disruption-controller") as at:
        await at.pod("p", metadata={"labels": LABELS})
        expressions = [{"key": "app", "operator": "In", "values": ["x", "y"]}]
        spec = {"selector": {"matchLabels": LABELS, "matchExpressions": expressions}, "maxUnavailable": 1}
        await at.client.create(POD_DISRUPTION_BUDGETS, "default", {"metadata": {"name": "b"}, "spec": spec})
        ((reason, message),) = await wait_for("the controller's event", lambda: heard(at))
        assert reason == "UnmanagedPods"
        selector = (
            "&LabelSelector{MatchLabels:map[string]string{app: x,},MatchExpressions:[]LabelSelectorRequirement"
            "{LabelSelectorRequirement{Key:app,Operator:In,Values:[x y],},},}"
        )
        assert f"(selector: {selector})" in message


def test_a_budget_says_how_many_pods_may_be_evicted(tmp_path: Path):
    names = ("disruption-controller", "replicaset-controller")

    async def play() -> None:
        async with control_plane(*names, data=tmp_path) as a:
            labels = {"matchLabels": {"app": "x"}}
            await a.create(
                REPLICASETS, "rs", {"replicas": 3, "selector": labels, "template": pod_template(app="x")}
            )
            await a.create(POD_DISRUPTION_BUDGETS, "b", {"maxUnavailable": "34%", "selector": labels})

            async def allowed(count: int, *, healthy: int) -> bool:
                status = (await a.get(POD_DISRUPTION_BUDGETS, "b"))["status"]
                found = [
                    status[n]
                    for n in ("disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods")
                ]
                return found == [count, healthy, 1, 3]

            async with a.hollow_kubelet():
                await wait_for("two allowed disruptions", lambda: allowed(2, healthy=3))
            pod = (await a.pods(app="x"))[0]
            await a.client.evict(NAMESPACE, pod["metadata"]["name"])
            await wait_for("one allowed disruption", lambda: allowed(1, healthy=2))

    asyncio.run(play())

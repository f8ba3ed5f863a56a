"""Disruption budgets: what they say when they cannot count."""

from __future__ import annotations

import pytest

from dray.client.resources import POD_DISRUPTION_BUDGETS, Resource
from tests.support.controlplane import control_plane
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

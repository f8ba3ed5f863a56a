"""Ranking pods for deletion."""

from __future__ import annotations

from dray.controllers.workloads import owned_pods
from tests.unit.controllers.workloads.objects import names, pod


def test_the_cheapest_pods_go_first():
    pods = [
        pod("ready-alone", node="n1"),
        pod("ready-crowded", node="n2"),
        pod("also-crowded", node="n2"),
        pod("unready", node="n1", ready=False),
        pod("unscheduled", ready=False, phase="Pending"),
    ]
    costly = pod("costly", node="n2")
    costly["metadata"]["annotations"] = {"controller.kubernetes.io/pod-deletion-cost": "10"}
    order = names(owned_pods.ranked_for_deletion([costly, *pods], {"n1": 1, "n2": 3}))
    assert order == ["unscheduled", "unready", "also-crowded", "ready-crowded", "ready-alone", "costly"]

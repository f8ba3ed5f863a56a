"""The rules of aggregated ClusterRoles."""

from __future__ import annotations

from typing import Any

from dray.controllers import clusterroleaggregation

Object = dict[str, Any]


def test_aggregated_rules_come_in_order_once_and_never_from_the_role_itself():
    def role(name: str, *resources: str, **labels: str) -> Object:
        return {
            "metadata": {"name": name, "labels": labels},
            "rules": [{"resources": [r]} for r in resources],
        }

    selectors = [{"matchLabels": {"late": "y"}}, {"matchLabels": {"part": "y"}}]
    whole = {**role("whole", "old", part="y"), "aggregationRule": {"clusterRoleSelectors": selectors}}
    others = [
        role("b", "pods", "nodes", part="y"),
        role("a", "nodes", part="y"),
        role("z", "jobs", late="y"),
        whole,
    ]
    assert [r["resources"][0] for r in clusterroleaggregation.aggregated_rules(whole, others)] == [
        "jobs",
        "nodes",
        "pods",
    ]

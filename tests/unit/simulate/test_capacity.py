"""Questions about capacity: how many more fit, what runs out first, and what a change does to that."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import yaml

from dray.simulate.capacity import capacity, with_classes, with_nodes, without_node
from dray.simulate.model import Cluster, SimulationError
from dray.simulate.sources.node_groups import NodeGroups

GROUPS = NodeGroups.parse(
    yaml.safe_load("""
classes:
- metadata: {name: gpu}
  spec: {selectors: [{cel: {expression: 'device.driver == "gpu.example.com"'}}]}
groups:
- name: big
  count: 2
  allocatable: {cpu: "64", memory: 64Gi}
  slices: [{driver: gpu.example.com, count: 4}]
- name: starved
  count: 0
  allocatable: {cpu: "3", memory: 64Gi}
  slices: [{driver: gpu.example.com, count: 8}]
""")
)
TEMPLATE = {
    "kind": "ResourceClaimTemplate",
    "metadata": {"name": "gpu"},
    "spec": {
        "spec": {
            "devices": {
                "requests": [
                    {
                        "name": "gpu",
                        "exactly": {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 1},
                    }
                ]
            }
        }
    },
}


def pod(name: str = "train", **annotations: str) -> dict[str, Any]:
    resources = {"requests": {"cpu": "2"}, "claims": [{"name": "gpu"}]}
    return {
        "kind": "Pod",
        "metadata": {
            "name": name,
            "annotations": {f"simulate.dray.dev/{k}": v for k, v in annotations.items()},
        },
        "spec": {
            "resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "gpu"}],
            "containers": [{"name": "main", "image": "i", "resources": resources}],
        },
    }


@pytest.fixture
def cluster() -> Cluster:
    return GROUPS.cluster()


def test_devices_run_out_first(cluster: Cluster) -> None:
    found = capacity(cluster, [TEMPLATE, pod()])
    assert (found.fit, found.limited, found.devices) == (8, False, 8)
    assert found.runs_out == {"devices (gpu)": 2}
    assert found.full_percent == 100


def test_a_job_counts_only_as_a_whole(cluster: Cluster) -> None:
    found = capacity(cluster, [TEMPLATE, pod("leader"), pod("worker", copies="2", arrival="7")])
    assert found.fit == 2  # of 8 devices, six are in whole jobs
    assert found.full_percent == 75


def test_more_than_the_first_guess_fit_and_counting_stops_where_it_should(cluster: Cluster) -> None:
    grown = with_nodes(cluster, GROUPS.groups[0], 8)
    assert capacity(grown, [TEMPLATE, pod()]).fit == 40
    limited = capacity(grown, [TEMPLATE, pod()], at_most=20)
    assert (limited.fit, limited.limited, limited.runs_out) == (20, True, {})


def test_added_nodes_may_lack_something_else(cluster: Cluster) -> None:
    grown = with_nodes(cluster, GROUPS.groups[1], 2)
    found = capacity(grown, [TEMPLATE, pod()])
    assert (found.fit, found.nodes) == (10, 4)
    assert found.runs_out == {"cpu": 2, "devices (gpu)": 2}


def test_pods_of_a_removed_node_need_a_place_first(cluster: Cluster) -> None:
    claim = {
        "metadata": {"name": "old-gpu", "namespace": "default", "uid": "c"},
        "spec": TEMPLATE["spec"]["spec"],  # type: ignore[index]
        "status": {
            "allocation": {
                "devices": {
                    "results": [
                        {"request": "gpu", "driver": "gpu.example.com", "pool": "big-0", "device": "device-0"}
                    ]
                }
            },
            "reservedFor": [{"resource": "pods", "name": "old", "uid": "o"}],
        },
    }
    old = pod("old")
    old["metadata"] |= {"namespace": "default", "uid": "o"}
    old["spec"]["nodeName"] = "big-0"
    old["spec"]["resourceClaims"] = [{"name": "gpu", "resourceClaimName": "old-gpu"}]
    full = replace(cluster, pods=[old], claims=[claim])  # type: ignore[list-item]
    assert capacity(full, [TEMPLATE, pod()]).fit == 7
    left, displaced = without_node(full, "big-0")
    found = capacity(left, [TEMPLATE, pod()], displaced=displaced)
    assert (found.fit, found.displaced, found.homeless) == (3, 1, 0)
    with pytest.raises(SimulationError, match="there is no node big-9"):
        without_node(full, "big-9")


def test_another_class_selects_other_devices(cluster: Cluster) -> None:
    nothing: Any = {"metadata": {"name": "gpu"}, "spec": {"selectors": [{"cel": {"expression": "false"}}]}}
    found = capacity(with_classes(cluster, [nothing]), [TEMPLATE, pod()])
    assert found.fit == 0
    assert "cannot allocate all claims" in found.message

"""Groups of pods in virtual time: they start together or not at all."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from dray.simulate import Manifests, NodeGroups, Options, Result, simulate

GROUPS = """
classes: [{metadata: {name: gpu}, spec: {}}]
groups:
- {name: n, count: 2, allocatable: {cpu: "32", memory: 64Gi}, slices: [{driver: gpu.example.com, count: 4, device: {}}]}
"""
TEMPLATE = """
apiVersion: resource.k8s.io/v1
kind: ResourceClaimTemplate
metadata: {name: two}
spec: {spec: {devices: {requests: [{name: gpu, exactly: {deviceClassName: gpu, allocationMode: ExactCount, count: 2}}]}}}
"""


def group(name: str, members: int, *, priority: int = 0) -> list[Any]:
    spec = {"schedulingPolicy": {"gang": {"minCount": members}}, "priority": priority}
    made: list[Any] = [
        {
            "apiVersion": "scheduling.k8s.io/v1beta1",
            "kind": "PodGroup",
            "metadata": {"name": name},
            "spec": spec,
        }
    ]
    return made + [
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "name": f"{name}-{number}",
                "annotations": {
                    "simulate.dray.dev/arrival": str(number),
                    "simulate.dray.dev/duration": "100",
                },
            },
            "spec": {
                "priority": priority,
                "schedulingGroup": {"podGroupName": name},
                "containers": [{"name": "c", "resources": {"claims": [{"name": "gpu"}]}}],
                "resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "two"}],
            },
        }
        for number in range(members)
    ]


def run(*documents: Any) -> Result:
    cluster = NodeGroups.parse(yaml.safe_load(GROUPS)).cluster()
    workload = Manifests([yaml.safe_load(TEMPLATE), *documents])
    return simulate(cluster, workload.events(), Options(device_preemption=True))


def test_members_of_a_gang_start_together_when_the_last_of_them_is_there() -> None:
    result = run(*group("fits", 4))
    assert {one.scheduled for one in result.pods} == {3.0}
    assert sorted(one.node for one in result.pods) == ["n-0", "n-0", "n-1", "n-1"]
    assert {one.units for one in result.pods} == {2000}
    assert result.samples[-1].allocated == 0
    assert max(sample.allocated for sample in result.samples) == 8000


def test_a_gang_that_does_not_fit_takes_nothing_and_one_that_fits_runs() -> None:
    result = run(*group("large", 5), *group("small", 3))
    scheduled = {one.pod: one.scheduled for one in result.pods}
    assert all(scheduled[f"default/large-{number}"] is None for number in range(5))
    assert all(scheduled[f"default/small-{number}"] is not None for number in range(3))
    assert max(sample.allocated for sample in result.samples) == 6000


@pytest.mark.parametrize("priority", [0, 10])
def test_a_gang_waits_until_another_has_ended_or_takes_its_place(priority: int) -> None:
    late = group("late", 4, priority=priority)
    for pod in late[1:]:
        pod["metadata"]["annotations"]["simulate.dray.dev/arrival"] = "50"
    result = run(*group("early", 4), *late)
    scheduled = {one.scheduled for one in result.pods if one.pod.startswith("default/late")}
    assert len(scheduled) == 1
    [when] = scheduled
    assert when is not None
    assert when >= 103.0 if not priority else when < 103.0
    assert bool(sum(one.evictions for one in result.pods)) == bool(priority)

"""Gangs: why a member waits, and where the members would go."""

from __future__ import annotations

from typing import Any

import pytest

from dray.api.identity import ObjectKey
from dray.explain import Cluster, Snapshot
from dray.explain.explainer import explain_pod
from dray.explain.gangs import place_gang
from dray.explain.model.workloads import expand_workload
from dray.explain.render.text import render_text

DRIVER = "gpu.example.com"
TEMPLATE = {
    "kind": "ResourceClaimTemplate", "metadata": {"name": "one", "namespace": "default"},
    "spec": {"spec": {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 1}}]}}},
}  # fmt: skip


def cluster(devices: int, *more: Any) -> Cluster:
    resources = {"cpu": "8", "memory": "8Gi", "pods": "20"}
    spec = {
        "driver": DRIVER, "nodeName": "n1", "pool": {"name": "n1", "generation": 1, "resourceSliceCount": 1},
        "devices": [{"name": f"g{i}"} for i in range(devices)],
    }  # fmt: skip
    objects: list[Any] = [
        {"kind": "Node", "metadata": {"name": "n1"}, "status": {"allocatable": resources}},
        {"kind": "DeviceClass", "metadata": {"name": "gpu"}, "spec": {}},
        {"kind": "ResourceSlice", "metadata": {"name": "s"}, "spec": spec},
        TEMPLATE,
        *more,
    ]
    return Cluster(Snapshot().with_objects(objects), filters_nodes=True)


def group(least: int) -> dict[str, Any]:
    metadata = {"name": "g", "namespace": "default", "uid": "g"}
    return {
        "kind": "PodGroup",
        "metadata": metadata,
        "spec": {"schedulingPolicy": {"gang": {"minCount": least}}},
    }


def member(number: int) -> list[dict[str, Any]]:
    """A pod of the group, and its claim."""
    name, claim = f"p{number}", f"p{number}-gpu"
    owner = {"kind": "Pod", "apiVersion": "v1", "name": name, "uid": name, "controller": True}
    pod = {
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": "default",
            "uid": name,
            "creationTimestamp": "2026-01-01T00:00:00Z",
        },
        "spec": {
            "containers": [{"name": "c", "image": "i"}],
            "schedulingGroup": {"podGroupName": "g"},
            "resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "one"}],
        },
        "status": {"resourceClaimStatuses": [{"name": "gpu", "resourceClaimName": claim}]},
    }
    metadata = {
        "name": claim,
        "namespace": "default",
        "uid": claim,
        "resourceVersion": "1",
        "ownerReferences": [owner],
    }
    return [pod, {"kind": "ResourceClaim", "metadata": metadata, "spec": TEMPLATE["spec"]["spec"]}]  # type: ignore[index]


def said(found: Cluster) -> str:
    return render_text(explain_pod(found, next(key for key in found.pods if key.name == "p0")))


def test_a_pod_that_waits_for_a_gang_is_told_so() -> None:
    said = "waiting in line: pod group g is first, and could use what is free"
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": said}
    pod = {
        "kind": "Pod",
        "metadata": {
            "name": "late",
            "namespace": "default",
            "uid": "l",
            "creationTimestamp": "2026-01-01T00:00:00Z",
        },
        "spec": {"containers": [{"name": "c", "image": "i"}]},
        "status": {"phase": "Pending", "conditions": [condition]},
    }
    text = render_text(explain_pod(cluster(1, pod), ObjectKey("default", "late")))
    assert "pending: it would fit on 1 of 1 nodes, but a gang before it waits for the same" in text
    assert said in text and "any moment" not in text


@pytest.mark.parametrize(
    ("devices", "least", "words"),
    [
        (1, 2, "its gang g needs 2 members at once, and 1 would fit"),
        (2, 3, "its gang g needs 3 pods at once, and 2 are there"),
    ],
)
def test_a_pending_gang_says_what_it_lacks(devices, least, words):
    text = said(cluster(devices, group(least), *member(0), *member(1)))
    assert "is pending" in text and words in text


def test_the_member_that_fails_is_named():
    text = said(cluster(1, group(2), *member(0), *member(1)))
    assert "member p1 does not fit: 0/1 nodes are available: 1 cannot allocate all claims." in text
    assert "1 more must fit; nothing is held for the 1 that do" in text


def test_a_pod_without_its_group_waits_for_it():
    assert "it waits for its pod group g, which does not exist" in said(cluster(2, *member(0)))


def test_a_gang_that_fits_is_told_so():
    assert "its gang g fits as a whole" in said(cluster(2, group(2), *member(0), *member(1)))


@pytest.mark.parametrize(("devices", "nodes"), [(2, ["n1", "n1"]), (1, ["", ""])])
def test_the_gang_of_a_job_is_placed_as_a_whole_or_not_at_all(devices, nodes):
    spec = {
        "containers": [{"name": "c", "image": "i"}],
        "resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "one"}],
    }
    job: Any = {
        "kind": "Job", "metadata": {"name": "j"},
        "spec": {"parallelism": 2, "template": {"spec": spec}, "scheduling": {"schedulingPolicy": {"gang": {}}}},
    }  # fmt: skip
    _, made, *pods = expand_workload(job, "default")
    placed = place_gang(cluster(devices, made), made, pods)
    assert [placed[pod["metadata"]["name"]].node for pod in pods] == nodes

"""Gangs with real kubectl: nothing of a Job starts before all of it can, and the reasons are told."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.kubectl import Kubectl
from tests.support.process import dray_process
from tests.support.wait import wait_for_sync

pytestmark = pytest.mark.xdist_group("scenes")

DRAY = Path(sys.executable).parent / "dray"
RUN = ["sh", "-c", "export; trap 'exit 0' TERM; sleep 9999 & wait"]
TEMPLATE = {
    "apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaimTemplate", "metadata": {"name": "one"},
    "spec": {"spec": {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "gpu.example.com"}}]}}},
}  # fmt: skip


@pytest.fixture(scope="module")
def cluster(tool: Callable[[str], str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kubectl]:
    """Two nodes with four devices each."""
    base = tmp_path_factory.mktemp("gangs")
    with dray_process(base / "c", "up", "--nodes", "2", "--devices", "4") as process:
        kubectl = Kubectl(tool("kubectl-1.36"), process, base / "cache")
        kubectl("apply", "-f", "-", stdin=json.dumps(TEMPLATE))
        yield kubectl


def pod_spec(**more: Any) -> dict[str, Any]:
    container = {
        "name": "main",
        "image": "busybox",
        "command": RUN,
        "resources": {"claims": [{"name": "gpu"}]},
    }
    claims = [{"name": "gpu", "resourceClaimTemplateName": "one"}]
    return {"containers": [container], "resourceClaims": claims, "restartPolicy": "Never", **more}


def pods(kubectl: Kubectl, label: str) -> list[Any]:
    found: list[Any] = json.loads(kubectl("get", "pods", "-l", label, "-o", "json"))["items"]
    return found


def test_a_job_of_eight_waits_for_the_eighth_device_and_then_starts_as_a_whole(cluster: Kubectl) -> None:
    other = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "other"}, "spec": pod_spec()}
    cluster("apply", "-f", "-", stdin=json.dumps(other))
    cluster("wait", "pod/other", "--for=jsonpath={.status.phase}=Running", "--timeout=50s")
    job = {
        "apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "train"},
        "spec": {
            "parallelism": 8, "completions": 8, "template": {"metadata": {"labels": {"app": "train"}}, "spec": pod_spec()},
            "scheduling": {"schedulingPolicy": {"gang": {}}},
        },
    }  # fmt: skip
    cluster("apply", "-f", "-", stdin=json.dumps(job))
    wait_for_sync(
        "the group to be refused",
        lambda: "Unschedulable" in cluster("get", "podgroups") and len(pods(cluster, "app=train")) == 8,
    )
    assert not any(pod["spec"].get("nodeName") for pod in pods(cluster, "app=train"))
    claims = json.loads(cluster("get", "resourceclaims", "-o", "json"))["items"]
    assert sum("allocation" in (claim.get("status") or {}) for claim in claims) == 1
    described = cluster("describe", "podgroup")
    assert "minCount (8) cannot be satisfied: 7 scheduled, 0 remaining" in described
    member = pods(cluster, "app=train")[0]["metadata"]["name"]
    config = ("--kubeconfig", str(cluster.server.kubeconfig))
    explained = subprocess.run(
        [DRAY, "explain", "pod", member, *config], capture_output=True, text=True, check=False
    ).stdout
    assert "its gang" in explained and "needs 8 members at once, and 7 would fit" in explained
    assert "does not fit: 0/2 nodes are available: 2 cannot allocate all claims." in explained
    cluster("delete", "pod", "other", "--grace-period=1")
    began = time.monotonic()
    wait_for_sync(
        "all members to have a node",
        lambda: all(p["spec"].get("nodeName") for p in pods(cluster, "app=train")),
    )
    assert time.monotonic() - began < 10
    assert "Scheduled" in cluster("get", "podgroups")
    cluster("delete", "job", "train", "--cascade=background")
    wait_for_sync(
        "everything of the job to go",
        lambda: (
            not pods(cluster, "app=train") and "No resources" in cluster.kubectl("get", "podgroups,workloads")
        ),
    )


def test_a_claim_of_a_group_is_prepared_on_every_node_and_released_with_the_group(cluster: Kubectl) -> None:
    claims = [{"name": "gpu", "resourceClaimTemplateName": "one"}]
    group = {
        "apiVersion": "scheduling.k8s.io/v1beta1", "kind": "PodGroup", "metadata": {"name": "team"},
        "spec": {"schedulingPolicy": {"gang": {"minCount": 2}}, "resourceClaims": claims},
    }  # fmt: skip
    cluster("apply", "-f", "-", stdin=json.dumps(group))
    for name in ("a", "b"):
        spec = pod_spec(schedulingGroup={"podGroupName": "team"}, terminationGracePeriodSeconds=1)
        body = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "labels": {"app": "team"}},
            "spec": spec,
        }
        cluster("apply", "-f", "-", stdin=json.dumps(body))
    cluster("wait", "pod", "-l", "app=team", "--for=jsonpath={.status.phase}=Running", "--timeout=50s")
    found = json.loads(cluster("get", "resourceclaims", "-o", "json"))["items"]
    assert [[r["resource"], r["name"]] for c in found for r in c["status"]["reservedFor"]] == [
        ["podgroups", "team"]
    ]
    said = {
        line
        for name in ("a", "b")
        for line in wait_for_sync(f"the log of {name}", lambda name=name: cluster("logs", name)).splitlines()
        if " GPU_DEVICE_" in line
    }
    assert len({line.partition("=")[2] for line in said}) <= len(said) and said
    cluster("delete", "pod", "a", "b")
    assert len(json.loads(cluster("get", "resourceclaims", "-o", "json"))["items"]) == 1
    cluster("delete", "podgroup", "team")
    wait_for_sync("the claim to go", lambda: "No resources" in cluster.kubectl("get", "resourceclaims"))

"""A pod that names its node passes the scheduler by, and its claims are never allocated; admission can mend that."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.kubectl import Kubectl
from tests.support.paths import EXAMPLES
from tests.support.unset_node_name import unset_node_name_webhook
from tests.support.wait import wait_for_sync

EXAMPLE = EXAMPLES / "unset-node-name"


@contextlib.contextmanager
def policy(cluster: Kubectl) -> Iterator[None]:
    cluster.kubectl("apply", "-f", str(EXAMPLE / "policy.yaml"))
    yield
    cluster.kubectl("delete", "-f", str(EXAMPLE / "policy.yaml"))


def pod(name: str) -> list[dict[str, Any]]:
    """A pod on node-1 with a device, and the template of its claim."""
    request = {"name": "gpu", "exactly": {"deviceClassName": "gpu.example.com"}}
    template = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaimTemplate",
        "metadata": {"name": "one-gpu", "namespace": "default"},
        "spec": {"spec": {"devices": {"requests": [request]}}},
    }
    container = {
        "name": "c",
        "image": "i",
        "command": ["sh", "-c", "exit 0"],
        "resources": {"claims": [{"name": "gpu"}]},
    }
    spec = {
        "nodeName": "node-1",
        "restartPolicy": "Never",
        "resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "one-gpu"}],
        "containers": [container],
    }
    named = {"name": name, "namespace": "default"}
    return [template, {"apiVersion": "v1", "kind": "Pod", "metadata": named, "spec": spec}]


@pytest.mark.parametrize("way", [policy, unset_node_name_webhook], ids=["policy", "webhook"])
def test_the_pod_goes_through_the_scheduler_and_gets_its_device(cluster: Kubectl, way: Any) -> None:
    name = "by-policy" if way is policy else "by-webhook"
    with way(cluster):
        cluster.apply(*pod(name))
    wait_for_sync(
        f"pod {name} to succeed", lambda: cluster.get("pod", name)["status"].get("phase") == "Succeeded"
    )
    found = cluster.get("pod", name)
    assert found["spec"]["nodeSelector"] == {"kubernetes.io/hostname": "node-1"}
    assert found["spec"]["nodeName"] == "node-1"
    events = cluster.get("events", "--field-selector", f"involvedObject.name={name},reason=Scheduled")
    assert len(events["items"]) == 1


def test_without_it_the_claim_stays_pending(cluster: Kubectl) -> None:
    cluster.apply(*pod("as-it-was"))
    wait_for_sync(
        "the claims of pod as-it-was",
        lambda: cluster.get("pod", "as-it-was")["status"].get("resourceClaimStatuses"),
    )
    [claim] = cluster.get("pod", "as-it-was")["status"]["resourceClaimStatuses"]
    assert "allocation" not in cluster.get("resourceclaim", claim["resourceClaimName"]).get("status", {})
    cluster.kubectl("delete", "pod", "as-it-was", "--grace-period=0", "--force")

"""One cluster with claims of every generation: side by side in its tables, and together in one pod."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from tests.support.kubectl import Kubectl
from tests.support.process import dray_process

MIXED = """
apiVersion: resource.k8s.io/v1alpha2
kind: ResourceClass
metadata: {name: cats}
driverName: resource-driver.example.com
---
apiVersion: resource.k8s.io/v1alpha2
kind: ResourceClaimTemplate
metadata: {name: cat}
spec: {spec: {resourceClassName: cats}}
---
apiVersion: resource.k8s.io/v1
kind: ResourceClaimTemplate
metadata: {name: gpu}
spec: {spec: {devices: {requests: [{name: gpu, exactly: {deviceClassName: gpu.example.com}}]}}}
---
apiVersion: v1
kind: Pod
metadata: {name: mixed}
spec:
  containers:
  - {name: c, image: x, command: [sleep, "9999"], resources: {claims: [{name: cat}, {name: gpu}]}}
  resourceClaims:
  - {name: cat, resourceClaimTemplateName: cat}
  - {name: gpu, resourceClaimTemplateName: gpu}
"""


def test_a_pod_with_a_classic_claim_and_one_of_today_runs_with_both(
    tool: Callable[[str], str], tmp_path: Path
) -> None:
    with dray_process(tmp_path / "c", "up", "--nodes", "2", "--devices", "1") as cluster:
        kubectl = Kubectl(tool("kubectl-1.36"), cluster, tmp_path / "cache")
        kubectl("apply", "-f", "-", stdin=MIXED)
        kubectl("wait", "--for=condition=Ready", "pod/mixed", "--timeout=30s")
        seen = kubectl("exec", "mixed", "--", "env")
        assert "CAT_NAME=" in seen and "GPU_DEVICE_0=" in seen

        today = [line.split() for line in kubectl("get", "resourceclaims").splitlines()]
        assert today[0] == ["NAME", "STATE", "AGE"]
        assert [(row[0][:9], row[1]) for row in today[1:]] == [
            ("mixed-cat", "allocated,reserved"),
            ("mixed-gpu", "allocated,reserved"),
        ]
        old = kubectl("get", "resourceclaims.v1alpha2.resource.k8s.io").splitlines()
        assert old[0].split() == ["NAME", "RESOURCECLASSNAME", "ALLOCATIONMODE", "STATE", "AGE"]
        assert [line.split()[1] for line in old[1:]] == ["cats"]
        assert "resource.dray.dev/generation: v1alpha2" in kubectl("describe", "resourceclaim", today[1][0])
        kubectl("delete", "pod", "mixed", "--grace-period=1")
        kubectl(
            "wait",
            "--for=delete",
            f"resourceclaim/{today[1][0]}",
            f"resourceclaim/{today[2][0]}",
            "--timeout=30s",
        )

"""The cats of the documents, from the first manifests to today's, each on the releases it was written for.

Whatever the generation: two claims for one pod, each container with a cat of its own, nothing left when the pod is gone.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.kubectl import Kubectl
from tests.support.paths import DRAY, SEEDS
from tests.support.process import DrayProcess, dray_process
from tests.support.wait import wait_for_sync

POD = "pod-with-cats"
#: release → the manifests that run there
RELEASES = {
    "1.26": ("classic-1.27",),
    "1.27": ("classic-1.27",),
    "1.30": ("classic-1.27", "structured-1.30"),
    "": ("classic-1.27", "structured-1.30", "beta-1.32", "v1"),
}


def manifests(folder: str, release: str) -> str:
    """The cats of a folder; beside others, structured ones are of a class of their own."""
    text = (SEEDS / folder / "cats.yaml").read_text()
    if folder == "structured-1.30":
        text = text.replace(" resource.example.com", " structured.example.com")
    return text.replace("resource.k8s.io/v1alpha2", "resource.k8s.io/v1alpha1") if release == "1.26" else text


def explained(cluster: DrayProcess, *arguments: str) -> bool:
    """Whether ``dray explain`` says that all is well."""
    command = [DRAY, "explain", *arguments, "--kubeconfig", str(cluster.kubeconfig)]
    return subprocess.run(command, capture_output=True, timeout=60, check=False).returncode == 0


def columns(kubectl: Kubectl, what: str) -> str:
    return " ".join(kubectl("get", what).splitlines()[0].split())


@pytest.mark.parametrize("release", RELEASES)
def test_every_container_sees_a_cat_of_its_own(
    tool: Callable[[str], str], tmp_path: Path, release: str
) -> None:
    with dray_process(tmp_path / "c", "up", *(("--emulate", release) if release else ())) as cluster:
        newest = Kubectl(tool("kubectl-1.36"), cluster, tmp_path / "cache-new")
        kubectl = newest if not release else Kubectl(tool("kubectl-1.27"), cluster, tmp_path / "cache")
        wait_for_sync(
            "claimparameters to be served",
            lambda: "claimparameters" in kubectl("api-resources", "-o", "name", code=None),
        )
        for folder in RELEASES[release]:
            # Cats of today's kind are announced a moment after the cluster is ready.
            file = str(SEEDS / folder / "cats.yaml")
            wait_for_sync(f"explain to find cats for {folder}", lambda f=file: explained(cluster, "-f", f))
        spaces = {folder.partition("-")[0]: folder for folder in RELEASES[release]}
        for space, folder in spaces.items():
            kubectl("create", "namespace", space)
            kubectl("apply", "-n", space, "-f", "-", stdin=manifests(folder, release))
        for space in spaces:
            kubectl("wait", "-n", space, "--for=condition=Ready", f"pod/{POD}", "--timeout=30s")
            cats = [newest("exec", "-n", space, POD, "-c", f"container{i}", "--", "env") for i in (0, 1)]
            assert all("CAT_COLOR=black" in cat and "CAT_SIZE=large" in cat for cat in cats), cats
            assert len({re.findall("^CAT_NAME=(.*)", cat, re.MULTILINE)[0] for cat in cats}) == 2, cats
            claims = kubectl("get", "resourceclaims", "-n", space).splitlines()[1:]
            assert len(claims) == 2 and all("allocated,reserved" in claim for claim in claims)
            assert explained(cluster, "pod", POD, "-n", space)
            if release == "1.27":  # its claims have fixed names, so that a manifest finds those of the pod
                assert explained(cluster, "-f", str(SEEDS / folder / "cats.yaml"), "-n", space)
            assert all(explained(cluster, "claim", claim.split()[0], "-n", space) for claim in claims)
            kubectl("delete", "-n", space, "pod", POD, "--grace-period=1", "--wait=false")
        for space in spaces:
            wait_for_sync(
                f"the claims of {space} to go",
                lambda s=space: not kubectl("get", "resourceclaims", "-n", s, "--no-headers"),
            )
        if not release:
            kubectl("apply", "-f", "-", stdin=ALL_IN_ONE)
            kubectl("wait", "--for=condition=Ready", "pod/all", "--timeout=30s")
            seen = newest("exec", "all", "--", "env")
            assert len(re.findall("^CAT_[A-Z]+=large black", seen, re.MULTILINE)) == 3, seen
            kubectl("delete", "pod", "all", "--grace-period=1")
        specs = [s.name for s in cluster.data.glob("nodes/*/cdi/*") if not s.name.endswith("_common.json")]
        assert not specs


@pytest.mark.parametrize("release", ["1.27", "1.30"])
def test_plain_claims_are_allocated_at_once_or_with_their_first_consumer(
    tool: Callable[[str], str], tmp_path: Path, release: str
) -> None:
    with dray_process(tmp_path / "c", "up", "--emulate", release) as cluster:
        kubectl = Kubectl(tool("kubectl-1.27"), cluster, tmp_path / "cache")
        kubectl("apply", "-f", "-", stdin=PLAIN)
        kubectl("wait", "--for=condition=Ready", "pod/plain", "--timeout=30s")
        assert "CAT_NAME=" in wait_for_sync(
            "the log of container now", lambda: kubectl("logs", "plain", "-c", "now")
        )
        of_claims = "NAME RESOURCECLASSNAME ALLOCATIONMODE STATE AGE"
        assert columns(kubectl, "resourceclaims") == of_claims
        assert columns(kubectl, "resourceclasses") == "NAME DRIVERNAME AGE"
        kubectl("delete", "pod", "plain", "--grace-period=1")

        def states() -> list[list[str]]:
            return [line.split()[2:4] for line in kubectl("get", "resourceclaims").splitlines()[1:]]

        # Since 1.28 the one that was allocated for the pod is given back with it.
        later = "pending" if release == "1.30" else "allocated"
        wait_for_sync(
            "one claim waiting for its consumer and one allocated",
            lambda: states() == [["WaitForFirstConsumer", later], ["Immediate", "allocated"]],
        )
        kubectl("delete", "resourceclaims", "--all", "--timeout=20s")


# One pod with a cat of each generation, of the classes that the seeds have brought.
ALL_IN_ONE = """
apiVersion: resource.k8s.io/v1
kind: ResourceClaimTemplate
metadata: {name: today}
spec: {spec: {devices: {requests: [{name: r, exactly: {deviceClassName: resource.example.com}}]}}}
---
apiVersion: resource.k8s.io/v1alpha2
kind: ResourceClaimTemplate
metadata: {name: structured}
spec: {spec: {resourceClassName: structured.example.com}}
---
apiVersion: resource.k8s.io/v1alpha2
kind: ResourceClaimTemplate
metadata: {name: classic}
spec: {spec: {resourceClassName: resource.example.com}}
---
apiVersion: v1
kind: Pod
metadata: {name: all}
spec:
  containers:
  - {name: c, image: x, command: [sleep, "9999"], resources: {claims: [{name: a}, {name: b}, {name: c}]}}
  resourceClaims:
  - {name: a, resourceClaimTemplateName: today}
  - {name: b, resourceClaimTemplateName: structured}
  - {name: c, resourceClaimTemplateName: classic}
"""

PLAIN = """
apiVersion: resource.k8s.io/v1alpha2
kind: ResourceClass
metadata: {name: resource.example.com}
driverName: resource-driver.example.com
---
apiVersion: resource.k8s.io/v1alpha2
kind: ResourceClaim
metadata: {name: later}
spec: {resourceClassName: resource.example.com}
---
apiVersion: resource.k8s.io/v1alpha2
kind: ResourceClaim
metadata: {name: now}
spec: {resourceClassName: resource.example.com, allocationMode: Immediate}
---
apiVersion: v1
kind: Pod
metadata: {name: plain}
spec:
  containers:
  - {name: later, image: x, command: [sleep, "9999"], resources: {claims: [{name: later}]}}
  - {name: now, image: x, command: [sh, -c, env; sleep 9999], resources: {claims: [{name: now}]}}
  resourceClaims:
  - {name: later, source: {resourceClaimName: later}}
  - {name: now, source: {resourceClaimName: now}}
"""

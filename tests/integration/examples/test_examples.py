"""Every directory of examples/, applied with real kubectl to a cluster with the driver it asks for."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.support.kubectl import Kubectl
from tests.support.paths import EXAMPLES
from tests.support.wait import wait_for_sync

GPU = re.compile(r"^GPU_DEVICE_(\w+?)=(gpu-\S+)$", re.MULTILINE)
CLASSES = [
    {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "DeviceClass",
        "metadata": {"name": driver},
        "spec": {"selectors": [{"cel": {"expression": f"device.driver == '{driver}'"}}]},
    }
    for driver in ("gpu.example.com", "nic.example.com")
]


@dataclass(frozen=True, slots=True)
class Cluster:
    server: Any
    directory: Path
    run: Kubectl

    def log(self, namespace: str, pod: str, container: str = "main") -> str:
        paths = self.directory.glob(f"*/logs/{namespace}_{pod}_*/{container}/0.log")
        return "\n".join(line.split(" ", 3)[-1] for p in paths for line in p.read_text().splitlines())

    def gpus(self, namespace: str, pod: str, container: str = "main") -> list[str]:
        return sorted(device for _, device in GPU.findall(self.log(namespace, pod, container)))

    def claims(self, namespace: str) -> list[Any]:
        path = f"/apis/resource.k8s.io/v1/namespaces/{namespace}/resourceclaims"
        items: list[Any] = self.server.request("GET", path)["items"]
        return items

    def phase(self, namespace: str, pod: str) -> str:
        found = self.server.request("GET", f"/api/v1/namespaces/{namespace}/pods/{pod}")
        return str((found or {}).get("status", {}).get("phase", ""))


@pytest.fixture(scope="session")
def clusters(
    start_cluster: Callable[[str], tuple[Any, Path]], tool: Callable[[str], str]
) -> Callable[[str], Cluster]:
    kubectl = tool("kubectl-1.36")

    @functools.cache
    def start(profile: str) -> Cluster:
        server, directory = start_cluster(profile)
        for device_class in CLASSES:
            server.request("POST", "/apis/resource.k8s.io/v1/deviceclasses", device_class)
        return Cluster(server, directory, Kubectl(kubectl, server, directory / "cache"))

    return start


def _two_gpus(cluster: Cluster) -> None:
    wait_for_sync(
        "the GPUs of both pods",
        lambda: cluster.gpus("template", "first") and cluster.gpus("template", "second"),
    )
    assert len(cluster.claims("template")) == 2


def _both_containers(cluster: Cluster) -> None:
    wait_for_sync("the GPU of container right", lambda: cluster.gpus("shared-containers", "pod", "right"))
    assert cluster.gpus("shared-containers", "pod", "left") == cluster.gpus(
        "shared-containers", "pod", "right"
    )


def _both_pods(cluster: Cluster) -> None:
    wait_for_sync(
        "the GPUs of both pods",
        lambda: cluster.gpus("shared-pods", "one") and cluster.gpus("shared-pods", "two"),
    )
    assert cluster.gpus("shared-pods", "one") == cluster.gpus("shared-pods", "two")
    [claim] = cluster.claims("shared-pods")
    assert len(claim["status"]["reservedFor"]) == 2


def _last(cluster: Cluster) -> None:
    wait_for_sync("gpu-7", lambda: cluster.gpus("selectors", "pod") == ["gpu-7"])


def _pair(cluster: Cluster) -> None:
    wait_for_sync("two GPUs", lambda: len(cluster.gpus("match-attribute", "pod")) == 2)


def _alternative(cluster: Cluster) -> None:
    wait_for_sync("two GPUs", lambda: len(cluster.gpus("alternatives", "pod")) == 2)
    [claim] = cluster.claims("alternatives")
    assert {r["request"] for r in claim["status"]["allocation"]["devices"]["results"]} == {"gpu/pair"}


def _all(cluster: Cluster) -> None:
    wait_for_sync("eight GPUs of the monitor", lambda: len(cluster.gpus("admin-access", "monitor")) == 8)
    assert "DRA_ADMIN_ACCESS=true" in cluster.log("admin-access", "monitor")


def _partitions(cluster: Cluster) -> None:
    wait_for_sync(
        "the partitions of both pods",
        lambda: cluster.gpus("partitions", "small") and cluster.gpus("partitions", "large"),
    )
    assert "partition" in cluster.gpus("partitions", "small")[0]
    assert cluster.gpus("partitions", "large")[0].endswith("-full")


def _capacity(cluster: Cluster) -> None:
    wait_for_sync(
        "the capacity of pod one", lambda: "_MEMORY=10Gi" in cluster.log("shared-capacity", "one") + ""
    )
    wait_for_sync("the capacity of pod two", lambda: "_MEMORY=10Gi" in cluster.log("shared-capacity", "two"))
    results = [c["status"]["allocation"]["devices"]["results"][0] for c in cluster.claims("shared-capacity")]
    assert len({r["shareID"] for r in results}) == 2


def _taints(cluster: Cluster) -> None:
    wait_for_sync(
        "gpu-0 for the pod that tolerates its taint", lambda: cluster.gpus("taints", "tolerates") == ["gpu-0"]
    )
    assert cluster.phase("taints", "waits") == "Pending"
    cluster.run("delete", "devicetaintrule", "example-maintenance")
    wait_for_sync("gpu-0 for the pod that waits", lambda: cluster.gpus("taints", "waits") == ["gpu-0"])


def _attached(cluster: Cluster) -> None:
    wait_for_sync(
        "the network interface in the pod's log",
        lambda: "NIC_DEVICE_0_INTERFACE=net0" in cluster.log("binding-conditions", "pod"),
    )
    [claim] = cluster.claims("binding-conditions")
    [status] = claim["status"]["devices"]
    assert status["conditions"][0]["type"] == "nic.example.com/attached"
    assert status["networkData"]["interfaceName"] == "net0"


def _limits(cluster: Cluster) -> None:
    wait_for_sync("two GPUs", lambda: len(cluster.gpus("extended-resource", "pod")) == 2)
    [claim] = cluster.claims("extended-resource")
    assert claim["metadata"]["name"].startswith("pod-extended-resources-")


def _configured(cluster: Cluster) -> None:
    wait_for_sync(
        "the time slice in the log",
        lambda: "_TIMESLICE_INTERVAL=Long" in cluster.log("opaque-config", "pod", "sliced"),
    )
    wait_for_sync(
        "the partition count in the log",
        lambda: "_PARTITION_COUNT=10" in cluster.log("opaque-config", "pod", "parted"),
    )


def _described(cluster: Cluster) -> None:
    wait_for_sync("the pod's GPU", lambda: cluster.gpus("device-status", "pod"))
    [claim] = cluster.claims("device-status")
    [status] = claim["status"]["devices"]
    assert status["data"]["model"] == {"string": "LATEST-GPU-MODEL"}


def _through_the_scheduler(cluster: Cluster) -> None:
    pod = cluster.server.request("GET", "/api/v1/namespaces/unset-node-name/pods/on-node-1")
    assert pod["spec"]["nodeSelector"] == {"kubernetes.io/hostname": "node-1"}
    assert "nodeName" not in pod["spec"]


CHECKS: dict[str, tuple[str, Callable[[Cluster, Any], None]]] = {
    "template": ("plain", _two_gpus),
    "shared-between-containers": ("plain", _both_containers),
    "shared-between-pods": ("plain", _both_pods),
    "selectors": ("plain", _last),
    "match-attribute": ("plain", _pair),
    "alternatives": ("plain", _alternative),
    "admin-access": ("plain", _all),
    "partitions": ("partitions", _partitions),
    "shared-capacity": ("shared", _capacity),
    "taints": ("plain", _taints),
    "binding-conditions": ("plain", _attached),
    "extended-resource": ("plain", _limits),
    "opaque-config": ("plain", _configured),
    "device-status": ("status", _described),
    "unset-node-name": ("plain", _through_the_scheduler),
}


def test_every_example_is_checked() -> None:
    directories = {p.name for p in EXAMPLES.iterdir() if p.is_dir()}
    assert directories - {"seeds"} == set(CHECKS)
    assert all((EXAMPLES / name / "README.md").exists() for name in CHECKS)


@pytest.mark.parametrize("name", CHECKS)
def test_the_example_does_what_its_readme_says(name: str, clusters: Callable[[str], Cluster]) -> None:
    profile, check = CHECKS[name]
    cluster = clusters(profile)
    cluster.run("apply", "-f", str(EXAMPLES / name))
    try:
        check(cluster)
    finally:
        cluster.run("delete", "--ignore-not-found", "--wait=false", "-f", str(EXAMPLES / name))
    specs = f"*/cdi/k8s.{'nic' if name == 'binding-conditions' else 'gpu'}.example.com-*_*-*.json"
    wait_for_sync("CDI specs to go", lambda: not list(cluster.directory.glob(specs)))

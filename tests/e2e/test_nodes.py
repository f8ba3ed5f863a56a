"""Nodes as a user sees them: a thousand that only pretend, and the health of devices in a pod's status."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.support.kubectl import Kubectl
from tests.support.paths import HANDS_ON
from tests.support.process import DRAY, dray_process
from tests.support.wait import wait_for_sync

MEGABYTES = 500


def test_a_thousand_simulated_nodes_run_pods_in_half_a_gigabyte(
    tool: Callable[[str], str], tmp_path: Path
) -> None:
    options = ("--nodes", "1000", "--devices", "2", "--runtime", "simulated")
    with dray_process(tmp_path / "c", "up", *options) as cluster:
        kubectl = Kubectl(tool("kubectl-1.36"), cluster, tmp_path / "cache")

        def ready() -> bool:
            nodes = cluster.get("/api/v1/nodes")["items"]
            conditions = [c for n in nodes for c in n["status"].get("conditions", ()) if c["type"] == "Ready"]
            return len(nodes) == sum(c["status"] == "True" for c in conditions) == 1000

        wait_for_sync("a thousand ready nodes", ready)
        kubectl("apply", "-f", str(HANDS_ON / "example_resourceclaimtemplate.yaml"))
        made = kubectl(
            "create", "-f", "-", stdin=json.dumps({"kind": "List", "apiVersion": "v1", "items": pods(200)})
        )
        assert made.count("created") == 200

        def running_pods() -> int:
            found = cluster.get("/api/v1/namespaces/default/pods")["items"]
            return sum(p["status"].get("phase") == "Running" for p in found)

        wait_for_sync("200 running pods", lambda: running_pods() == 200)
        status = Path(f"/proc/{cluster.process.pid}/status").read_text()
        (peak,) = [int(line.split()[1]) // 1024 for line in status.splitlines() if line.startswith("VmHWM")]
        assert peak < MEGABYTES


def pods(number: int) -> list[dict[str, Any]]:
    text = (HANDS_ON / "example_resourceclaimtemplate.yaml").read_text()
    template = next(line.split()[1] for line in text.splitlines() if line.strip().startswith("name:"))
    spec = {
        "containers": [{"name": "c", "image": "any", "resources": {"claims": [{"name": "gpu"}]}}],
        "resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": template}],
    }
    return [
        {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": f"p-{i}"}, "spec": spec}
        for i in range(number)
    ]


def test_the_health_of_devices_shows_in_the_status_of_pods(
    tool: Callable[[str], str], tmp_path: Path
) -> None:
    with dray_process(tmp_path / "c", "up", "--nodes", "1", "--drivers", "none") as cluster:
        kubectl = Kubectl(tool("kubectl-1.36"), cluster, tmp_path / "cache")
        place = cluster.data / "nodes" / "node-1"
        command = [
            DRAY,
            "driver",
            "gpu",
            "--kubeconfig",
            str(cluster.kubeconfig),
            "--node",
            "node-1",
            "--health",
        ]
        command += ["--root", str(place / "kubelet"), "--cdi", str(place / "cdi")]
        with (tmp_path / "driver.log").open("wb") as log:
            driver = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT)
        try:
            selector = {"cel": {"expression": 'device.driver == "gpu.example.com"'}}
            kubectl("apply", "-f", "-", stdin=json.dumps({
                "apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass",
                "metadata": {"name": "gpu.example.com"}, "spec": {"selectors": [selector]},
            }))  # fmt: skip
            kubectl("apply", "-f", str(HANDS_ON / "example_resourceclaimtemplate.yaml"))
            kubectl("apply", "-f", str(HANDS_ON / "example_claim_po.yaml"))
            (name,) = [
                p["metadata"]["name"] for p in json.loads(kubectl("get", "pods", "-o", "json"))["items"]
            ]

            def health() -> list[str]:
                (pod,) = json.loads(kubectl("get", "pods", "-o", "json"))["items"]
                (container, *_) = pod["status"].get("containerStatuses") or [{}]
                entries = container.get("allocatedResourcesStatus") or []
                return [
                    f"{r['health']} {r.get('message', '')}".strip() for e in entries for r in e["resources"]
                ]

            wait_for_sync("the device to be healthy", lambda: health() == ["Healthy"])
            pod = json.loads(kubectl("get", "pod", name, "-o", "json"))
            claim = pod["status"]["resourceClaimStatuses"][0]["resourceClaimName"]
            path = "jsonpath={.status.allocation.devices.results[0].device}"
            device = kubectl("get", "resourceclaim", claim, "-o", path)
            ailing = place / "kubelet" / "plugins" / "gpu.example.com" / "ailing"
            ailing.mkdir()
            (ailing / device).write_text("too hot\n")
            wait_for_sync("the device to be too hot", lambda: health() == ["Unhealthy too hot"])
            (ailing / device).unlink()
            wait_for_sync("the device to be healthy again", lambda: health() == ["Healthy"])
            driver.kill()  # nobody knows any more
            wait_for_sync("the device's health to be unknown", lambda: health() == ["Unknown"])
        finally:
            driver.kill()
            driver.wait()


def test_a_cluster_that_was_killed_finds_its_pods_running(tool: Callable[[str], str], tmp_path: Path) -> None:
    data = tmp_path / "c"
    with dray_process(data, "up", "--nodes", "1") as cluster:
        kubectl = Kubectl(tool("kubectl-1.36"), cluster, tmp_path / "cache")
        kubectl("apply", "-f", str(HANDS_ON / "example_resourceclaimtemplate.yaml"))
        kubectl("apply", "-f", str(HANDS_ON / "example_claim_po.yaml"))
        kubectl("run", "once", "--image=any", "--restart=Never", "--command", "--", "echo", "done")
        (name,) = [n for n in names(kubectl) if n != "once"]
        wait_for_sync(f"pod {name} to run", lambda: status(kubectl, name).get("phase") == "Running")
        wait_for_sync("pod once to succeed", lambda: status(kubectl, "once").get("phase") == "Succeeded")
        before = status(kubectl, name)["containerStatuses"][0]
        prepared = specs(data)
        cluster.process.kill()
        cluster.process.wait()
    (data / "test.log").rename(data / "before.log")
    with dray_process(data, "up", "--nodes", "1") as cluster:
        kubectl = Kubectl(tool("kubectl-1.36"), cluster, tmp_path / "cache")
        kubectl("wait", "--for=condition=Ready", f"pod/{name}", "--timeout=30s")
        after = status(kubectl, name)["containerStatuses"][0]
        assert (after["containerID"], after["restartCount"]) == (before["containerID"], 0)
        assert specs(data) == prepared
        assert kubectl("exec", name, "--", "echo", "still here") == "still here\n"
        assert kubectl("logs", "once") == "done\n"
        kubectl("delete", "pod", name, "once", "--timeout=30s")
        wait_for_sync("CDI specs to go", lambda: not specs(data))
        assert "Traceback" not in cluster.log


def names(kubectl: Kubectl) -> list[str]:
    return [pod["metadata"]["name"] for pod in json.loads(kubectl("get", "pods", "-o", "json"))["items"]]


def status(kubectl: Kubectl, pod: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(kubectl("get", "pod", pod, "-o", "json"))["status"]
    return found


def specs(data: Path) -> dict[str, int]:
    """The CDI specs of claims on the node, and when they were written."""
    found = (data / "nodes" / "node-1" / "cdi").glob("*.json")
    return {path.name: path.stat().st_mtime_ns for path in found if "common" not in path.name}

"""A cluster on containerd: devices through CDI, and sessions over both protocols of kubectl."""

from __future__ import annotations

import json
import os
import subprocess
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support import containerd
from tests.support.kubectl import KUBECTLS, Kubectl
from tests.support.paths import HANDS_ON, TOOLS
from tests.support.port_forward import hello_server, port_forward
from tests.support.process import DRAY, dray_process, free_port
from tests.support.wait import wait_for_sync


@pytest.fixture
def place(tool: Callable[[str], str]) -> Path:
    """Where containerd may be: its own sockets need short paths."""
    for name in ("containerd", "ctr", "busybox", "containerd-shim-runc-v2"):
        tool(name)
    if os.geteuid() != 0:
        pytest.skip("containerd needs root")
    return Path("/tmp") / f"dray-e2e-{os.getpid()}"


def test_pods_on_containerd_have_their_devices_and_answer(
    tool: Callable[[str], str], place: Path, tmp_path: Path
) -> None:
    data = tmp_path / "c"
    with (
        containerd.run_containerd(
            place, cdi=data / "nodes" / "node-1" / "cdi", tools=TOOLS, runc=tool("runc")
        ) as socket,
        dray_process(data, "up", "--nodes", "1", "--runtime", f"cri:{socket}") as cluster,
    ):
        kubectl = Kubectl(tool("kubectl-1.36"), cluster, tmp_path / "cache")
        kubectl("apply", "-f", str(HANDS_ON / "example_resourceclaimtemplate.yaml"))
        template = kubectl("get", "resourceclaimtemplates", "-o", "jsonpath={.items[0].metadata.name}")
        container = {
            "name": "main",
            "image": containerd.IMAGE,
            "imagePullPolicy": "Never",
            "command": ["sh", "-c", "sleep 1000"],
            "resources": {"claims": [{"name": "gpu"}]},
        }
        spec = {
            "containers": [container],
            "resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": template}],
            "terminationGracePeriodSeconds": 1,
        }
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": spec}
        kubectl("apply", "-f", "-", stdin=json.dumps(pod))
        kubectl("wait", "--for=condition=Ready", "pod/p", "--timeout=30s")
        with hello_server() as port:
            for version in KUBECTLS:
                kubectl = Kubectl(tool(version), cluster, tmp_path / version)
                assert "GPU_DEVICE_0=gpu-0\n" in kubectl("exec", "p", "--", "env")
                assert kubectl("exec", "-i", "p", "--", "cat", stdin="to the end") == "to the end"
                kubectl("exec", "p", "--", "sh", "-c", "exit 7", code=7)
                with (
                    port_forward(tool(version), cluster, "p", port) as local,
                    urllib.request.urlopen(f"http://127.0.0.1:{local}/", timeout=10) as answer,
                ):
                    assert answer.read() == b"hello"
        looks_into = ("--image", containerd.IMAGE, "--target", "main", "--image-pull-policy", "Never")
        kubectl("debug", "p", *looks_into, "-c", "debugger", "--", "sh", "-c", "ps; sleep 1000")
        wait_for_sync(
            "the debugger to see the container's processes",
            lambda: "sleep 1000" in kubectl("logs", "p", "-c", "debugger", code=None),
        )
        node = kubectl("get", "pod", "p", "-o", "jsonpath={.spec.nodeName}")
        usage = kubectl("get", "--raw", f"/api/v1/nodes/{node}/proxy/metrics/resource")
        assert 'container_memory_working_set_bytes{container="main",pod="p",namespace="default"}' in usage
        privileged = {**container, "securityContext": {"privileged": True}, "resources": {}}
        driver = {"containers": [privileged], "hostPID": True, "terminationGracePeriodSeconds": 1}
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "driver"}, "spec": driver}
        kubectl("apply", "-f", "-", stdin=json.dumps(pod))
        kubectl("wait", "--for=condition=Ready", "pod/driver", "--timeout=30s")
        assert f"\n{os.getpid()} " in kubectl(
            "exec", "driver", "--", "sh", "-c", "cd /proc && echo && stat -c '%n ' *"
        )
        kubectl("delete", "pod", "p", "driver", "--timeout=30s")


def test_a_node_on_containerd_answers_at_its_port_and_tells_pods_of_the_clusters_dns(
    tool: Callable[[str], str], place: Path, tmp_path: Path
) -> None:
    port = free_port()
    with (
        containerd.run_containerd(place, cdi=tmp_path / "cdi", tools=TOOLS, runc=tool("runc")) as socket,
        dray_process(tmp_path / "c", "up", "--nodes", "0", "--drivers", "none") as cluster,
        (tmp_path / "node.log").open("wb") as log,
    ):
        command = [DRAY, "node", "--name", "worker", "--kubeconfig", str(cluster.kubeconfig)]
        command += ["--runtime", f"cri:{socket}", "--address", "127.0.0.1", "--port", str(port)]
        command += ["--root", str(place / "kubelet"), "--pod-log-dir", str(place / "logs")]
        command += ["--cdi-spec-dir", str(tmp_path / "cdi"), "--cluster-dns", "10.96.0.10"]
        node = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT)
        try:
            kubectl = Kubectl(tool("kubectl-1.36"), cluster, tmp_path / "cache")
            wait_for_sync(
                "the node to be registered",
                lambda: cluster.get("/api/v1/nodes/worker"),
                log=(tmp_path / "node.log").read_text,
                alive=lambda: node.poll() is None,
            )
            endpoint = cluster.get("/api/v1/nodes/worker")["status"]["daemonEndpoints"]["kubeletEndpoint"]
            assert endpoint == {"Port": port}
            own = {"nameservers": ["192.0.2.1"], "searches": ["a.example"], "options": [{"name": "edns0"}]}
            kubectl.apply(
                resolving_pod("cluster", dnsPolicy="ClusterFirst"),
                resolving_pod("own", dnsPolicy="None", dnsConfig=own),
            )
            kubectl("wait", "--for=condition=Ready", "pod/cluster", "pod/own", "--timeout=40s")
            in_cluster = kubectl("exec", "cluster", "--", "cat", "/etc/resolv.conf").splitlines()
            assert in_cluster[0].startswith(
                "search default.svc.cluster.local svc.cluster.local cluster.local"
            )
            assert in_cluster[1:] == ["nameserver 10.96.0.10", "options ndots:5"]
            written = kubectl("exec", "own", "--", "cat", "/etc/resolv.conf")
            assert written == "search a.example\nnameserver 192.0.2.1\noptions edns0\n"
            assert kubectl("logs", "own") == "up\n"
            metrics = kubectl("get", "--raw", "/api/v1/nodes/worker/proxy/metrics/resource")
            assert 'container_cpu_usage_seconds_total{container="main",pod="own"' in metrics
            kubectl("delete", "pod", "cluster", "own", "--timeout=30s")
        finally:
            node.terminate()
            node.wait(20)


def resolving_pod(name: str, **spec: Any) -> dict[str, Any]:
    main = {
        "name": "main",
        "image": containerd.IMAGE,
        "imagePullPolicy": "Never",
        "command": ["sh", "-c", "echo up; sleep 1000"],
    }
    spec = {"containers": [main], "terminationGracePeriodSeconds": 1, **spec}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}

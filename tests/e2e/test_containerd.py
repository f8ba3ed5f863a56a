"""A cluster on containerd: devices through CDI, and sessions over both protocols of kubectl."""

from __future__ import annotations

import json
import os
import urllib.request
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support import containerd
from tests.support.kubectl import KUBECTLS, Kubectl
from tests.support.paths import HANDS_ON, TOOLS
from tests.support.port_forward import hello_server, port_forward
from tests.support.process import dray_process
from tests.support.wait import wait_for_sync


def test_pods_on_containerd_have_their_devices_and_answer(tool: Callable[[str], str], tmp_path: Path) -> None:
    for name in ("containerd", "ctr", "busybox", "containerd-shim-runc-v2"):
        tool(name)
    if os.geteuid() != 0:
        pytest.skip("containerd needs root")
    place = Path("/tmp") / f"dray-e2e-{os.getpid()}"  # containerd's own sockets need short paths
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

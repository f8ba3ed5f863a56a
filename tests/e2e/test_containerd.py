"""A cluster on containerd: devices through CDI, and sessions over both protocols of kubectl."""

from __future__ import annotations

import importlib.util
import json
import os
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.test_hands_on import NOTES, ROOT
from tests.support.process import dray_process

from .conftest import KUBECTLS, kubectl_for
from .test_streams import forwarding, serving

CONTAINERD = ROOT / "tests" / "integration" / "node" / "containerd.py"


def load() -> Any:
    spec = importlib.util.spec_from_file_location("dray_tests_containerd", CONTAINERD)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_pods_on_containerd_have_their_devices_and_answer(tool: Callable[[str], str], tmp_path: Path) -> None:
    for name in ("containerd", "ctr", "busybox", "containerd-shim-runc-v2"):
        tool(name)
    if os.geteuid() != 0:
        pytest.skip("containerd needs root")
    containerd = load()
    place = Path("/tmp") / f"dray-e2e-{os.getpid()}"  # containerd's own sockets need short paths
    data = tmp_path / "c"
    with (
        containerd.running(
            place, cdi=data / "nodes" / "node-1" / "cdi", tools=ROOT / ".tools" / "bin", runc=tool("runc")
        ) as socket,
        dray_process(data, "up", "--nodes", "1", "--runtime", f"cri:{socket}") as cluster,
    ):
        kubectl = kubectl_for(tool("kubectl-1.36"), cluster, tmp_path / "cache")
        kubectl("apply", "-f", str(NOTES / "example_resourceclaimtemplate.yaml"))
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
        with serving() as port:
            for version in KUBECTLS:
                kubectl = kubectl_for(tool(version), cluster, tmp_path / version)
                assert "GPU_DEVICE_0=gpu-0\n" in kubectl("exec", "p", "--", "env")
                assert kubectl("exec", "-i", "p", "--", "cat", stdin="to the end") == "to the end"
                kubectl("exec", "p", "--", "sh", "-c", "exit 7", code=7)
                with (
                    forwarding(tool(version), cluster, "p", port) as local,
                    urllib.request.urlopen(f"http://127.0.0.1:{local}/", timeout=10) as answer,
                ):
                    assert answer.read() == b"hello"
        kubectl("delete", "pod", "p", "--timeout=30s")

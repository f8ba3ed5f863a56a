"""A driver made with the SDK under upstream's kubelet, on containerd and dray's API server.

Needs a kubelet binary, named by DRAY_TEST_KUBELET.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support import containerd
from tests.support.paths import TOOLS
from tests.support.process import free_port
from tests.support.wait import wait_for_sync

BINARY = os.environ.get("DRAY_TEST_KUBELET", "")

CONFIGURATION = """\
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
cgroupDriver: cgroupfs
failCgroupV1: false
failSwapOn: false
cgroupsPerQOS: false
enforceNodeAllocatable: []
localStorageCapacityIsolation: false
containerRuntimeEndpoint: unix://{socket}
authentication: {{anonymous: {{enabled: false}}, webhook: {{enabled: false}}, x509: {{clientCAFile: {ca}}}}}
authorization: {{mode: AlwaysAllow}}
podLogsDir: {directory}/logs
port: {port}
healthzPort: 0
"""


@pytest.fixture
def directory() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="d", ignore_cleanup_errors=True) as short:
        yield Path(short) / "real"


@pytest.fixture
def kubelet(directory: Path, server: Any, tool: Callable[[str], str]) -> Iterator[None]:
    for name in ("containerd", "ctr", "busybox", "containerd-shim-runc-v2"):
        tool(name)
    directory.mkdir()
    tools = TOOLS
    with containerd.run_containerd(
        directory / "c", cdi=directory / "cdi", tools=tools, runc=tool("runc")
    ) as runtime:
        ca = server.kubeconfig.parent / "pki" / "ca.crt"
        configuration = CONFIGURATION.format(socket=runtime, directory=directory, ca=ca, port=free_port())
        (directory / "kubelet.yaml").write_text(configuration)
        with (directory / "kubelet.log").open("wb") as log:
            process = subprocess.Popen(
                [
                    *(
                        BINARY,
                        "--config",
                        str(directory / "kubelet.yaml"),
                        "--kubeconfig",
                        str(server.kubeconfig),
                    ),
                    *("--root-dir", str(directory / "kubelet"), "--cert-dir", str(directory / "certs")),
                    *("--hostname-override", "real", "--kube-api-content-type", "application/json"),
                ],
                stdout=log,
                stderr=log,
            )
        try:
            yield
        finally:
            process.terminate()
            process.wait(30)


def test_our_driver_serves_a_real_kubelet(
    kubelet: None,
    directory: Path,
    make_node: Callable[..., Any],
    tool: Callable[[str], str],
) -> None:
    world = make_node("real", short=True)
    world.directory = directory
    wait_for_sync(
        "the kubelet's plugin directory", lambda: (directory / "kubelet" / "plugins_registry").is_dir()
    )
    world.start("driver")
    # A kubelet that meets the pod before the driver would take its time to try again.
    wait_for_sync(
        "the driver's registration", lambda: (directory / "hardware" / "registered").exists(), seconds=60
    )
    world.pod_with_claim(
        "pod-real",
        "dev-3",
        image=containerd.IMAGE,
        imagePullPolicy="Never",
        command=["sh", "-c", "echo got $DEVICE; cat /firmware/version; sleep 1000"],
        pod={"hostNetwork": True},
    )
    wait_for_sync("pod pod-real to run", lambda: world.phase("pod-real") == "Running", seconds=60)

    def log() -> str:
        return "".join(p.read_text() for p in directory.glob("logs/*/main/0.log"))

    wait_for_sync("the version in the log", lambda: "1.2.3" in log())
    assert "got dev-3" in log()
    for version in ("kubectl-1.27", "kubectl-1.36"):  # one speaks SPDY, the other WebSockets

        def kubectl(*arguments: str, stdin: str = "", version: str = version) -> str:
            command = [tool(version), "--kubeconfig", str(world.server.kubeconfig), *arguments]
            done = subprocess.run(
                command, input=stdin, capture_output=True, text=True, timeout=60, check=False
            )
            return done.stdout + done.stderr

        assert "got dev-3" in kubectl("logs", "pod-real")
        assert kubectl("exec", "-i", "pod-real", "--", "cat", stdin="through both") == "through both"
        assert "exit code 7" in kubectl("exec", "pod-real", "--", "sh", "-c", "exit 7")
    world.delete("pod-real")
    wait_for_sync("pod pod-real to go", lambda: world.pod("pod-real") is None, seconds=60)
    assert (world.in_use, world.specs) == ([], [])

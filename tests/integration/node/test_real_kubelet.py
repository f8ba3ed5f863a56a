"""A driver made with the SDK under upstream's kubelet, on containerd and dray's API server.

Needs a kubelet binary, named by DRAY_TEST_KUBELET.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import tempfile
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support import containerd
from tests.support.kubectl import Kubectl
from tests.support.paths import TOOLS
from tests.support.port_forward import hello_server, port_forward
from tests.support.process import DRAY, DrayProcess, dray_process, free_port
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
authentication: {{anonymous: {{enabled: false}}, webhook: {{enabled: {asks}}}, x509: {{clientCAFile: {ca}}}}}
authorization: {{mode: {mode}}}
podLogsDir: {directory}/logs
port: {port}
healthzPort: 0
"""


GPU_CLASS = {
    "apiVersion": "resource.k8s.io/v1",
    "kind": "DeviceClass",
    "metadata": {"name": "gpu.example.com"},
    "spec": {"selectors": [{"cel": {"expression": "device.driver == 'gpu.example.com'"}}]},
}
GPU_TEMPLATE = {
    "apiVersion": "resource.k8s.io/v1",
    "kind": "ResourceClaimTemplate",
    "metadata": {"name": "gpu"},
    "spec": {
        "spec": {
            "devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "gpu.example.com"}}]}
        }
    },
}
#: Without a network plugin the node is not ready, and runs pods on its own network all the same.
POD_WITH_GPU = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "p"},
    "spec": {
        "containers": [
            {
                "name": "main",
                "image": containerd.IMAGE,
                "imagePullPolicy": "Never",
                "command": ["sh", "-c", "echo up; sleep 1001"],
                "resources": {"claims": [{"name": "gpu"}]},
            }
        ],
        "hostNetwork": True,
        "resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "gpu"}],
        "terminationGracePeriodSeconds": 1,
        "tolerations": [{"operator": "Exists"}],
    },
}


@pytest.fixture
def directory() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="d", ignore_cleanup_errors=True) as short:
        yield Path(short) / "real"


@contextlib.contextmanager
def running_kubelet(
    directory: Path, server: DrayProcess, tool: Callable[[str], str], *options: str, asks: bool
) -> Iterator[None]:
    """The node ``real``, on a containerd of its own. A kubelet that ``asks`` leaves it to the API server who may do what."""
    for name in ("containerd", "ctr", "busybox", "containerd-shim-runc-v2"):
        tool(name)
    directory.mkdir()
    with containerd.run_containerd(
        directory / "c", cdi=directory / "cdi", tools=TOOLS, runc=tool("runc")
    ) as runtime:
        configuration = CONFIGURATION.format(
            socket=runtime,
            directory=directory,
            ca=server.kubeconfig.parent / "pki" / "ca.crt",
            port=free_port(),
            asks=str(asks).lower(),
            mode="Webhook" if asks else "AlwaysAllow",
        )
        (directory / "kubelet.yaml").write_text(configuration)
        with (directory / "kubelet.log").open("wb") as log:
            process = subprocess.Popen(
                [
                    *(BINARY, "--config", str(directory / "kubelet.yaml"), "--hostname-override", "real"),
                    *("--root-dir", str(directory / "kubelet"), "--cert-dir", str(directory / "certs")),
                    *options,
                ],
                stdout=log,
                stderr=log,
            )
        try:
            yield
        finally:
            process.terminate()
            process.wait(30)


@pytest.fixture
def kubelet(directory: Path, server: DrayProcess, tool: Callable[[str], str]) -> Iterator[None]:
    options = ("--kubeconfig", str(server.kubeconfig), "--kube-api-content-type", "application/json")
    with running_kubelet(directory, server, tool, *options, asks=False):
        yield


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


def test_a_kubelet_joins_by_a_token_and_does_what_kubectl_asks_of_it(
    directory: Path, tool: Callable[[str], str], tmp_path: Path
) -> None:
    with dray_process(tmp_path / "c", "up", "--nodes", "0", "--emulate", "1.36") as cluster:
        introduction, identity = directory.parent / "bootstrap.conf", directory.parent / "kubelet.conf"
        introduction.write_text(bootstrap_kubeconfig(cluster))
        options = ("--bootstrap-kubeconfig", str(introduction), "--kubeconfig", str(identity))
        with (
            running_kubelet(directory, cluster, tool, *options, asks=True),
            gpu_driver(cluster, directory),
            hello_server() as port,
        ):
            kubectl = Kubectl(tool("kubectl-1.36"), cluster, tmp_path / "cache")
            wait_for_sync(
                "the kubelet's node",
                lambda: cluster.get("/api/v1/nodes/real"),
                seconds=60,
                log=(directory / "kubelet.log").read_text,
            )
            (request,) = kubectl.get("csr")["items"]
            assert request["spec"]["username"].startswith("system:bootstrap:")
            assert request["status"]["certificate"]
            assert "token" not in identity.read_text()
            may_call = (
                "--clusterrole",
                "system:kubelet-api-admin",
                "--user",
                "kube-apiserver-kubelet-client",
            )
            kubectl("create", "clusterrolebinding", "kubelet-api", *may_call)

            kubectl.apply(GPU_CLASS, GPU_TEMPLATE, POD_WITH_GPU)
            kubectl("wait", "--for=condition=Ready", "pod/p", "--timeout=55s")
            assert len(claim_specs(directory)) == 1
            assert kubectl("logs", "p") == "up\n"
            assert "GPU_DEVICE_0=gpu-" in kubectl("exec", "p", "--", "env")
            with (
                port_forward(tool("kubectl-1.36"), cluster, "p", port) as local,
                urllib.request.urlopen(f"http://127.0.0.1:{local}/", timeout=10) as answer,
            ):
                assert answer.read() == b"hello"
            looks_into = ("--image", containerd.IMAGE, "--target", "main", "--image-pull-policy", "Never")
            kubectl("debug", "p", *looks_into, "-c", "debugger", "--", "sh", "-c", "ps; sleep 1000")
            wait_for_sync(
                "the debugger to see the container's processes",
                lambda: "sleep 1001" in kubectl("logs", "p", "-c", "debugger", code=None),
                seconds=60,
            )
            usage = kubectl("get", "--raw", "/api/v1/nodes/real/proxy/metrics/resource")
            assert 'pod="p"' in usage
            kubectl("delete", "pod", "p", "--timeout=55s")
            wait_for_sync("the claim to go", lambda: not kubectl.get("resourceclaims")["items"])
            assert claim_specs(directory) == []


def claim_specs(directory: Path) -> list[str]:
    """The CDI files that belong to one claim each."""
    return [path.name for path in (directory / "cdi").glob("*.json") if "_common" not in path.name]


def bootstrap_kubeconfig(cluster: DrayProcess) -> str:
    token = subprocess.run(
        [DRAY, "token", "create", "--kubeconfig", str(cluster.kubeconfig)],
        capture_output=True, text=True, check=True,
    ).stdout.strip()  # fmt: skip
    server = {"server": cluster.url, "certificate-authority": str(cluster.data / "pki" / "ca.crt")}
    return json.dumps(
        {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "dray", "cluster": server}],
            "users": [{"name": "joining", "user": {"token": token}}],
            "contexts": [{"name": "joining", "context": {"cluster": "dray", "user": "joining"}}],
            "current-context": "joining",
        }
    )


@contextlib.contextmanager
def gpu_driver(cluster: DrayProcess, directory: Path) -> Iterator[None]:
    """dray's own driver below the kubelet's plugin directory."""
    wait_for_sync(
        "the kubelet's plugin directory",
        lambda: (directory / "kubelet" / "plugins_registry").is_dir(),
        seconds=60,
        log=(directory / "kubelet.log").read_text,
    )
    command = [DRAY, "driver", "gpu", "--kubeconfig", str(cluster.kubeconfig), "--node", "real"]
    command += ["--root", str(directory / "kubelet"), "--cdi", str(directory / "cdi")]
    with (directory / "driver.log").open("wb") as log:
        driver = subprocess.Popen(command, stdout=log, stderr=log)
    try:
        yield
    finally:
        driver.terminate()
        driver.wait(20)

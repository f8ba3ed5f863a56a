"""``dray up``, ``status`` and ``down`` as a user types them."""

from __future__ import annotations

import contextlib
import json
import ssl
import subprocess
import urllib.request
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.paths import DRAY
from tests.support.process import dray_process
from tests.support.wait import wait_for_sync


def dray(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([DRAY, *arguments], capture_output=True, text=True, timeout=60, check=False)


def test_a_cluster_is_started_looked_at_and_stopped(tmp_path: Path):
    data = ("--data", str(tmp_path))
    assert dray("status", *data).returncode == 1
    up = dray("up", *data, "--nodes", "0", "--listen", "127.0.0.1", "--store", "memory", "--detach")
    try:
        assert up.returncode == 0, up.stderr
        assert f"export KUBECONFIG={tmp_path}/kubeconfig" in up.stdout
        status = dray("status", *data)
        assert status.returncode == 0 and status.stdout.startswith("Ready on https://127.0.0.1:")
        config = yaml.safe_load((tmp_path / "kubeconfig").read_text())
        assert config["clusters"][0]["cluster"]["server"] in status.stdout
        twice = dray("up", *data)
        assert twice.returncode != 0 and "already runs" in twice.stderr
        assert f"end it with: dray down --data {tmp_path}" in twice.stderr
    finally:
        down = dray("down", *data)
    assert (down.returncode, down.stdout) == (0, "The cluster has stopped.\n")
    nothing = dray("down", *data)
    assert (nothing.returncode, nothing.stdout) == (1, f"No cluster is running on {tmp_path}.\n")


def test_the_directories_of_nodes_are_shown_and_drivers_run_there(tmp_path: Path):
    data = ("--data", str(tmp_path))
    program = tmp_path / "tell.py"
    program.write_text("import os\nfor n in 'NODE_NAME', 'KUBELET_DIRECTORY_PATH': print(os.environ[n])\n")
    early = dray("driver", "run", str(program), "--node", "node-1", *data)
    assert early.returncode == 1 and "start one with: dray up" in early.stderr
    up = dray("up", *data, "--nodes", "1", "--drivers", "none", "--store", "memory", "--detach")
    try:
        assert up.returncode == 0, up.stderr
        node = tmp_path / "nodes" / "node-1"
        assert f"node-1      {node}\n" in dray("status", *data).stdout
        assert f"{node}/kubelet  {node}/cdi" in dray("node", "list", *data).stdout
        told = dray("driver", "run", str(program), "--node", "node-1", *data)
        assert told.stdout.split() == ["node-1", f"{node}/kubelet"]
        wrong = dray("driver", "run", str(program), "--node", "dray-1", *data)
        assert wrong.returncode == 1 and "there are: node-1" in wrong.stderr
    finally:
        dray("down", *data)


def test_options_come_from_a_file_and_the_control_plane_shows_them(tmp_path: Path):
    file = tmp_path / "cluster.yaml"
    file.write_text(
        'kind: Cluster\nemulate: "1.32"\ndata: data\nnodes: 1\ndrivers: none\nstore: memory\n'
        "listen: 127.0.0.1\nadminToken: secret\nfeatureGates: {DRAAdminAccess: true}\n"
    )
    up = dray("up", "--config", str(file), "--detach")
    data = ("--data", str(tmp_path / "data"))
    try:
        assert up.returncode == 0, up.stderr
        assert "1.32, reports v1.32.13" in dray("status", *data).stdout
        url = up.stdout.split()[5]
        pods = control_plane(url)
        assert list(pods) == [
            "kube-apiserver-node-1",
            "kube-controller-manager-node-1",
            "kube-scheduler-node-1",
        ]
        gates = "--feature-gates=DynamicResourceAllocation=true,DRAAdminAccess=true"
        assert all(gates in pod["spec"]["containers"][0]["command"] for pod in pods.values())
        assert "secret" not in str(pods)
        said = {name: get(f"{url}/api/v1/namespaces/kube-system/pods/{name}/log").decode() for name in pods}
        assert f"serving v1.32.13 on {url}" in said["kube-apiserver-node-1"]
        assert "running resourceclaim-controller" in said["kube-controller-manager-node-1"]
        assert said["kube-scheduler-node-1"].endswith("scheduling pods for default-scheduler\n")
    finally:
        dray("down", *data)


def test_others_run_what_a_cluster_is_started_without(tmp_path: Path):
    file = tmp_path / "cluster.yaml"
    file.write_text(
        "without: [scheduler, controllers]\nnodes: 1\ndevices: 1\nruntime: simulated\nstore: memory\n"
    )
    with contextlib.ExitStack() as started:
        server = started.enter_context(dray_process(tmp_path / "data", "up", "--config", str(file)))

        def start(component: str) -> None:
            log = started.enter_context((tmp_path / f"{component}.log").open("wb"))
            process = subprocess.Popen(
                [DRAY, component, "--kubeconfig", str(server.kubeconfig)], stdout=log, stderr=log
            )
            started.callback(process.wait)
            started.callback(process.terminate)

        def pod() -> Any:
            return server.get("/api/v1/namespaces/default/pods/p")

        server.request("POST", "/apis/resource.k8s.io/v1/namespaces/default/resourceclaimtemplates", CLAIM)
        accounts = "/api/v1/namespaces/default/serviceaccounts"
        assert server.get(accounts)["items"] == []
        start("controllers")
        wait_for_sync("the service account", lambda: server.get(accounts)["items"])
        server.request("POST", "/api/v1/namespaces/default/pods", POD)
        wait_for_sync("the claim", lambda: pod()["status"].get("resourceClaimStatuses"))
        assert pod()["status"]["phase"] == "Pending" and "nodeName" not in pod()["spec"]
        start("scheduler")
        wait_for_sync("the pod to run", lambda: pod()["status"]["phase"] == "Running")
        assert pod()["spec"]["nodeName"] == "node-1"


@pytest.mark.parametrize("without", ["scheduler", "controllers"])
def test_the_control_plane_shows_no_part_that_others_run(tmp_path: Path, without: str):
    options = ("--nodes", "1", "--drivers", "none", "--store", "memory", "--ui", "none")
    parts = {
        "server": "kube-apiserver",
        "controllers": "kube-controller-manager",
        "scheduler": "kube-scheduler",
    }
    started = {f"{part}-node-1" for name, part in parts.items() if name != without}
    with dray_process(tmp_path, "up", *options, "--without", without) as server:

        def shown() -> set[str]:
            pods = server.get("/api/v1/namespaces/kube-system/pods?labelSelector=tier%3Dcontrol-plane")
            return {pod["metadata"]["name"] for pod in pods["items"]}

        wait_for_sync("the control plane's pods", lambda: len(shown()) >= len(started))
        assert shown() == started


CLAIM = {
    "metadata": {"name": "gpu"},
    "spec": {
        "spec": {
            "devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "gpu.example.com"}}]}
        }
    },
}
POD = {
    "metadata": {"name": "p"},
    "spec": {
        "containers": [{"name": "c", "image": "i", "resources": {"claims": [{"name": "gpu"}]}}],
        "resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "gpu"}],
    },
}


def get(url: str) -> bytes:
    request = urllib.request.Request(url, headers={"Authorization": "Bearer secret"})
    with urllib.request.urlopen(request, context=ssl._create_unverified_context(), timeout=10) as answer:
        return bytes(answer.read())


def control_plane(url: str) -> dict[str, Any]:
    """The pods, once all are there."""
    where = f"{url}/api/v1/namespaces/kube-system/pods?labelSelector=tier%3Dcontrol-plane"

    def look() -> dict[str, Any]:
        found = {pod["metadata"]["name"]: pod for pod in json.loads(get(where))["items"]}
        return found if len(found) == 3 else {}

    pods: dict[str, Any] = wait_for_sync("the control plane's pods", look)
    return pods


def test_a_bad_option_is_explained(tmp_path: Path):
    data = ("--data", str(tmp_path))
    for arguments, words in (
        (("--store", "tape"), "names no store"),
        (("--emulate", "0.9"), "cannot emulate release 0.9"),
        (("--feature-gates", "Nope=true"), "unrecognized feature gate: Nope"),
        (("--enable-admission-plugins", "Nope"), "Nope"),
    ):
        for detached in ((), ("--detach",)):
            done = dray("up", *data, "--nodes", "0", "--listen", "127.0.0.1", *arguments, *detached)
            assert done.returncode == 1 and words in done.stderr, (arguments, done.stderr)
            assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("emulate", "switched_off", "driver"),
    [
        ("", ("--feature-gates", "DynamicResourceAllocation=false"), "gpu.example.com"),
        ("1.26", ("--feature-gates", "DynamicResourceAllocation=false"), "resource-driver.example.com"),
        ("1.34", ("--feature-gates", "DynamicResourceAllocation=false"), "gpu.example.com"),
        ("1.27", ("--runtime-config", "resource.k8s.io/v1alpha2=false"), "resource-driver.example.com"),
        (
            "1.32",
            ("--runtime-config", "resource.k8s.io/v1beta1=false,resource.k8s.io/v1alpha3=false"),
            "gpu.example.com",
        ),
        ("1.35", ("--runtime-config", "resource.k8s.io/v1=false"), "resource-driver.example.com"),
    ],
)
def test_a_cluster_comes_up_without_the_api_of_its_drivers_and_says_that_they_wait(
    tmp_path: Path, emulate: str, switched_off: tuple[str, str], driver: str
):
    data = ("--data", str(tmp_path))
    up = dray(
        "up", *data, "--nodes", "1", "--listen", "127.0.0.1", "--store", "memory", "--emulate", emulate,
        *switched_off, "--detach",
    )  # fmt: skip
    try:
        assert up.returncode == 0, up.stderr
        assert f"{driver} waits for its API" in up.stdout
        assert "kubectl get nodes" in up.stdout and "dray demo" not in up.stdout
        assert f"Stop it with: dray down --data {tmp_path}" in up.stdout
        log = tmp_path / "dray.log"
        wait_for_sync("the driver to say it", lambda: f"{driver} waits for its API" in log.read_text())
        assert "refused to register" not in log.read_text()
        assert dray("status", *data).returncode == 0
        seen = dray("devices", "--kubeconfig", str(tmp_path / "kubeconfig"))
        assert seen.returncode == 0
        assert seen.stderr.startswith("This cluster has no Dynamic Resource Allocation")
    finally:
        dray("down", *data)

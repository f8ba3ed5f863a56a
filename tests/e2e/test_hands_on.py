"""The hands-on notes, typed with real kubectl and helm on a whole cluster."""

from __future__ import annotations

import json
import subprocess
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.kubectl import Kubectl
from tests.support.paths import HANDS_ON, ROOT
from tests.support.process import dray_process
from tests.support.wait import wait_for_sync


def phase(kubectl: Kubectl, pod: str) -> str:
    return kubectl("get", "pod", pod, "-o", "jsonpath={.status.phase}")


@pytest.mark.parametrize("release", ["1.32", ""])
def test_the_notes_play_as_written(tool: Callable[[str], str], tmp_path: Path, release: str) -> None:
    with dray_process(tmp_path / "c", "up", *(("--emulate", release) if release else ())) as cluster:
        kubectl = Kubectl(tool("kubectl-1.36"), cluster, tmp_path / "cache")
        slices = [line.split()[1:4] for line in kubectl("get", "resourceslice").splitlines()[1:]]
        assert slices == [[f"node-{i}", "gpu.example.com", f"node-{i}"] for i in (1, 2, 3)]
        assert "gpu.example.com" in kubectl("get", "deviceclasses")
        described = kubectl("describe", "resourceslices")
        assert "LATEST-GPU-MODEL" in described and "80Gi" in described
        assert ("Basic:" in described) == (release == "1.32")
        kubectl("apply", "-f", str(HANDS_ON / "example_resourceclaimtemplate.yaml"))
        seen: list[str] = []
        watch = threading.Thread(
            target=lambda: seen.append(
                kubectl("get", "resourceclaim", "-w", "--request-timeout=12s", code=None)
            )
        )
        watch.start()
        time.sleep(1)
        kubectl("apply", "-f", str(HANDS_ON / "example_claim_po.yaml"))
        (pod,) = json.loads(kubectl("get", "pods", "-o", "json"))["items"]
        name = pod["metadata"]["name"]
        wait_for_sync(f"pod {name} to run", lambda: phase(kubectl, name) == "Running")
        assert "GPU_DEVICE_0" in wait_for_sync(f"the log of {name}", lambda: kubectl("logs", name))
        node = kubectl("get", "pod", name, "-o", "jsonpath={.spec.nodeName}")
        cdi = cluster.data / "nodes" / node / "cdi"
        during = set(cdi.iterdir())
        kubectl("delete", "pod", name)
        wait_for_sync(
            "all claims to go", lambda: "No resources" in kubectl("get", "resourceclaims", merged=True)
        )
        wait_for_sync("CDI files to go", lambda: len(set(cdi.iterdir())) < len(during))
        watch.join()
        states = [line.split()[1] for line in seen[0].splitlines() if not line.startswith("NAME")]
        # Upstream's scheduler adds a finalizer first; where no release is stood in for, claims are born with it.
        begun = ["pending", "pending"] if release else ["pending"]
        assert states == [*begun, "allocated,reserved", "pending", "pending", "pending"]


@pytest.mark.parametrize("release", ["1.32", ""])
def test_the_driver_is_installed_as_the_notes_do_it(
    tool: Callable[[str], str], tmp_path: Path, release: str
) -> None:
    space = "dra-example-driver"
    options = ("--drivers", "none", "--withdraw-after", "1", *(("--emulate", release) if release else ()))
    with dray_process(tmp_path / "c", "up", *options) as cluster:
        kubectl = Kubectl(tool("kubectl-1.36"), cluster, tmp_path / "cache")
        kubectl_old = Kubectl(tool("kubectl-1.27"), cluster, tmp_path / "cache-old")

        def helm(*arguments: str) -> str:
            command = [
                tool("helm"),
                "--kubeconfig",
                str(cluster.kubeconfig),
                "--namespace",
                space,
                *arguments,
            ]
            done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
            assert done.returncode == 0, done.stdout + done.stderr
            return done.stdout

        assert "STATUS: deployed" in helm(
            "upgrade", "-i", "--create-namespace", space, str(ROOT / "charts/gpu-driver")
        )
        daemons = (
            "get",
            "daemonset",
            f"{space}-kubeletplugin",
            "-n",
            space,
            "-o",
            "jsonpath={.status.numberReady}",
        )
        wait_for_sync("three ready pods of the DaemonSet", lambda: kubectl(*daemons) == "3")
        wait_for_sync(
            "three ResourceSlices", lambda: len(kubectl("get", "resourceslices", "-o", "name").split()) == 3
        )
        shown = [line.split() for line in kubectl_old("get", "all", "-n", space).splitlines()]
        pods = [line for line in shown if line and line[0].startswith(f"pod/{space}-kubeletplugin-")]
        assert [line[1:3] for line in pods] == [["1/1", "Running"]] * 3
        assert [
            line[1:4] for line in shown if line and line[0] == f"daemonset.apps/{space}-kubeletplugin"
        ] == [["3", "3", "3"]]
        assert "gpu.example.com" in kubectl("get", "deviceclasses")
        slices = [line.split()[:4] for line in kubectl("get", "resourceslice").splitlines()[1:]]
        assert [line[1:] for line in slices] == [
            [f"node-{i}", "gpu.example.com", f"node-{i}"] for i in (1, 2, 3)
        ]
        assert all(line[0].startswith(f"{line[1]}-gpu.example.com-") for line in slices)
        kubectl("apply", "-f", str(HANDS_ON / "example_resourceclaimtemplate.yaml"))
        kubectl("apply", "-f", str(HANDS_ON / "example_claim_po.yaml"))
        (name,) = [p["metadata"]["name"] for p in json.loads(kubectl("get", "pods", "-o", "json"))["items"]]
        wait_for_sync(f"pod {name} to run", lambda: phase(kubectl, name) == "Running")
        control_plane = kubectl(
            "get", "po", "-n", "kube-system", "-l", "tier=control-plane", "-o", "name"
        ).split()
        assert [p.rpartition("-node-1")[0] for p in control_plane] == [
            "pod/kube-apiserver", "pod/kube-controller-manager", "pod/kube-scheduler",
        ]  # fmt: skip
        kubectl("delete", "pod", name)
        helm("uninstall", space)
        wait_for_sync(
            f"all pods of {space} to go", lambda: not kubectl("get", "pods", "-n", space, "-o", "name")
        )
        if not release:
            wait_for_sync(
                "all ResourceSlices to go", lambda: not kubectl("get", "resourceslices", "-o", "name")
            )
            return
        # In that release they stay for ever, and the notes say what to type.
        said = kubectl("delete", "resourceslice", "--field-selector", "spec.driver=gpu.example.com")
        assert said.count("deleted") == 3
        assert not kubectl("get", "resourceslices", "-o", "name")


def _commands(said: str) -> dict[str, list[str]]:
    """The kubectl commands of the demo, each with the lines under it."""
    found: dict[str, list[str]] = {}
    for block in said.split("\n\n"):
        _, command, *lines = block.splitlines() or ("", "")
        found[command.removeprefix("  $ kubectl ")] = [line.removeprefix("  ") for line in lines]
    return found


def test_the_demo_and_the_check_of_a_driver_run_on_the_cluster(
    tmp_path: Path, tool: Callable[[str], str]
) -> None:
    from tests.support.process import DRAY

    with dray_process(tmp_path / "c", "up", "--nodes", "1") as cluster:

        def dray(*arguments: str) -> str:
            command = [DRAY, *arguments, "--kubeconfig", str(cluster.kubeconfig)]
            done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
            assert done.returncode == 0, done.stdout + done.stderr
            return done.stdout

        shown = _commands(dray("demo"))
        assert any("GPU_DEVICE_0=" in line for line in shown["logs demo"])
        kubectl = Kubectl(tool("kubectl-1.36"), cluster, cluster.data / "cache")
        for command in ("get resourceslices", "get deviceclasses"):
            printed = kubectl(*command.split()).splitlines()
            # The ages may differ by the time between the two.
            assert [line.split()[:-1] for line in shown[command]] == [line.split()[:-1] for line in printed]
            assert shown[command][0] == printed[0]
        assert shown["delete pod demo"] == ['pod "demo" deleted from default namespace']
        place = cluster.data / "nodes" / "node-1"
        registry = str(place / "kubelet" / "plugins_registry")
        said = dray(
            "driver", "verify", "--registry", registry, "--node", "node-1", "--cdi", str(place / "cdi")
        )
        assert "gpu.example.com" in said and " 0 failed" in said
        assert "8 free" in dray("devices")
        unread = subprocess.run(
            f"{DRAY} demo --kubeconfig {cluster.kubeconfig} | head -1",
            shell=True, capture_output=True, text=True, timeout=120, check=False,
        )  # fmt: skip
        assert unread.stdout.strip() and not unread.stderr, unread.stderr
        assert not kubectl.get("pods")["items"] and not kubectl.get("resourceclaimtemplates")["items"]

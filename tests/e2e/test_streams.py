"""Logs, commands, copies and forwarded ports with real kubectl: the oldest speaks SPDY, the newest WebSockets."""

from __future__ import annotations

import os
import subprocess
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support.kubectl import KUBECTLS, Kubectl
from tests.support.port_forward import port_forward
from tests.support.process import DRAY, DrayProcess, dray_process, free_port

POD = """
apiVersion: v1
kind: Pod
metadata: {{name: {name}}}
spec:
  terminationGracePeriodSeconds: 1
  nodeName: {node}
  containers:
  - name: web
    image: any
    command: [python3, -m, http.server, "{port}", --directory, /etc]
    readinessProbe: {{tcpSocket: {{port: {port}}}, periodSeconds: 1}}
  - name: reader
    image: any
    stdin: true
    command: [sh, -c, 'echo ready; while read line; do echo "got $line"; done']
"""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DrayProcess]:
    """A node inside the cluster's process, and one in a process of its own that knows a kubeconfig only."""
    folder = tmp_path_factory.mktemp("streams")
    with dray_process(folder / "c", "up", "--nodes", "1", "--drivers", "none") as server:
        line = [
            DRAY,
            "node",
            "--kubeconfig",
            str(server.kubeconfig),
            "--name",
            "elsewhere",
            "--port",
            str(free_port()),
        ]
        line += ["--root", str(folder / "kubelet")]
        with (folder / "node.log").open("wb") as log:
            process = subprocess.Popen(line, stdout=log, stderr=subprocess.STDOUT)
        try:
            yield server
        finally:
            process.terminate()
            process.wait(20)


@pytest.fixture(params=["node-1", "elsewhere"])
def node(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(params=KUBECTLS)
def kubectl(
    request: pytest.FixtureRequest,
    tool: Callable[[str], str],
    cluster: DrayProcess,
    tmp_path_factory: pytest.TempPathFactory,
) -> Kubectl:
    cache = tmp_path_factory.getbasetemp() / f"streams-{request.param}"
    return Kubectl(tool(request.param), cluster, cache)


@pytest.fixture
def pod(kubectl: Kubectl, node: str) -> Iterator[tuple[str, int]]:
    port = free_port()
    name = f"w-{node}-{port}"
    kubectl("apply", "-f", "-", stdin=POD.format(name=name, node=node, port=port))
    kubectl("wait", "--for=condition=Ready", f"pod/{name}", "--timeout=30s")
    yield name, port
    kubectl("delete", "pod", name, "--wait=false")


def test_commands_have_input_output_and_exit_codes(kubectl: Kubectl, pod: tuple[str, int]) -> None:
    name, _ = pod
    inside = ("exec", name, "-c", "web")
    assert kubectl(*inside, "--", "echo", "hello") == "hello\n"
    assert kubectl(*inside, "-i", "--", "cat", stdin="to the end") == "to the end"
    assert kubectl(*inside, "--", "sh", "-c", "echo oops >&2; exit 7", code=7, merged=True).startswith(
        "oops\n"
    )
    said = kubectl(*inside, "--", "no-such-command", code=None, merged=True)
    assert 'exec: "no-such-command": executable file not found in $PATH' in said


def test_files_are_copied_in_and_out(kubectl: Kubectl, pod: tuple[str, int], tmp_path: Path) -> None:
    name, _ = pod
    there, back = tmp_path / "there", tmp_path / "back"
    there.write_bytes(os.urandom(3_000_000))
    kubectl("cp", str(there), f"{name}:/tmp/copied", "-c", "web")
    kubectl("cp", f"{name}:/tmp/copied", str(back), "-c", "web")
    assert back.read_bytes() == there.read_bytes()


@pytest.mark.parametrize("version", KUBECTLS)
def test_what_is_typed_to_an_attached_container_arrives(
    tool: Callable[[str], str], cluster: DrayProcess, version: str, node: str, tmp_path: Path
) -> None:
    kubectl, port = Kubectl(tool(version), cluster, tmp_path / "cache"), free_port()
    name = f"a-{node}-{port}"
    kubectl("apply", "-f", "-", stdin=POD.format(name=name, node=node, port=port))
    kubectl("wait", "--for=condition=Ready", f"pod/{name}", "--timeout=30s")
    attached = subprocess.Popen(
        [tool(version), "--kubeconfig", str(cluster.kubeconfig), "attach", "-i", name, "-c", "reader"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, bufsize=1,
    )  # fmt: skip
    try:
        assert attached.stdin is not None and attached.stdout is not None
        attached.stdin.write("a\n")
        assert attached.stdout.readline() == "got a\n"
    finally:
        attached.kill()
        attached.wait()
    assert kubectl("logs", name, "-c", "reader", "--tail=1") == "got a\n"


@pytest.mark.parametrize("version", KUBECTLS)
def test_ports_are_forwarded(
    tool: Callable[[str], str], cluster: DrayProcess, version: str, node: str, tmp_path: Path
) -> None:
    kubectl, port = Kubectl(tool(version), cluster, tmp_path / "cache"), free_port()
    name = f"p-{node}-{port}"
    kubectl("apply", "-f", "-", stdin=POD.format(name=name, node=node, port=port))
    kubectl("wait", "--for=condition=Ready", f"pod/{name}", "--timeout=30s")
    with port_forward(tool(version), cluster, name, port) as local:
        for _ in range(3):  # each is a connection of its own
            with urllib.request.urlopen(f"http://127.0.0.1:{local}/hostname", timeout=10) as answer:
                assert answer.read().strip()

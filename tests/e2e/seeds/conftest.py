"""A cluster for each release that a seed is about, and what every seed's tests look at."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc
import pytest

from dray.kubelet_api.services import POD_RESOURCES, stub
from dray.wire.unix import SocketPath
from tests.support.kubectl import Kubectl
from tests.support.paths import DRAY, SEEDS
from tests.support.process import dray_process
from tests.support.wait import wait_for_sync


@dataclass(frozen=True)
class Cluster:
    kubectl: Kubectl

    @property
    def data(self) -> Path:
        return self.kubectl.server.data

    def apply(
        self, path: str, *, changes: tuple[tuple[str, str], ...] = (), namespace: str = "default"
    ) -> str:
        """The manifests of a seed, with some words replaced."""
        text = (SEEDS / path).read_text()
        for old, new in changes:
            text = text.replace(old, new)
        return self.kubectl("apply", "-n", namespace, "-f", "-", stdin=text)

    def ready(self, pod: str) -> dict[str, Any]:
        self.kubectl("wait", "--for=condition=Ready", f"pod/{pod}", "--timeout=40s")
        found: dict[str, Any] = self.kubectl.get("pod", pod)
        return found

    def warnings(self, pod: str) -> str:
        found = self.kubectl.get("events", "--field-selector", f"involvedObject.name={pod},type=Warning")
        return " ".join(f"{e['reason']}: {e['message']}" for e in found["items"])

    def wait_for_warning(self, pod: str, words: str) -> None:
        wait_for_sync(f"a warning of {pod} with {words!r}", lambda: words in self.warnings(pod))

    @contextmanager
    def beside(self, *command: str) -> Iterator[None]:
        """Another part of the cluster, as a process of its own."""
        with (self.data / "beside.log").open("ab") as log:
            process = subprocess.Popen(
                [DRAY, *command, "--kubeconfig", str(self.kubectl.server.kubeconfig)],
                stdout=log,
                stderr=subprocess.STDOUT,
            )
        try:
            yield
        finally:
            process.terminate()
            process.wait(30)

    def gone(self, kind: str) -> None:
        wait_for_sync(f"all {kind} to go", lambda: not self.kubectl.get(kind)["items"])

    def dynamic_resources(self) -> set[tuple[str, str, str]]:
        """Pod, container and claim of all dynamic resources, as the nodes' gRPC service has them."""
        found = set()
        for path in self.data.glob("nodes/*/kubelet/pod-resources/kubelet.sock"):
            with SocketPath(path) as address, grpc.insecure_channel(address.grpc) as channel:
                answer = stub(POD_RESOURCES, channel).List(POD_RESOURCES.module.ListPodResourcesRequest())
            for pod in answer.pod_resources:
                for container in pod.containers:
                    for claim in container.dynamic_resources:
                        found.add((pod.name, container.name, claim.claim_name))
        return found


@pytest.fixture(scope="module")
def start(
    tool: Callable[[str], str], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Callable[..., Cluster]]:
    """Starts a cluster of two nodes that is there for the module."""
    with ExitStack() as stack:

        def started(*flags: str) -> Cluster:
            base = tmp_path_factory.mktemp("seed")
            process = stack.enter_context(dray_process(base / "c", "up", "--nodes", "2", *flags))
            return Cluster(Kubectl(tool("kubectl-1.36"), process, base / "cache"))

        yield started


def documents(*objects: dict[str, Any]) -> str:
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": list(objects)})

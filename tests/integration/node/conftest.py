"""A real API server in a process of its own, and nodes and drivers beside it."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from dray.wire.unix import SocketPath

HERE = Path(__file__).parent


class Program:
    """A process that says ``ready`` when it is."""

    def __init__(self, *arguments: str, log: Path, faults: str = "") -> None:
        environment = {**os.environ, "DRAY_FAULTS": faults}
        self._log = log
        self.process = subprocess.Popen(
            [sys.executable, *arguments], stdout=subprocess.PIPE, stderr=log.open("ab"), env=environment
        )

    def wait_ready(self, word: bytes = b"ready") -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if word in line:
                return
        if self.process.wait(10) != -signal.SIGKILL:
            raise AssertionError(self._log.read_text()[-4000:])

    def wait_killed(self) -> None:
        assert self.process.wait(30) == -signal.SIGKILL

    def stop(self) -> None:
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(20)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        if self.process.stdout:
            self.process.stdout.close()


class Server:
    """dray's API server, spoken to with the administrator's token over plain requests."""

    def __init__(self, directory: Path, *options: str) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self.kubeconfig = directory / "kubeconfig"
        self._program = Program(
            *(
                "-c",
                "from dray.cli import main; main()",
                "server",
                "--listen",
                f"127.0.0.1:{self.port}",
                "--data",
                str(directory),
            ),
            *("--store", "memory", "--admin-token", "token", "--kubeconfig", str(self.kubeconfig)),
            *("--disable-admission-plugins", "ServiceAccount", *options),
            log=directory.parent / "server.log",
        )
        self._program.wait_ready()
        self._context = __import__("ssl")._create_unverified_context()

    def stop(self) -> None:
        self._program.stop()

    def request(self, method: str, path: str, body: Any = None, kind: str = "application/json") -> Any:
        import urllib.error
        import urllib.request

        request = urllib.request.Request(f"https://127.0.0.1:{self.port}{path}", method=method)
        request.add_header("Authorization", "Bearer token")
        data = None
        if body is not None:
            data = json.dumps(body).encode()
            request.add_header("Content-Type", kind)
        try:
            with urllib.request.urlopen(request, data, context=self._context) as answer:
                return json.load(answer)
        except urllib.error.HTTPError as e:
            if e.code == 404:
                return None
            raise AssertionError(e.read().decode()) from e

    def patch(self, path: str, body: Any) -> Any:
        return self.request("PATCH", path, body, "application/merge-patch+json")


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    started = Server(tmp_path_factory.mktemp("server") / "data")
    yield started
    started.stop()


@pytest.fixture(scope="session")
def start_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], tuple[Server, Path]]]:
    """Starts an API server and, in another process, everything else of a cluster with the drivers of a profile."""
    with contextlib.ExitStack() as stack:

        def start(profile: str) -> tuple[Server, Path]:
            directory = tmp_path_factory.mktemp(profile)
            server = Server(directory / "data")
            stack.callback(server.stop)
            program = Program(
                *(
                    str(HERE / "programs.py"),
                    "cluster",
                    str(server.kubeconfig),
                    str(directory),
                    "las",
                    profile,
                ),
                log=directory / "cluster.log",
            )
            stack.callback(program.stop)
            program.wait_ready()
            return server, directory

        yield start


def end_containers(supervisor: Path) -> None:
    """Containers outlive agents; tests that are over need not wait for them to notice."""
    with (
        contextlib.suppress(OSError),
        socket.socket(socket.AF_UNIX) as connection,
        SocketPath(supervisor) as path,
    ):
        connection.connect(path.short)
        connection.sendall(b'{"request": 1, "do": "shutdown"}\n')
        connection.recv(1024)


CLAIMS = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims"


class NodeWorld:
    """One node in a directory: its agent, its driver, its pods."""

    def __init__(self, server: Server, directory: Path, name: str, *, runtime: str = "process") -> None:
        self.server = server
        self.directory = directory
        self.name = name
        self.runtime = runtime
        self._programs: list[Program] = []
        self._claims: list[str] = []

    def start(self, what: str, *, faults: str = "") -> Program:
        program = Program(
            *(str(HERE / "programs.py"), what, str(self.server.kubeconfig), str(self.directory), self.name),
            self.runtime,
            log=self.directory / f"{what}.log",
            faults=faults,
        )
        self._programs.append(program)
        program.wait_ready()
        return program

    def stop(self) -> None:
        for program in self._programs:
            program.stop()
        end_containers(self.directory / "runtime" / "supervisor.sock")
        for claim in self._claims:  # the next test has devices of the same names
            self.server.patch(
                f"{CLAIMS}/{claim}/status", {"status": {"allocation": None, "reservedFor": None}}
            )
            self.server.request("DELETE", f"{CLAIMS}/{claim}")

    def pod_with_claim(
        self, name: str, *devices: str, pod: Mapping[str, Any] | None = None, **container: Any
    ) -> None:
        """A claim that is allocated to and reserved for a pod, which is then bound to this node."""
        self._claims.append(name)
        requests = [{"name": "r", "exactly": {"deviceClassName": "any", "count": len(devices)}}]
        self.server.request(
            "POST", CLAIMS, {"metadata": {"name": name}, "spec": {"devices": {"requests": requests}}}
        )
        made = self.server.request(
            "POST",
            "/api/v1/namespaces/default/pods",
            {
                "metadata": {"name": name},
                "spec": {
                    "schedulerName": "the test",
                    "terminationGracePeriodSeconds": 2,
                    "containers": [
                        {
                            "name": "main",
                            "image": "busybox",
                            "command": ["sh", "-c", "echo got $DEVICE; sleep 1000"],
                            "resources": {"claims": [{"name": "c"}]},
                            **container,
                        }
                    ],
                    "resourceClaims": [{"name": "c", "resourceClaimName": name}],
                    **(pod or {}),
                },
            },
        )
        results = [
            {"request": "r", "driver": "hardware.example.com", "pool": self.name, "device": d}
            for d in devices
        ]
        status = {
            "allocation": {"devices": {"results": results}},
            "reservedFor": [{"resource": "pods", "name": name, "uid": made["metadata"]["uid"]}],
        }
        self.server.patch(f"{CLAIMS}/{name}/status", {"status": status})
        target = {"apiVersion": "v1", "kind": "Node", "name": self.name}
        binding = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": name}, "target": target}
        self.server.request("POST", f"/api/v1/namespaces/default/pods/{name}/binding", binding)

    def pod(self, name: str) -> Any:
        return self.server.request("GET", f"/api/v1/namespaces/default/pods/{name}")

    def phase(self, name: str) -> str:
        found = self.pod(name)
        return str((found or {}).get("status", {}).get("phase", "gone"))

    def delete(self, name: str) -> None:
        self.server.request("DELETE", f"/api/v1/namespaces/default/pods/{name}")

    @property
    def journal(self) -> list[str]:
        path = self.directory / "hardware" / "journal"
        return path.read_text().splitlines() if path.exists() else []

    @property
    def in_use(self) -> list[str]:
        return sorted(p.name for p in (self.directory / "hardware").glob("dev-*"))

    @property
    def specs(self) -> list[str]:
        return sorted(p.name for p in (self.directory / "cdi").glob("*.json") if "_common" not in p.name)

    @property
    def checkpointed(self) -> list[Any]:
        outer = json.loads((self.directory / "kubelet" / "dra_manager_state").read_text())
        claims: list[Any] = json.loads(outer["Data"])["ClaimInfoStateList"]
        return claims


@pytest.fixture
def make_node(server: Server, tmp_path: Path) -> Iterator[Callable[..., NodeWorld]]:
    with contextlib.ExitStack() as stack:

        def make(name: str, *, short: bool = False, **options: Any) -> NodeWorld:
            """``short``: for programs that, unlike ours, cannot work with long socket paths."""
            root = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="d"))) if short else tmp_path
            directory = root / name
            directory.mkdir()
            world = NodeWorld(server, directory, name, **options)
            stack.callback(world.stop)
            return world

        yield make

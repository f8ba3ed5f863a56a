"""A node whose agent and driver are processes of their own, which tests can kill, beside a real API server."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from dray.wire.unix import SocketPath
from tests.support.process import DrayProcess

API_SERVER = ("server", "--store", "memory", "--disable-admission-plugins", "ServiceAccount")
NODE_PROGRAM = ("-m", "tests.support.node_programs")


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


class NodeUnderTest:
    """One node in a directory: its agent, its driver, its pods."""

    def __init__(self, server: DrayProcess, directory: Path, name: str, *, runtime: str = "process") -> None:
        self.server = server
        self.directory = directory
        self.name = name
        self.runtime = runtime
        self._programs: list[Program] = []
        self._claims: list[str] = []

    def start(self, what: str, *, faults: str = "") -> Program:
        program = Program(
            *(*NODE_PROGRAM, what, str(self.server.kubeconfig), str(self.directory), self.name, self.runtime),
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

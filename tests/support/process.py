"""A dray of its own for a test: started as a user starts it, stopped by its pid."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import ssl
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.support.paths import DRAY


@dataclass(frozen=True)
class DrayProcess:
    """A running dray: where it listens, how to reach it, where it keeps its data."""

    url: str
    kubeconfig: Path
    data: Path
    token: str
    process: subprocess.Popen[bytes]

    def get(self, path: str) -> Any:
        request = urllib.request.Request(self.url + path, headers={"Authorization": f"Bearer {self.token}"})
        with urllib.request.urlopen(request, context=ssl._create_unverified_context(), timeout=10) as answer:
            return json.loads(answer.read())

    @property
    def log(self) -> str:
        return (self.data / "test.log").read_text()


def free_port() -> int:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return int(s.getsockname()[1])


@contextlib.contextmanager
def dray_process(data: Path, *command: str, token: str = "e2e-token") -> Iterator[DrayProcess]:
    data.mkdir(parents=True, exist_ok=True)
    url, kubeconfig = f"https://127.0.0.1:{free_port()}", data / "kubeconfig"
    line = [
        DRAY, *command, "--listen", url.removeprefix("https://"), "--data", str(data), "--admin-token", token,
        "--kubeconfig", str(kubeconfig),
    ]  # fmt: skip
    with (data / "test.log").open("ab") as log:
        process = subprocess.Popen(
            line, stdout=log, stderr=subprocess.STDOUT, env={**os.environ, "NO_COLOR": "1"}
        )
    try:
        server = DrayProcess(url, kubeconfig, data, token, process)
        wait_ready(server)
        if command[0] == "up":
            wait_for_log(
                server, "The cluster is ready"
            )  # the API server answers before nodes and devices are there
        yield server
    finally:
        if process.poll() is None:
            process.terminate()
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def wait_ready(server: DrayProcess, *, seconds: float = 30) -> None:
    deadline = time.monotonic() + seconds
    request = urllib.request.Request(
        f"{server.url}/readyz", headers={"Authorization": f"Bearer {server.token}"}
    )
    while time.monotonic() < deadline and server.process.poll() is None:
        with (
            contextlib.suppress(OSError),
            urllib.request.urlopen(request, context=ssl._create_unverified_context(), timeout=2),
        ):
            return
        time.sleep(0.02)
    raise AssertionError(f"dray did not become ready:\n{server.log[-4000:]}")


def wait_for_log(server: DrayProcess, words: str, *, seconds: float = 30) -> None:
    deadline = time.monotonic() + seconds
    while words not in server.log:
        assert time.monotonic() < deadline and server.process.poll() is None, server.log[-4000:]
        time.sleep(0.02)

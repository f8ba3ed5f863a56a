"""A dray of its own for a test: started as a user starts it, stopped by its pid."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import ssl
import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.support.paths import DRAY
from tests.support.wait import wait_for_sync

_UNVERIFIED = ssl._create_unverified_context()


@dataclass(frozen=True)
class DrayProcess:
    """A running dray: where it listens, how to reach it, where it keeps its data."""

    url: str
    kubeconfig: Path
    data: Path
    token: str
    process: subprocess.Popen[bytes]

    def request(self, method: str, path: str, body: Any = None, kind: str = "application/json") -> Any:
        """What the API server answers to its administrator; nothing where there is nothing."""
        request = urllib.request.Request(self.url + path, method=method)
        request.add_header("Authorization", f"Bearer {self.token}")
        if body is not None:
            request.data = json.dumps(body).encode()
            request.add_header("Content-Type", kind)
        try:
            with urllib.request.urlopen(request, context=_UNVERIFIED, timeout=10) as answer:
                return json.load(answer)
        except urllib.error.HTTPError as e:
            if e.code == 404:
                return None
            raise AssertionError(e.read().decode()) from e

    def get(self, path: str) -> Any:
        return self.request("GET", path)

    def patch(self, path: str, body: Any) -> Any:
        return self.request("PATCH", path, body, "application/merge-patch+json")

    @property
    def log(self) -> str:
        return (self.data / "test.log").read_text()


def free_port() -> int:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return int(s.getsockname()[1])


@contextlib.contextmanager
def dray_process(
    data: Path, *command: str, token: str = "e2e-token", descriptors: int = 0
) -> Iterator[DrayProcess]:
    """``descriptors``: how many the process may have, if that is bounded."""
    data.mkdir(parents=True, exist_ok=True)
    url, kubeconfig = f"https://127.0.0.1:{free_port()}", data / "kubeconfig"
    line = [
        DRAY, *command, "--listen", url.removeprefix("https://"), "--data", str(data), "--admin-token", token,
        "--kubeconfig", str(kubeconfig),
    ]  # fmt: skip
    with (data / "test.log").open("ab") as log:
        if descriptors:
            line = ["prlimit", f"--nofile={descriptors}:{descriptors}", *line]
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
    def running() -> bool:
        return server.process.poll() is None

    wait_for_sync(
        "the API server to be ready", lambda: is_ready(server.url, server.token),
        seconds=seconds, log=lambda: server.log, alive=running,
    )  # fmt: skip


def is_ready(url: str, token: str = "") -> bool:
    request = urllib.request.Request(
        f"{url}/readyz", headers={"Authorization": f"Bearer {token}"} if token else {}
    )
    with contextlib.suppress(OSError), urllib.request.urlopen(request, context=_UNVERIFIED, timeout=2):
        return True
    return False


def wait_for_log(server: DrayProcess, words: str, *, seconds: float = 30) -> None:
    wait_for_sync(
        f"{words!r} in the log", lambda: words in server.log,
        seconds=seconds, log=lambda: server.log, alive=lambda: server.process.poll() is None,
    )  # fmt: skip

"""A real etcd."""

from __future__ import annotations

import contextlib
import socket
import subprocess
from collections.abc import Sequence
from pathlib import Path

from dray.app.pki import Pki
from tests.support.wait import wait_for_sync


class Etcd:
    """A real etcd member on loopback with a data directory of its own."""

    def __init__(
        self,
        binary: str,
        directory: Path,
        *,
        name: str = "only",
        tls: Pki | None = None,
        options: Sequence[str] = (),
    ) -> None:
        """``tls``: where its serving certificate is; clients then need one of the same authority."""
        self.name = name
        self._options = list(options)
        self._scheme = "http"
        if tls is not None:
            self._scheme = "https"
            serving = tls.leaf("apiserver")
            self._options += [
                f"--cert-file={serving.certificate}",
                f"--key-file={serving.key}",
                f"--trusted-ca-file={tls.ca}",
                "--client-cert-auth",
            ]
        self._binary = binary
        self._directory = directory
        self._port, peer_port = _free_ports(2)
        self.peer = f"http://127.0.0.1:{peer_port}"
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def endpoint(self) -> str:
        return f"127.0.0.1:{self._port}"

    def launch(self, *others: Etcd) -> None:
        client = f"{self._scheme}://{self.endpoint}"
        with (self._directory / f"{self.name}.log").open("ab") as log:
            self._process = subprocess.Popen(
                [
                    self._binary,
                    f"--name={self.name}",
                    f"--data-dir={self._directory / self.name}",
                    f"--listen-client-urls={client}",
                    f"--advertise-client-urls={client}",
                    f"--listen-peer-urls={self.peer}",
                    f"--initial-advertise-peer-urls={self.peer}",
                    f"--initial-cluster={','.join(f'{each.name}={each.peer}' for each in (self, *others))}",
                    "--heartbeat-interval=20",
                    "--election-timeout=200",
                    *self._options,
                ],
                stdout=subprocess.DEVNULL,
                stderr=log,
            )

    def wait(self) -> None:
        """Until it answers clients."""
        log = self._directory / f"{self.name}.log"
        wait_for_sync(f"etcd {self.name} to listen", self._listens, log=log.read_text)

    def _listens(self) -> bool:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self._port), timeout=1):
            return True
        return False

    def start(self) -> None:
        self.launch()
        self.wait()

    def stop(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None


def _free_ports(count: int) -> list[int]:
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]

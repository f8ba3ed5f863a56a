"""kubectl port-forward, and a server to forward to."""

from __future__ import annotations

import contextlib
import http.server
import subprocess
import threading
from collections.abc import Iterator

from tests.support.process import DrayProcess, free_port


@contextlib.contextmanager
def hello_server() -> Iterator[int]:
    """Something that says hello on the host's network, which the pods of these tests are on."""

    class Hello(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b"hello")

        def log_message(self, format: str, *args: object) -> None: ...

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Hello) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server.server_port
        server.shutdown()


@contextlib.contextmanager
def port_forward(binary: str, cluster: DrayProcess, name: str, port: int) -> Iterator[int]:
    local = free_port()
    process = subprocess.Popen(
        [binary, "--kubeconfig", str(cluster.kubeconfig), "port-forward", name, f"{local}:{port}"],
        stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        assert process.stdout is not None
        assert "Forwarding from" in process.stdout.readline()
        yield local
    finally:
        process.terminate()
        process.wait(10)

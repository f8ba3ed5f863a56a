"""etcd's stand-in: envtest waits until etcd is healthy. dray keeps the data itself, so that is all there is to do."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Final
from urllib.parse import urlsplit

from dray.envtest import flags

#: What envtest passes. dray keeps the data itself, so only the address means something here.
_KNOWN: Final = {
    "advertise-client-urls": "accepted, without meaning here",
    "data-dir": "accepted, without meaning here",
    "listen-client-urls": "where health checks are answered",
    "listen-peer-urls": "accepted, without meaning here",
    "unsafe-no-fsync": "accepted, without meaning here",
}
_ANSWERS: Final = {
    "/health": b'{"health":"true","reason":""}',
    "/version": b'{"etcdserver":"3.6.0","etcdcluster":"3.6.0"}',
}


class _Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        answer = _ANSWERS.get(self.path)
        self.send_response(404 if answer is None else 200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(answer or b"")))
        self.end_headers()
        self.wfile.write(answer or b"")

    def log_message(self, format: str, *args: object) -> None:
        """Nobody wants to read this."""


def usage() -> str:
    return flags.usage("etcd", "dray in the place of etcd: it answers health checks.", _KNOWN)


def run(arguments: Sequence[str]) -> int:
    """Answer health checks until a signal ends it."""
    given = flags.parse(arguments)
    urls = [
        url
        for value in given.get("listen-client-urls", ["http://127.0.0.1:2379"])
        for url in value.split(",")
    ]
    address = urlsplit(urls[0])
    try:
        server = ThreadingHTTPServer((address.hostname or "127.0.0.1", address.port or 2379), _Handler)
    except OSError as problem:
        print(f"dray as etcd: cannot listen on {urls[0]}: {problem.strerror}", file=sys.stderr)
        return 1
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: threading.Thread(target=server.shutdown).start())
    print(
        "dray as etcd: ready to serve client requests; dray keeps the data itself",
        file=sys.stderr,
        flush=True,
    )
    server.serve_forever(poll_interval=0.05)
    server.server_close()
    return 0

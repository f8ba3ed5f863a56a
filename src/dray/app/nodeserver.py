"""The HTTPS endpoint of ``dray node``, by which API servers reach its containers: a port, a certificate, who may call."""

from __future__ import annotations

import errno
import socket
import ssl
from dataclasses import replace
from pathlib import Path
from urllib.parse import urlsplit

from dray.app import pki
from dray.node.run import Options
from dray.node.server.endpoint import Listener
from dray.wire.http_server import listening_socket

#: Where every kubelet listens.
KUBELET_PORT = 10250


def node_ip(server: str) -> str:
    """The address of this machine that an API server can call back: the one that the way there begins with."""
    parts = urlsplit(server)
    default = 443 if parts.scheme == "https" else 80
    try:
        family, kind, _, _, target = socket.getaddrinfo(
            parts.hostname, parts.port or default, type=socket.SOCK_DGRAM
        )[0]
        with socket.socket(family, kind) as probe:
            probe.connect(target)  # sends nothing
            return str(probe.getsockname()[0])
    except OSError:
        return "127.0.0.1"


def listen(address: str, port: int | None) -> socket.socket:
    """A port to listen on; where none was asked for, the usual one, or any if somebody else has that."""
    try:
        return listening_socket(address, KUBELET_PORT if port is None else port)
    except OSError as e:
        if port is not None or e.errno != errno.EADDRINUSE:
            raise
        return listening_socket(address, 0)


def with_endpoint(options: Options, *, folder: Path, client_ca: bytes, port: int | None) -> Options:
    """The same node, with an endpoint. Its certificate is kept in ``folder``."""
    (node,) = options.nodes
    listener = listen(node.address, port)
    context = server_tls(folder, name=node.name, address=node.address, client_ca=client_ca)
    return replace(
        options,
        nodes=[replace(node, port=listener.getsockname()[1])],
        endpoint=Listener(listener, context),
    )


def server_tls(folder: Path, *, name: str, address: str, client_ca: bytes) -> ssl.SSLContext:
    """TLS that asks callers for a certificate which the cluster's authority has signed."""
    leaf = pki.self_signed(folder, "kubelet", [name, address])
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    made.minimum_version = ssl.TLSVersion.TLSv1_2
    made.load_cert_chain(leaf.certificate, leaf.key)
    made.load_verify_locations(cadata=client_ca.decode())
    made.verify_mode = ssl.CERT_REQUIRED
    return made

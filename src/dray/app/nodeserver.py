"""The HTTPS endpoint of ``dray node``, by which API servers reach its containers: a port, a certificate, who may call."""

from __future__ import annotations

import errno
import socket
import ssl
from dataclasses import replace
from pathlib import Path
from urllib.parse import urlsplit

from dray.api.release import SettingError
from dray.app import pki
from dray.node.options import NodeOptions, machine_address
from dray.node.run import Options
from dray.node.server.endpoint import Listener
from dray.wire.http_server import listening_socket

#: Where every kubelet listens.
KUBELET_PORT = 10250


def host_and_port(server: str) -> tuple[str, int]:
    """Where the API server of this URL is."""
    parts = urlsplit(server)
    return parts.hostname or "", parts.port or (443 if parts.scheme == "https" else 80)


def service_variables(server: str) -> dict[str, str]:
    """The variables by which programs find the API server of this URL."""
    host, port = host_and_port(server)
    return {"KUBERNETES_SERVICE_HOST": host, "KUBERNETES_SERVICE_PORT": str(port)}


def node_ip(server: str) -> str:
    """The address of this machine that an API server can call back: the one that the way there begins with."""
    try:
        family, kind, _, _, target = socket.getaddrinfo(*host_and_port(server), type=socket.SOCK_DGRAM)[0]
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

    def opened(node: NodeOptions) -> Listener:
        try:
            listener = listen(node.address, port)
        except OSError as problem:
            raise SettingError(f"--port: {problem}") from None
        context = server_tls(folder, name=node.name, address=node.address, client_ca=client_ca)
        return Listener(listener, context)

    return replace(options, endpoint=opened)


def cluster_endpoint(keys: pki.Pki, node: NodeOptions, *, runtime: str) -> Listener | None:
    """The endpoint of a node of ``dray up``, with a certificate of the cluster's authority.

    Containers of a CRI runtime, and who monitors them, expect a kubelet's port on the node's address. Programs of the
    host's own network do not: where they have no bridge, the API server beside them is all that asks.
    """
    if not runtime.startswith("cri:") and node.address in ("127.0.0.1", machine_address()):
        return None
    listener = listen(node.address, None)
    leaf = pki.ensure_leaf(
        keys, f"kubelet-{node.name}", f"system:node:{node.name}", names=[node.name, node.address]
    )
    return Listener(listener, _tls(leaf, client_ca=keys.ca.read_bytes()))


def server_tls(folder: Path, *, name: str, address: str, client_ca: bytes) -> ssl.SSLContext:
    """TLS with a certificate of the node's own making."""
    return _tls(pki.self_signed(folder, "kubelet", [name, address]), client_ca=client_ca)


def _tls(leaf: pki.Leaf, *, client_ca: bytes) -> ssl.SSLContext:
    """TLS that takes certificates which the cluster's authority has signed. Callers without one have to have a token."""
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    made.minimum_version = ssl.TLSVersion.TLSv1_2
    made.load_cert_chain(leaf.certificate, leaf.key)
    made.load_verify_locations(cadata=client_ca.decode())
    made.verify_mode = ssl.CERT_OPTIONAL
    return made

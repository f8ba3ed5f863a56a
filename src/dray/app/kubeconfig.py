"""Kubeconfigs that dray writes: the administrator's, a node's, and that of ConfigMap cluster-info, which has no credentials."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Sequence
from pathlib import Path

from dray.app.pki import Pki, write_private
from dray.client.kubeconfig import SERVERS_EXTENSION

_CLUSTER = """\
apiVersion: v1
kind: Config
clusters:
- name: {name}
  cluster:
    server: {server}
    certificate-authority-data: {ca}
"""

_SERVERS = """\
    extensions:
    - name: {extension}
      extension:
        servers:{servers}
"""

_USER = """\
users:
- name: {user}
  user:
    client-certificate{certificate}
    client-key{key}
contexts:
- name: dray
  context:
    cluster: dray
    user: {user}
current-context: dray
"""


def write_admin(path: Path, pki: Pki, server: str, servers: Sequence[str] = ()) -> None:
    """The administrator's: everything embedded, readable by its owner only. ``servers``: all API servers of the cluster."""
    admin = pki.leaf("admin")
    text = _cluster("dray", server, pki.ca.read_bytes(), servers) + _USER.format(
        user="admin",
        certificate=f"-data: {_base64(admin.certificate.read_bytes())}",
        key=f"-data: {_base64(admin.key.read_bytes())}",
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    write_private(path, text.encode())


def write_node(
    path: Path, node: str, *, server: str, servers: Sequence[str] = (), ca: bytes, credentials: Path
) -> None:
    """A node's: its certificate and key are in a file beside it, where they are renewed."""
    beside = credentials.relative_to(path.parent)
    text = _cluster("dray", server, ca, servers) + _USER.format(
        user=f"system:node:{node}", certificate=f": {beside}", key=f": {beside}"
    )
    write_private(path, text.encode())


def for_cluster_info(server: str, ca: bytes, servers: Sequence[str] = ()) -> str:
    """Where a cluster is and by which authority it is known: no user, nothing secret."""
    return _cluster('""', server, ca, servers)


def _cluster(name: str, server: str, ca: bytes, servers: Sequence[str]) -> str:
    text = _CLUSTER.format(name=name, server=server, ca=_base64(ca))
    if servers:
        listed = "".join(f"\n        - {each}" for each in servers)
        text += _SERVERS.format(extension=SERVERS_EXTENSION, servers=listed)
    return text


def _base64(data: bytes) -> str:
    return b64encode(data).decode()

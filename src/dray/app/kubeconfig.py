"""The administrator's kubeconfig: everything embedded, readable by its owner only."""

from __future__ import annotations

from base64 import b64encode
from pathlib import Path

from dray.app.pki import Pki, write_private

_TEMPLATE = """\
apiVersion: v1
kind: Config
clusters:
- name: dray
  cluster:
    server: {server}
    certificate-authority-data: {ca}
users:
- name: admin
  user:
    client-certificate-data: {certificate}
    client-key-data: {key}
contexts:
- name: dray
  context:
    cluster: dray
    user: admin
current-context: dray
"""


def write(path: Path, pki: Pki, server: str) -> None:
    admin = pki.leaf("admin")
    text = _TEMPLATE.format(
        server=server, ca=_base64(pki.ca), certificate=_base64(admin.certificate), key=_base64(admin.key)
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    write_private(path, text.encode())


def _base64(path: Path) -> str:
    return b64encode(path.read_bytes()).decode()

"""The cluster's certificate authority and private files."""

from __future__ import annotations

import json
import ssl
import time
from pathlib import Path

from cryptography import x509

from dray.app import pki
from dray.app.pki import write_private


def test_private_files_are_private_from_the_first_byte(tmp_path: Path):
    path = tmp_path / "key"
    path.write_text("old")
    path.chmod(0o644)
    write_private(path, b"new")
    assert path.read_bytes() == b"new" and path.stat().st_mode & 0o777 == 0o600
    assert [p.name for p in tmp_path.iterdir()] == ["key"]


def subject(leaf: pki.Leaf) -> str:
    return x509.load_pem_x509_certificate(leaf.certificate.read_bytes()).subject.rfc4514_string()


def test_the_certificate_for_nodes_is_in_no_group_also_in_a_directory_of_an_older_release(tmp_path: Path):
    found = pki.ensure(tmp_path, [])
    assert subject(found.leaf(pki.KUBELET_CLIENT)) == "CN=kube-apiserver-kubelet-client"
    pki.sign(found, pki.KUBELET_CLIENT, "kube-apiserver-kubelet-client", groups=("system:masters",))
    note = tmp_path / f"{pki.KUBELET_CLIENT}.json"
    note.write_text(json.dumps({"names": [], "expires": int(time.time()) + 300 * 86400}))
    pki.ensure(tmp_path, [])
    assert subject(found.leaf(pki.KUBELET_CLIENT)) == "CN=kube-apiserver-kubelet-client"
    kept = found.leaf(pki.KUBELET_CLIENT).certificate.read_bytes()
    pki.ensure(tmp_path, [])
    assert found.leaf(pki.KUBELET_CLIENT).certificate.read_bytes() == kept


def test_a_nodes_own_certificate_is_kept_while_it_fits(tmp_path: Path) -> None:
    first = pki.self_signed(tmp_path, "kubelet", ["las1", "127.0.0.1"]).certificate.read_bytes()
    assert pki.self_signed(tmp_path, "kubelet", ["las1"]).certificate.read_bytes() == first
    assert pki.self_signed(tmp_path, "kubelet", ["las1", "192.0.2.7"]).certificate.read_bytes() != first


def test_tls_is_of_version_1_2_or_newer(tmp_path: Path):
    context = pki.ensure(tmp_path, []).context()
    assert context.minimum_version == ssl.TLSVersion.TLSv1_2
    assert context.verify_mode == ssl.CERT_OPTIONAL


def test_kube_apiserver_can_read_the_key_of_service_accounts():
    """It takes keys of a curve in SEC 1 alone."""
    assert pki.new_account_key().startswith(b"-----BEGIN EC PRIVATE KEY-----\n")

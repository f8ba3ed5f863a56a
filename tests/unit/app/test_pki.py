"""The cluster's certificate authority and private files."""

from __future__ import annotations

from pathlib import Path

from dray.app import pki
from dray.app.pki import write_private


def test_private_files_are_private_from_the_first_byte(tmp_path: Path):
    path = tmp_path / "key"
    path.write_text("old")
    path.chmod(0o644)
    write_private(path, b"new")
    assert path.read_bytes() == b"new" and path.stat().st_mode & 0o777 == 0o600
    assert [p.name for p in tmp_path.iterdir()] == ["key"]


def test_a_nodes_own_certificate_is_kept_while_it_fits(tmp_path: Path) -> None:
    first = pki.self_signed(tmp_path, "kubelet", ["las1", "127.0.0.1"]).certificate.read_bytes()
    assert pki.self_signed(tmp_path, "kubelet", ["las1"]).certificate.read_bytes() == first
    assert pki.self_signed(tmp_path, "kubelet", ["las1", "192.0.2.7"]).certificate.read_bytes() != first

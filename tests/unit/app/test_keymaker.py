import sys
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization

from dray.app import keymaker, pki


def test_keys_and_certificates_made_in_a_child_are_those_made_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(keymaker, "_is_loaded", lambda: False)
    with keymaker.in_child(tmp_path) as maker:
        assert isinstance(maker, keymaker.Child)
        made = pki.ensure(tmp_path, ["dray.example.com"], maker=maker)
        account_key = maker.new_account_key()
        process = maker._process
    assert process is not None and process.returncode == 0
    made.context()  # which fails unless key and certificate belong together
    serialization.load_pem_private_key(account_key, None)
    again = pki.ensure(tmp_path, ["dray.example.com"])
    assert again.leaf("admin").certificate.read_bytes() == made.leaf("admin").certificate.read_bytes()


def test_no_child_is_started_where_everything_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(keymaker, "_is_loaded", lambda: False)
    pki.ensure(tmp_path, [])
    with keymaker.in_child(tmp_path) as maker:
        assert isinstance(maker, keymaker.Child)
        pki.ensure(tmp_path, [], maker=maker)
        assert maker._process is None


def test_what_a_child_cannot_make_is_made_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keymaker, "_is_loaded", lambda: False)
    monkeypatch.setattr(sys, "executable", "/bin/false")
    with keymaker.in_child(tmp_path) as maker:
        assert isinstance(maker, keymaker.Child)
        pki.ensure(tmp_path, [], maker=maker).context()

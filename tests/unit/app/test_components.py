"""How the parts of a cluster are set up."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from dray.app import components


@pytest.mark.parametrize("emulated", [False, True])
def test_a_namespace_is_emptied_at_once_unless_a_release_is_emulated(tmp_path: Path, emulated: bool):
    pem = tmp_path / "pem"
    pem.write_text("PEM")
    api = SimpleNamespace(version=SimpleNamespace(emulated=emulated))
    server = SimpleNamespace(api=api, pki=SimpleNamespace(ca=pem, ca_key=pem))
    settings = components._controller_settings(SimpleNamespace(server=server))
    assert (settings["namespace-controller"]["grace_seconds"] > 0) is emulated

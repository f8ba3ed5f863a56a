"""How the parts of a cluster are set up."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from dray.api.release import EffectiveVersion
from dray.app import components
from dray.app.quirks import Quirks


@pytest.mark.parametrize("emulate", ["", "1.36"])
def test_a_namespace_is_emptied_at_once_unless_a_release_is_emulated(tmp_path: Path, emulate: str):
    pem = tmp_path / "pem"
    pem.write_text("PEM")
    (tmp_path / "sa.key").write_text("PEM")
    server = SimpleNamespace(pki=SimpleNamespace(ca=pem, ca_key=pem, folder=tmp_path))
    quirks = Quirks.of(EffectiveVersion.parse(emulate))
    settings = components._controller_settings(SimpleNamespace(server=server, quirks=quirks))
    assert (settings["namespace-controller"]["grace_seconds"] > 0) is bool(emulate)

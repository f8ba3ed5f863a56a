"""Which drivers a node takes in."""

from __future__ import annotations

from pathlib import Path

import pytest

from dray.api.release import EffectiveVersion
from dray.node.dra.plugin_manager import DRAPluginManager
from dray.node.metrics import Metrics
from dray.node.quirks import Quirks


@pytest.mark.parametrize("name", ["", "../..", "a/b", ".", "x" * 64, "a,spec.nodeName!=x"])
async def test_a_driver_must_have_a_name_that_the_api_accepts(name: str) -> None:
    version = EffectiveVersion.parse("")
    plugins = DRAPluginManager(metrics=Metrics(), quirks=Quirks.of(version, version.gates({})))
    with pytest.raises(ValueError, match="invalid DRA driver name"):
        plugins.add(name, Path("/run/x.sock"), ["v1.DRAPlugin"])
    assert plugins.drivers == []
    await plugins.close()

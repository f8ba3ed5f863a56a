"""Which drivers a node takes in."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from dray.api.release import EffectiveVersion
from dray.kubelet_api.services import Service
from dray.node.dra.plugin import DRAPlugin, HealthReport
from dray.node.dra.plugin_manager import DRAPluginManager
from dray.node.metrics import Metrics
from dray.node.quirks import Quirks
from tests.support.wait import wait_for


@pytest.mark.parametrize("name", ["", "../..", "a/b", ".", "x" * 64, "a,spec.nodeName!=x"])
async def test_a_driver_must_have_a_name_that_the_api_accepts(name: str) -> None:
    version = EffectiveVersion.parse("")
    plugins = DRAPluginManager(metrics=Metrics(), quirks=Quirks.of(version, version.gates({})))
    with pytest.raises(ValueError, match="invalid DRA driver name"):
        plugins.add(name, Path("/run/x.sock"), ["v1.DRAPlugin"])
    assert plugins.drivers == []
    await plugins.close()


@pytest.mark.parametrize(
    ("emulate", "announced", "followed"),
    [
        ("", ["v1alpha1.DRAResourceHealth", "v1.DRAResourceHealth"], "v1.DRAResourceHealth"),
        ("", ["v1alpha1.DRAResourceHealth"], "v1alpha1.DRAResourceHealth"),
        ("1.36", ["v1.DRAResourceHealth", "v1alpha1.DRAResourceHealth"], "v1alpha1.DRAResourceHealth"),
        ("1.36", ["v1.DRAResourceHealth"], None),
    ],
)
async def test_health_is_followed_by_the_newest_service_that_both_know(
    emulate: str, announced: list[str], followed: str | None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    asked: list[str] = []

    async def watch_health(plugin: DRAPlugin, service: Service) -> AsyncIterator[list[HealthReport]]:
        asked.append(service.announced)
        yield [HealthReport("pool", "device", "Healthy", "", 0)]
        await asyncio.Event().wait()

    monkeypatch.setattr(DRAPlugin, "watch_health", watch_health)
    version = EffectiveVersion.parse(emulate)
    heard: list[object] = []
    quirks = Quirks.of(version, version.gates({"ResourceHealthStatus": True}))
    plugins = DRAPluginManager(
        metrics=Metrics(), quirks=quirks, on_health=lambda driver, reports: heard.append(reports)
    )
    plugins.add("d.example.com", tmp_path / "x.sock", ["v1.DRAPlugin", *announced])
    if followed is not None:
        await wait_for("health", lambda: heard)
    await plugins.close()
    assert asked == ([followed] if followed is not None else [])

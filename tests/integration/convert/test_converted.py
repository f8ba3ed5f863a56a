"""Manifests of old generations, converted, run as today's."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from dray.client.resources import RESOURCE_CLAIMS
from dray.convert import convert_text
from tests.support.controlplane import cluster
from tests.support.paths import SEEDS
from tests.support.seeds import RULES

pytestmark = pytest.mark.timeout(30)


@pytest.mark.parametrize(
    "files",
    [
        ("classic-1.27/claim-parameters-crd.yaml", "classic-1.27/cats.yaml", "v1/slices.yaml"),
        (
            "structured-1.30/claim-parameters-crd.yaml",
            "structured-1.30/cats.yaml",
            "structured-1.30/slices.yaml",
        ),
        ("beta-1.32/cats.yaml", "beta-1.32/slices.yaml"),
    ],
    ids=["classic", "structured", "beta"],
)
async def test_the_pod_gets_its_cats_from_converted_manifests(files: tuple[str, ...], tmp_path: Path) -> None:
    result = convert_text([(SEEDS / file).read_text() for file in files], rules=RULES)
    assert result.complete
    written = [tmp_path / f"{number}.yaml" for number in range(len(files))]
    for path, text in zip(written, result.texts, strict=True):
        assert list(yaml.safe_load_all(text))
        path.write_text(text)
    async with cluster("1.36") as scene:
        await scene.apply(*map(str, written))
        pod = await scene.wait_bound("pod-with-cats")
        claims = (await scene.client.list(RESOURCE_CLAIMS, "default")).items
        devices = [r["device"] for c in claims for r in c["status"]["allocation"]["devices"]["results"]]
        assert pod["spec"]["nodeName"] == "node-1"  # the only one with two large black cats
        assert sorted(devices) == ["mohrle", "panther"]

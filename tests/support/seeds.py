"""The manifests of earlier releases in ``examples/seeds``, and the rules that convert their parameters."""

from __future__ import annotations

from pathlib import Path

from dray.convert import read_rules
from tests.support.paths import SEEDS

RULES = read_rules(
    {
        "parameters": [
            {
                "apiGroup": "cats.resource.example.com",
                "kind": "ClaimParameters",
                "selectors": [
                    'device.attributes["resource-driver.example.com"].color == {spec.color}',
                    'device.attributes["resource-driver.example.com"].size == {spec.size}',
                ],
            }
        ]
    }
)


def manifests_of(release: str, folder: Path) -> list[str]:
    """The seeds' manifests, in the version that the release has."""
    made = []
    for name in ("claim-parameters-crd.yaml", "cats.yaml"):
        text = (SEEDS / "classic-1.27" / name).read_text()
        path = folder / name
        path.write_text(text.replace("v1alpha2", "v1alpha1") if release == "1.26" else text)
        made.append(str(path))
    return made

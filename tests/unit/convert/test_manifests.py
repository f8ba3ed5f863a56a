"""The manifests people start from, converted."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

from dray.cli.commands import dray
from dray.convert import convert_text, read_rules
from tests.support.paths import SEEDS

OLD = ("classic-1.27", "structured-1.30", "beta-1.32")
RULES = """
parameters:
- apiGroup: cats.resource.example.com
  kind: ClaimParameters
  selectors:
  - device.attributes["resource-driver.example.com"].color == {spec.color}
  - device.attributes["resource-driver.example.com"].size == {spec.size}
  - device.attributes["resource-driver.example.com"].fur == {spec.fur}
"""


def texts(folder: str) -> list[str]:
    return [path.read_text() for path in sorted((SEEDS / folder).glob("*.yaml"))]


def documents(converted: tuple[str, ...]) -> list[dict]:
    return [d for text in converted for d in yaml.safe_load_all(text) if d]


def requests_of(converted: tuple[str, ...]) -> list[dict]:
    return [
        request
        for d in documents(converted)
        if d["kind"] == "ResourceClaimTemplate"
        for request in d["spec"]["spec"]["devices"]["requests"]
    ]


@pytest.mark.parametrize("folder", OLD)
def test_nothing_of_an_old_version_is_left(folder: str) -> None:
    for document in documents(convert_text(texts(folder)).texts):
        group = document["apiVersion"].rpartition("/")[0]
        assert group != "resource.k8s.io" or document["apiVersion"] == "resource.k8s.io/v1"
        for entry in (document.get("spec") or {}).get("resourceClaims") or ():
            assert "source" not in entry


@pytest.mark.parametrize("folder", OLD)
def test_comments_stay_where_they_were(folder: str) -> None:
    for before, after in zip(texts(folder), convert_text(texts(folder)).texts, strict=True):
        assert after.splitlines()[0] == before.splitlines()[0]
        assert before.startswith("#")


@pytest.mark.parametrize("folder", ["structured-1.30", "beta-1.32"])
def test_converted_claims_request_the_same_devices(folder: str) -> None:
    asked = requests_of(convert_text(texts(folder)).texts)
    cats = [r["exactly"]["selectors"][0]["cel"]["expression"] for r in asked if "selectors" in r["exactly"]]
    today = 'device.attributes["resource-driver.example.com"]'
    assert [" ".join(c.split()) for c in cats] == [f'{today}.color == "black" && {today}.size == "large"']


def test_a_rule_makes_selectors_of_a_drivers_parameters() -> None:
    result = convert_text(texts("classic-1.27"), rules=read_rules(yaml.safe_load(RULES)))
    assert result.complete
    [request] = requests_of(result.texts)
    expressions = [s["cel"]["expression"] for s in request["exactly"]["selectors"]]
    today = 'device.attributes["resource-driver.example.com"]'
    assert expressions == [f'{today}.color == "black"', f'{today}.size == "large"']


def test_without_a_rule_parameters_become_configuration_with_a_note() -> None:
    result = convert_text(texts("classic-1.27"))
    assert [note.document for note in result.notes if note.lost] == [
        "ResourceClaimTemplate large-black-cat-claim-template"
    ]
    [template] = [d for d in documents(result.texts) if d["kind"] == "ResourceClaimTemplate"]
    [config] = template["spec"]["spec"]["devices"]["config"]
    assert config["opaque"]["parameters"]["spec"] == {"color": "black", "size": "large"}


def test_policies_over_old_versions_are_pointed_out() -> None:
    lost = [note for note in convert_text(texts("beta-1.32")).notes if note.lost]
    assert {note.document.split()[0] for note in lost} == {"ValidatingAdmissionPolicy"}


def test_the_exit_code_says_whether_the_result_is_complete(tmp_path: Path) -> None:
    rules = tmp_path / "rules.yaml"
    rules.write_text(RULES)
    command = ["convert", "-f", str(SEEDS / "classic-1.27")]
    assert CliRunner().invoke(dray, command).exit_code == 3
    assert CliRunner().invoke(dray, [*command, "--rules", str(rules)]).exit_code == 0


def test_files_can_be_written_beside_one_another(tmp_path: Path) -> None:
    CliRunner().invoke(dray, ["convert", "-f", str(SEEDS / "structured-1.30"), "-o", str(tmp_path)])
    assert sorted(p.name for p in tmp_path.iterdir()) == sorted(
        p.name for p in (SEEDS / "structured-1.30").iterdir()
    )


def test_what_needs_no_conversion_stays_byte_for_byte() -> None:
    given = [*texts("v1"), "# nothing here\n", "kind:   Odd # spacing\napiVersion: example.com/v1\n"]
    assert list(convert_text(given).texts) == given

from __future__ import annotations

import pytest
import yaml

from dray.api.quirks import NEWEST_QUIRKS, APIQuirks
from dray.api.release import EffectiveVersion
from dray.explain import Cluster, Snapshot
from dray.explain.lint.rules import RULES, LintContext, lint
from dray.explain.lint.validation import Finding, check
from dray.explain.model import manifests
from dray.explain.model.workloads import expand_workload
from dray.explain.render.sarif import sarif
from dray.server.registry.cel import compile_expression
from tests.support.explain import device, device_class, node, slice_

CLAIM = """
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {{name: c}}
spec:
  devices:
    requests:
    - name: r
      exactly:
        deviceClassName: gpu
        count: {count}
        selectors:
        - cel:
            expression: {source}
"""
DEPLOYMENT = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: d}
spec:
  replicas: 2
  selector: {matchLabels: {a: b}}
  template:
    metadata: {labels: {a: b}}
    spec:
      containers:
      - name: main
        image: i
        resources:
          claims:
          - {name: x, request: wrong}
      resourceClaims:
      - {name: x, resourceClaimName: c}
      - {name: y, resourceClaimName: elsewhere}
"""


def findings(text: str, *known: dict[str, object]) -> list[Finding]:
    found = list(manifests.read(text.encode(), "f.yaml"))
    world = Snapshot().with_objects(known)
    applied = [d for one in found for d in expand_workload(one.document, "default")]
    checked = check(
        found, gates=EffectiveVersion().gates(), quirks=NEWEST_QUIRKS, compiler=compile_expression
    )
    return checked + lint(LintContext(found, Cluster(world.with_objects(applied)), bool(known)))


def rules(text: str, *known: dict[str, object]) -> dict[str, int]:
    """Rule → line."""
    return {one.rule: one.line for one in findings(text, *known)}


KNOWN = (node("n"), slice_("n", device("a"), device("b")), device_class())


def test_valid_claim_has_no_findings() -> None:
    text = CLAIM.format(count=2, source='device.attributes["gpu.example.com"].model == "A100"')
    assert findings(text, *KNOWN) == []


@pytest.mark.parametrize(
    ("source", "rule"),
    [
        ("device.driver ==", "validation"),
        ("device.driver", "validation"),
        ('"false" == "true"', "selector-never-true"),
        ("""device.driver == "a" && device.driver == 'b'""", "selector-never-true"),
        ('device.attributes["gpu.example.com"].modle == "A100"', "attribute-typo"),
    ],
)
def test_finding_about_a_selector_has_its_line(source: str, rule: str) -> None:
    text = CLAIM.format(count=1, source=">-\n              " + source)
    assert rules(text, *KNOWN)[rule] == 14


def test_unknown_field_is_found_with_its_line() -> None:
    text = CLAIM.format(count=1, source="'true'") + "        colour: red\n"
    assert rules(text)["schema"] == 15


def test_count_is_compared_with_the_largest_node() -> None:
    text = CLAIM.format(count=3, source="'true'")
    (found,) = findings(text, *KNOWN)
    assert (found.rule, found.line) == ("count-too-high", 11)
    assert "no node has more than 2" in found.message


def test_old_version_is_deprecated_and_still_checked() -> None:
    text = CLAIM.format(count=3, source="'true'").replace("/v1\n", "/v1beta2\n")
    assert rules(text, *KNOWN) == {"deprecated-version": 2, "count-too-high": 11}


def test_workload_is_checked_with_its_claims() -> None:
    text = CLAIM.format(count=1, source="'true'") + "---" + DEPLOYMENT
    found = rules(text, *KNOWN)
    assert set(found) == {"undeclared-request", "unused-claim", "unknown-claim", "shared-claim"}


def test_class_that_selects_nothing_is_named() -> None:
    text = """
apiVersion: resource.k8s.io/v1
kind: DeviceClass
metadata: {name: other}
spec: {selectors: [{cel: {expression: device.driver == "other.example.com"}}]}
"""
    assert rules(text, *KNOWN) == {"class-matches-nothing": 5}


@pytest.mark.parametrize(
    ("resource", "extended", "warned"),
    [
        ("gpu.example.com/gpu", "", True),  # of the driver's domain
        ("other.com/gpu", "", False),
        ("other.com/gpu", "other.com/gpu", True),  # the class stands in for it
    ],
)
def test_devices_that_a_plugin_offers_too_are_named(resource: str, extended: str, warned: bool) -> None:
    spec = f', extendedResourceName: "{extended}"' if extended else ""
    text = f"""
apiVersion: resource.k8s.io/v1
kind: DeviceClass
metadata: {{name: gpu}}
spec: {{selectors: [{{cel: {{expression: "true"}}}}]{spec}}}
"""
    for count, expected in (("2", warned), ("0", False)):
        has_plugin = {**node("n"), "status": {"capacity": {"cpu": "4", resource: count}}}
        assert ("device-plugin-too" in rules(text, has_plugin, *KNOWN[1:])) == expected


def test_custom_resources_are_left_alone_but_unknown_resource_kinds_are_not() -> None:
    assert findings("{apiVersion: example.com/v1, kind: Thing, metadata: {name: x}}") == []
    assert rules("{apiVersion: resource.k8s.io/v1, kind: Thing, metadata: {name: x}}") == {"schema": 1}


def test_sarif_places_each_finding() -> None:
    found = findings(CLAIM.format(count=3, source="'true'"), *KNOWN)
    run = sarif(found, version="1")["runs"][0]
    (result,) = run["results"]
    assert run["tool"]["driver"]["rules"][result["ruleIndex"]]["id"] == "count-too-high"
    assert result["locations"][0]["physicalLocation"]["region"] == {"startLine": 11}
    assert {one.rule for one in found} <= set(RULES)


def test_classic_versions_are_reported_as_no_longer_served() -> None:
    text = "apiVersion: resource.k8s.io/v1alpha2\nkind: ResourceClaim\nmetadata: {name: c}\nspec: {resourceClassName: r}\n"
    (found,) = findings(text)
    assert found.rule == "deprecated-version"
    assert "not served since Kubernetes 1.31; dray convert --to v1 rewrites it" in found.message


@pytest.mark.parametrize(("release", "known"), [("1.30", True), ("1.36", False)])
def test_version_that_the_release_does_not_serve_is_an_error(release: str, known: bool) -> None:
    text = b"apiVersion: resource.k8s.io/v1alpha2\nkind: ResourceClaim\nmetadata: {name: c}\nspec: {resourceClassName: r}\n"
    chosen = EffectiveVersion.parse(release)
    served = chosen.serving({"api/all": True})
    found = check(
        manifests.read(text),
        gates=chosen.gates(),
        quirks=APIQuirks.of(chosen),
        compiler=compile_expression,
        served=served,
        release=chosen,
    )
    assert [one.level.value for one in found] == ([] if known else ["error"])


def test_slices_among_the_manifests_are_not_taken_for_all_there_is() -> None:
    slices = yaml.safe_dump({"apiVersion": "resource.k8s.io/v1", **slice_("n", device("a"))})
    wanted = CLAIM.format(count=5, source="""'device.driver == "other"'""")
    classes = yaml.safe_dump({"apiVersion": "resource.k8s.io/v1", **device_class()})
    assert rules(f"{slices}---{wanted}---\n{classes}") == {}


def test_file_of_many_references_is_refused() -> None:
    levels = ["a0: &a0 [x, x, x, x, x, x, x, x]"]
    levels += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 8)}]" for i in range(1, 12)]
    with pytest.raises(manifests.Unreadable, match="excessive aliasing"):
        list(manifests.read("\n".join(["kind: ConfigMap", *levels]).encode(), "bomb.yaml"))

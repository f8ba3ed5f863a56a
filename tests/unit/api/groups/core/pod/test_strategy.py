"""Pods that are wrong in one way or another, and what is said about them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from dray.api.quirks import APIQuirks
from dray.api.release import EffectiveVersion
from dray.api.schema import decode, type_of
from dray.api.scheme.registry import scheme
from dray.api.scheme.strategy import Context
from dray.api.validation import objectmeta

RELEASE = EffectiveVersion.parse("1.36")
POD = scheme(RELEASE).by_kind("", "v1", "Pod").kind
CONTEXT = Context(gates=RELEASE.gates(), quirks=APIQuirks.of(RELEASE), now="2026-01-02T03:04:05Z")
CUT = 100


def judge(spec: Any = None, container: Any = None, about: Any = None) -> tuple[list[str], list[str]]:
    """Errors of and warnings about a pod of one container, changed as given."""
    whole = {
        "metadata": {"name": "p", "namespace": "ns", **(about or {})},
        "spec": {"containers": [{"name": "c", "image": "i", **(container or {})}], **(spec or {})},
    }
    version = POD.versions[0]
    pod = decode(type_of(version.type, RELEASE.release), json.dumps(whole).encode()).object
    version.default(pod)
    pod = version.to_hub(pod)
    POD.strategy.prepare_create(pod, CONTEXT)
    found = objectmeta.validate_object_meta(
        pod["metadata"],
        namespaced=True,
        check_name=POD.strategy.check_name,
        declared=CONTEXT.quirks.declares_rules,
    )
    found += POD.strategy.validate(pod, CONTEXT)
    return [str(error)[:CUT] for error in found], [w[:CUT] for w in POD.strategy.warn(pod, CONTEXT)]


CASES: dict[str, dict[str, Any]] = yaml.safe_load(Path(__file__).with_name("pods.yaml").read_text())


@pytest.mark.parametrize("name", CASES)
def test_pods_are_judged_in_upstreams_words(name):
    case = CASES[name]
    given = {part: case.get(part) for part in ("spec", "container", "about")}
    assert judge(**given) == (case.get("errors", []), case.get("warnings", []))


def test_a_plain_pod_is_fine():
    assert judge() == ([], [])

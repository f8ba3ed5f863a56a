"""Objects of all kinds that are wrong in one way or another, and what is said about them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from dray.api.quirks import APIQuirks
from dray.api.release import EffectiveVersion
from dray.api.schema import decode, type_of
from dray.api.scheme.kinds import Kind, Object
from dray.api.scheme.registry import scheme
from dray.api.scheme.strategy import Context
from dray.api.validation import objectmeta

CUT = 120
NOW = "2026-01-02T03:04:05Z"
RELEASE = EffectiveVersion.parse("1.36")
CONTEXT = Context(gates=RELEASE.gates(), quirks=APIQuirks.of(RELEASE), now=NOW)
CASES: dict[str, dict[str, Any]] = yaml.safe_load(Path(__file__).with_name("objects.yaml").read_text())


def read(document: Object) -> tuple[Kind, Object]:
    """A document as its kind's hub, defaulted."""
    group, _, name = document["apiVersion"].rpartition("/")
    found = scheme(RELEASE).by_kind(group, name, document["kind"])
    assert found is not None
    obj = decode(type_of(found.version.type, RELEASE.release), json.dumps(document).encode()).object
    if found.version.default is not None:
        found.version.default(obj)
    hub = found.version.to_hub(obj) if found.version.to_hub is not None else obj
    hub["metadata"] |= {"uid": "u", "creationTimestamp": NOW}
    return found.kind, hub


def create(document: Object) -> tuple[Kind, Object, list[str]]:
    kind, obj = read(document)
    kind.strategy.prepare_create(obj, CONTEXT)
    found = []
    if not kind.virtual:
        check_name = kind.strategy.check_name
        assert check_name is not None
        found += objectmeta.validate_object_meta(
            obj["metadata"],
            namespaced=kind.namespaced,
            check_name=check_name,
            declared=CONTEXT.quirks.declares_rules,
        )
    return kind, obj, [str(error) for error in [*found, *kind.strategy.validate(obj, CONTEXT)]]


@pytest.mark.parametrize("name", CASES)
def test_objects_are_judged_in_upstreams_words(name):
    case = CASES[name]
    kind, obj, errors = create(case["object"])
    assert [error[:CUT] for error in errors] == case.get("errors", [])
    assert [w[:CUT] for w in kind.strategy.warn(obj, CONTEXT)] == case.get("warnings", [])

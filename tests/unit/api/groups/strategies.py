"""Objects as the API server would have them after decoding, and after their creation."""

from __future__ import annotations

import json
from typing import Any

from dray.api.quirks import APIQuirks
from dray.api.release import EffectiveVersion
from dray.api.schema import decode, type_of
from dray.api.scheme.kinds import Kind, Object
from dray.api.scheme.registry import scheme
from dray.api.scheme.strategy import Context
from dray.api.validation import objectmeta

NOW = "2026-01-02T03:04:05Z"
RELEASE = EffectiveVersion.parse("1.36")
CONTEXT = Context(gates=RELEASE.gates(), quirks=APIQuirks.of(RELEASE), now=NOW)


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


def pod(**spec: Any) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p", "namespace": "n"},
        "spec": {"containers": [{"name": "c", "image": "i"}], **spec},
    }

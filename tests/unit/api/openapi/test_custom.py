"""OpenAPI of custom resources."""

from __future__ import annotations

from typing import Any

import pytest

from dray.api.groups.apiextensions import custom_kinds
from dray.api.openapi.schemas import Schemas

ANYTHING = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}


def published(schema: dict[str, Any], *, v3: bool) -> dict[str, Any]:
    definition: Any = {
        "metadata": {"name": "cats.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": {"plural": "cats", "kind": "Cat"},
            "versions": [
                {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
            ],
        },
    }
    (kind,) = custom_kinds(definition)
    schemas = Schemas(release=None, v3=v3, custom=lambda _, version: dict(version.schema or {}))
    schemas.kind_ref(kind, kind.versions[0])
    return schemas.finish()["com.example.v1.Cat"]


@pytest.mark.parametrize("v3", [True, False])
def test_every_kind_explains_what_all_objects_have(v3: bool):
    found = published({"type": "object", "properties": {"spec": {"type": "object"}}}, v3=v3)["properties"]
    assert list(found) == ["apiVersion", "kind", "metadata", "spec"]
    assert found["apiVersion"]["description"].startswith("APIVersion defines")
    assert found["metadata"]["description"].startswith("Standard object")


def test_what_may_hold_anything_has_no_properties_in_v2():
    assert published(ANYTHING, v3=False).keys() == {"type", "x-kubernetes-group-version-kind"}
    assert published(ANYTHING, v3=True)["properties"].keys() == {"apiVersion", "kind", "metadata"}
    assert published({}, v3=False).keys() == {"type", "x-kubernetes-group-version-kind"}

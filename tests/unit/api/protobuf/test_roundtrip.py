"""What is written can be read again: by us, by Google's library, and for every type there is."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dray.api import protobuf, schema
from dray.api.release import V1_26, V1_30, V1_34, Release
from dray.api.schema import Struct, type_of
from tests.support.protobuf_library import reencoded
from tests.support.random_documents import documents

TYPES = [
    "core/v1.Pod", "core/v1.PodList", "core/v1.Secret", "core/v1.Event", "core/v1.Service", "core/v1.Node",
    "core/v1.PersistentVolume", "apps/v1.Deployment", "apps/v1.StatefulSet", "apps/v1.ControllerRevision",
    "batch/v1.CronJob", "batch/v1.Job", "policy/v1.PodDisruptionBudget", "policy/v1.Eviction", "rbac/v1.ClusterRole",
    "coordination/v1.Lease", "events/v1.Event", "discovery/v1.EndpointSlice", "authentication/v1.TokenRequest",
    "authentication/v1.TokenReview", "authorization/v1.SubjectAccessReview",
    "certificates/v1.CertificateSigningRequest", "scheduling/v1.PriorityClass",
    "admissionregistration/v1.ValidatingAdmissionPolicy", "admissionregistration/v1.MutatingWebhookConfiguration",
    "resource/v1.ResourceClaim", "resource/v1.ResourceSlice", "resource/v1.DeviceClass",
    "resource/v1beta2.ResourceSlice", "resource/v1beta1.ResourceClaimTemplate", "resource/v1alpha3.DeviceTaintRule",
    "resource/v1alpha2.ResourceClaim", "resource/v1alpha2.PodSchedulingContext", "resource/v1alpha1.ResourceClass",
    "meta/v1.Status", "meta/v1.DeleteOptions", "meta/v1.PartialObjectMetadataList",
]  # fmt: skip


def stored(type_: Struct, document: dict[str, Any]) -> dict[str, Any]:
    """A document in Go's shape. Protobuf, like the store, does not tell an empty list from none."""
    shaped = schema.normalise(type_, document)
    schema.omit_empty(type_, shaped)
    return shaped


def untyped(obj: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in obj.items() if key not in ("kind", "apiVersion")}


@st.composite
def objects(draw: st.DrawFn) -> tuple[Struct, dict[str, Any]]:
    type_ = type_of(draw(st.sampled_from(TYPES)))
    document = draw(documents(type_, nulls=False))
    return type_, stored(type_, untyped(document))


@settings(deadline=None, max_examples=300)
@given(objects())
def test_an_object_survives_its_message(found: tuple[Struct, dict[str, Any]]) -> None:
    type_, obj = found
    assert stored(type_, protobuf.decode(type_, protobuf.encode(type_, obj))) == _on_the_wire(type_, obj)


@settings(deadline=None, max_examples=100)
@given(objects())
def test_another_library_knows_every_field_and_writes_the_same_object(
    found: tuple[Struct, dict[str, Any]],
) -> None:
    type_, obj = found
    message = protobuf.encode(type_, obj)
    again = protobuf.decode(type_, reencoded(type_, message))
    assert stored(type_, again) == stored(type_, protobuf.decode(type_, message))


def _on_the_wire(type_: Struct, obj: dict[str, Any]) -> dict[str, Any]:
    """The object without the types of the objects inside, which protobuf does not write."""
    return stored(type_, _without_types(type_, obj))


def _without_types(type_: schema.Type, value: Any) -> Any:
    match type_:
        case Struct() if isinstance(value, dict):
            fields = type_.by_name
            return {k: _without_types(fields[k].type, v) for k, v in value.items() if fields[k].number}
        case schema.ListOf() if isinstance(value, list):
            return [_without_types(type_.item, v) for v in value]
        case schema.MapOf() if isinstance(value, dict):
            return {k: _without_types(type_.value, v) for k, v in value.items()}
    return value


def test_a_schema_of_schemas_survives_its_message() -> None:
    type_ = type_of("apiextensions/v1.CustomResourceDefinition")
    properties = {
        "any": {"x-kubernetes-preserve-unknown-fields": True, "default": {"a": [1, None]}, "maximum": 1.5},
        "closed": {"type": "object", "additionalProperties": False},
        "open": {"type": "object", "additionalProperties": {"type": "string", "enum": ["a", None]}},
        "list": {"type": "array", "items": {"type": "integer", "minimum": 0}},
        "tuple": {"items": [{"type": "string"}, {"type": "boolean"}]},
        "bound": {"dependencies": {"a": ["b"], "c": {"required": ["d"]}}},
    }
    version = {"name": "v1", "schema": {"openAPIV3Schema": {"type": "object", "properties": properties}}}
    obj = stored(type_, {"spec": {"group": "example.com", "versions": [version]}})
    message = protobuf.encode(type_, obj)
    assert stored(type_, protobuf.decode(type_, message)) == obj
    assert stored(type_, protobuf.decode(type_, reencoded(type_, message))) == obj


def test_recorded_objects_survive_their_messages(conformance: Path) -> None:
    compared = 0
    for directory in ("api-136", "api-130"):
        for file in sorted((conformance / directory).glob("*.json")):
            for step in json.loads(file.read_text())["recorded"]:
                body = step.get("body")
                if not isinstance(body, dict) or "<" in json.dumps(body):
                    continue
                type_ = protobuf.type_for(body.get("apiVersion", ""), body.get("kind", ""))
                if type_ is None:
                    continue
                obj = stored(type_, untyped(body))
                decoded = protobuf.decode(type_, protobuf.encode(type_, obj))
                assert stored(type_, decoded) == _on_the_wire(type_, obj), body
                compared += 1
    assert compared >= 100


@pytest.mark.parametrize("release", [V1_26, V1_30, V1_34])
def test_a_release_neither_reads_nor_writes_what_it_does_not_know(release: Release) -> None:
    newest, older = type_of("core/v1.PodSpec"), type_of("core/v1.PodSpec", release)
    spec = {"nodeName": "n", "resources": {"limits": {"cpu": "1"}}, "containers": []}
    known = set(older.by_name)
    assert "resources" in protobuf.decode(newest, protobuf.encode(newest, spec))
    assert ("resources" in protobuf.decode(older, protobuf.encode(newest, spec))) is ("resources" in known)
    assert ("resources" in protobuf.decode(newest, protobuf.encode(older, spec))) is ("resources" in known)

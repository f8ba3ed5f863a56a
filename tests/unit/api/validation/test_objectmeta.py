"""Checks of metadata, selectors, conditions and request options."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dray.api.validation import names, objectmeta
from dray.api.validation.field import FieldError, Path

META = Path("metadata")


def check_name(name: str, is_prefix: bool) -> Any:
    return names.dns1123_subdomain(name[:-1] + "a" if is_prefix and name.endswith("-") else name)


def texts(errors: Iterable[FieldError]) -> list[str]:
    return [str(e) for e in errors]


def created(**fields: Any) -> list[str]:
    found = {"name": "a", "namespace": "n", **fields}
    return texts(objectmeta.validate_object_meta(found, namespaced=True, check_name=check_name))


def updated(old: dict[str, Any], **fields: Any) -> list[str]:
    base = {"name": "a", "uid": "u", "resourceVersion": "1"}
    return texts(objectmeta.validate_object_meta_update({**base, **fields}, {**base, **old}))


def test_plain_metadata_is_fine() -> None:
    labels = {"example.com/a": "b", "c": ""}
    assert created(labels=labels, annotations={"Upper.example.com/A": "anything"}, finalizers=["a.b/c"]) == []
    assert updated({}) == []


@pytest.mark.parametrize(
    ("fields", "start"),
    [
        ({"name": ""}, "metadata.name: Required value: name or generateName is required"),
        ({"name": "A"}, 'metadata.name: Invalid value: "A": a lowercase RFC 1123 subdomain'),
        ({"generateName": "A-"}, 'metadata.generateName: Invalid value: "A-": a lowercase'),
        ({"namespace": ""}, "metadata.namespace: Required value"),
        ({"namespace": "a.b"}, 'metadata.namespace: Invalid value: "a.b": must not contain dots'),
        ({"generation": -1}, "metadata.generation: Invalid value: -1: must be greater than or equal to 0"),
        ({"labels": {"a/b/c": ""}}, 'metadata.labels: Invalid value: "a/b/c": a valid label key must'),
        (
            {"labels": {"a": "-"}},
            'metadata.labels: Invalid value: "-": a valid label must be an empty string',
        ),
        (
            {"annotations": {"a": "x" * (1 << 18)}},
            "metadata.annotations: Too long: may not be more than 262144 bytes",
        ),
        ({"finalizers": ["a b"]}, 'metadata.finalizers: Invalid value: "a b": name part must consist'),
        (
            {"finalizers": ["orphan", "foregroundDeletion"]},
            'metadata.finalizers: Invalid value: ["orphan","foregroundDeletion"]: finalizer orphan and '
            "foregroundDeletion cannot be both set",
        ),
        (
            {"managedFields": [{"operation": "x"}]},
            'metadata.managedFields[0].operation: Invalid value: "x": must be `Apply` or `Update`',
        ),
    ],
)
def test_each_fault_of_new_metadata_is_named(fields: Any, start: str) -> None:
    found = created(**fields)
    assert len(found) == 1
    assert found[0].startswith(start)


def test_cluster_wide_objects_have_no_namespace() -> None:
    found = objectmeta.validate_object_meta(
        {"name": "a", "namespace": "n"}, namespaced=False, check_name=check_name
    )
    assert texts(found) == ["metadata.namespace: Forbidden: not allowed on this type"]


def test_owner_references_are_complete_and_have_one_controller() -> None:
    owner = {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "1", "controller": True}
    assert created(ownerReferences=[owner]) == []
    found = created(ownerReferences=[owner, {**owner, "name": "q"}])
    assert found[0].endswith('Found "true" in references for Pod/p and Pod/q')
    found = created(ownerReferences=[{"apiVersion": "a/", "kind": "", "name": "", "uid": ""}])
    assert [e.partition(":")[0].rpartition(".")[2] for e in found] == ["apiVersion", "kind", "name", "uid"]
    found = created(ownerReferences=[owner, {**owner, "uid": "", "controller": False}])
    assert found == ["metadata.ownerReferences[1].uid: Required value: must not be empty"]
    found = created(ownerReferences=[{**owner, "kind": "Event"}])
    assert found[0].endswith("/v1, Kind=Event is disallowed from being an owner")


@pytest.mark.parametrize(
    ("old", "fields", "words"),
    [
        (
            {},
            {"resourceVersion": ""},
            'metadata.resourceVersion: Invalid value: "": must be specified for an update',
        ),
        ({}, {"name": "b"}, 'metadata.name: Invalid value: "b": field is immutable'),
        ({}, {"uid": "v"}, 'metadata.uid: Invalid value: "v": field is immutable'),
        (
            {"generation": 2},
            {"generation": 1},
            "metadata.generation: Invalid value: 1: must not be decremented",
        ),
        (
            {"deletionTimestamp": "2024-01-01T00:00:00Z", "finalizers": ["a/b"]},
            {"deletionTimestamp": "2024-01-01T00:00:00Z", "finalizers": ["c/d", "a/b", "b/c"]},
            "metadata.finalizers: Forbidden: no new finalizers can be added if the object is being deleted, "
            'found new finalizers []string{"b/c", "c/d"}',
        ),
    ],
)
def test_each_fault_of_changed_metadata_is_named(old: Any, fields: Any, words: str) -> None:
    assert updated(old, **fields) == [words]


UPDATES = st.dictionaries(
    st.sampled_from(
        ["name", "labels", "annotations", "finalizers", "generation", "managedFields", "selfLink"]
    ),
    st.sampled_from([None, 0, 1, {}, {"a": "b"}, []]),
)


@given(UPDATES, UPDATES)
def test_an_update_is_upkeep_exactly_if_nothing_else_differs(old: Any, new: Any) -> None:
    new = {**new, "resourceVersion": "1"}
    upkeep = ("resourceVersion", "managedFields", "generation")
    differs = any(new.get(name) != old.get(name) for name in {*new, *old} - {*upkeep})
    old["generation"] = new["generation"] = 1
    assert objectmeta._only_upkeep(new, old) is not differs


@pytest.mark.parametrize(
    ("value", "fits"),
    [
        ("x" * (objectmeta.ANNOTATIONS_LIMIT - 1), True),
        ("x" * objectmeta.ANNOTATIONS_LIMIT, False),
        ("ü" * (objectmeta.ANNOTATIONS_LIMIT // 2 - 1), True),
        ("ü" * (objectmeta.ANNOTATIONS_LIMIT // 2), False),
        ("😀" * (objectmeta.ANNOTATIONS_LIMIT // 4 - 1), True),
        ("😀" * (objectmeta.ANNOTATIONS_LIMIT // 4), False),
    ],
)
def test_annotations_are_counted_in_bytes(value: str, fits: bool) -> None:
    assert (created(annotations={"a": value}) == []) is fits


def test_an_odd_entry_of_managed_fields_is_named_by_its_place() -> None:
    plain = {"manager": "m", "operation": "Update", "fieldsType": "FieldsV1"}
    assert created(managedFields=[plain, plain]) == []
    assert created(managedFields=[plain, {**plain, "operation": "Guess"}]) == [
        'metadata.managedFields[1].operation: Invalid value: "Guess": must be `Apply` or `Update`'
    ]


def test_label_selectors_need_known_operators_and_fitting_values() -> None:
    path = Path("spec").child("selector")
    assert objectmeta.validate_label_selector(None, path) == []
    selector = {
        "matchLabels": {"a": "b"},
        "matchExpressions": [
            {"key": "a", "operator": "In"},
            {"key": "a", "operator": "Exists", "values": ["x"]},
            {"key": "a", "operator": "Near"},
            {"key": "a", "operator": "In", "values": ["-"]},
        ],
    }
    found = texts(objectmeta.validate_label_selector(selector, path))
    assert [e.partition(": ")[0] for e in found] == [
        "spec.selector.matchExpressions[0].values",
        "spec.selector.matchExpressions[1].values",
        "spec.selector.matchExpressions[2].operator",
        "spec.selector.matchExpressions[3].values[0]",
    ]
    assert len(objectmeta.validate_label_selector(selector, path, allow_invalid_values=True)) == 3


def test_conditions_are_complete_and_unlike() -> None:
    good = {"type": "Ready", "status": "True", "reason": "Ok", "lastTransitionTime": "2024-01-01T00:00:00Z"}
    assert objectmeta.validate_conditions([good], Path("c")) == []
    assert texts(objectmeta.validate_conditions([good, good], Path("c"))) == [
        'c[1].type: Duplicate value: "Ready"'
    ]
    found = texts(objectmeta.validate_conditions([{"type": "Ready", "status": "Maybe"}], Path("c")))
    assert found == [
        'c[0].status: Unsupported value: "Maybe": supported values: "False", "True", "Unknown"',
        "c[0].lastTransitionTime: Required value",
        "c[0].reason: Required value",
    ]


def test_request_options_are_checked() -> None:
    assert objectmeta.validate_patch_options({"fieldManager": "m", "dryRun": ["All"]}, apply=True) == []
    assert texts(objectmeta.validate_patch_options({}, apply=True)) == [
        "fieldManager: Required value: is required for apply patch"
    ]
    assert texts(objectmeta.validate_patch_options({"force": True}, apply=False)) == [
        "force: Forbidden: may not be specified for non-apply patch"
    ]
    assert texts(objectmeta.validate_write_options({"fieldManager": "a" * 129, "fieldValidation": "X"})) == [
        "fieldManager: Too long: may not be more than 128 bytes",
        'fieldValidation: Unsupported value: "X": supported values: "", "Ignore", "Strict", "Warn"',
    ]
    assert texts(objectmeta.validate_write_options({"fieldManager": "a\tb"})) == [
        'fieldManager: Invalid value: "a\\tb": invalid character U+0009 (at position 1)'
    ]
    assert texts(objectmeta.validate_delete_options({"propagationPolicy": "X", "dryRun": ["No"]})) == [
        'propagationPolicy: Unsupported value: "X": supported values: "Foreground", "Background", "Orphan", "nil"',
        'dryRun: Unsupported value: ["No"]: supported values: "All"',
    ]
    assert len(objectmeta.validate_table_options("Bogus")) == 1

"""Definitions: the names they get, the kinds they make, and how their objects are treated."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from dray.api.groups import apiextensions
from dray.api.release import EffectiveVersion
from dray.api.scheme.strategy import Context
from tests.support.expression_compilers import compile_rule

NOW = "2026-01-02T03:04:05Z"
LATER = "2026-01-02T03:04:06Z"
CONTEXT = Context(gates=EffectiveVersion.parse("1.36").gates(), now=NOW, rules=compile_rule)

SPEC = {
    "type": "object",
    "required": ["size"],
    "properties": {
        "size": {"type": "integer", "default": 1},
        "mode": {"type": "string"},
        "fixed": {
            "type": "string",
            "x-kubernetes-validations": [{"rule": "self == oldSelf", "message": "fixed is fixed"}],
        },
    },
    "x-kubernetes-validations": [
        {"rule": "!has(self.mode) || self.size > 5", "fieldPath": ".mode", "reason": "FieldValueForbidden"}
    ],
}
NEW = {
    "type": "object",
    "properties": {
        "spec": SPEC,
        "status": {
            "type": "object",
            "properties": {"replicas": {"type": "integer"}, "sel": {"type": "string"}},
        },
    },
}
OLD = {
    "type": "object",
    "properties": {"spec": {"type": "object", "properties": {"size": {"type": "integer"}}}},
}


def definition(**more):
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.example.com", "generation": 1},
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "conversion": {"strategy": "None"},
            "names": {
                "plural": "widgets",
                "singular": "widget",
                "kind": "Widget",
                "listKind": "WidgetList",
                "shortNames": ["wd"],
                "categories": ["all"],
            },
            "versions": [
                {
                    "name": "v1",
                    "served": True,
                    "storage": True,
                    "schema": {"openAPIV3Schema": NEW},
                    "subresources": {
                        "status": {},
                        "scale": {
                            "specReplicasPath": ".spec.size",
                            "statusReplicasPath": ".status.replicas",
                            "labelSelectorPath": ".status.sel",
                        },
                    },
                    "additionalPrinterColumns": [
                        {"name": "Size", "type": "integer", "jsonPath": ".spec.size"},
                        {"name": "Mode", "type": "string", "jsonPath": ".spec.mode", "priority": 1},
                        {"name": "Born", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
                    ],
                    "selectableFields": [{"jsonPath": ".spec.size"}],
                },
                {
                    "name": "v1beta1",
                    "served": True,
                    "storage": False,
                    "deprecated": True,
                    "schema": {"openAPIV3Schema": OLD},
                },
                {"name": "v1alpha1", "served": False, "storage": False, "schema": {"openAPIV3Schema": OLD}},
            ],
            **more,
        },
    }


def widget(version="v1", **spec):
    return {
        "apiVersion": f"example.com/{version}",
        "kind": "Widget",
        "metadata": {"name": "w", "namespace": "ns", "generation": 1, "creationTimestamp": NOW},
        "spec": spec,
    }


@pytest.fixture
def kinds():
    return apiextensions.custom_kinds(apiextensions.accept_names(definition(), (), NOW))


@pytest.fixture
def v1(kinds):
    return kinds[0]


def test_every_served_version_is_a_kind(kinds):
    newest, older = kinds
    assert [k.versions[0].name for k in kinds] == ["v1", "v1beta1"]
    assert {(k.group, k.kind, k.plural, k.list_kind, k.storage, k.custom) for k in kinds} == {
        ("example.com", "Widget", "widgets", "WidgetList", "v1", True)
    }
    assert newest.short_names == ("wd",)
    assert newest.categories == ("all",)
    assert older.stored_as is newest
    assert set(newest.subresources) == {"status"}
    assert older.subresources == {}
    assert newest.scale is not None
    assert older.scale is None
    assert older.versions[0].deprecated == "example.com/v1beta1 Widget is deprecated"


def test_a_storage_version_need_not_be_served():
    document = definition()
    document["spec"]["versions"][0]["served"] = False
    (only,) = apiextensions.custom_kinds(document)
    assert only.versions[0].name == "v1beta1"
    assert only.stored_as is not None
    assert only.stored_as.versions[0].name == "v1"


def test_versions_show_what_their_schema_knows(kinds):
    newest, older = kinds
    hub = widget(size=3, mode="x")
    assert newest.versions[0].from_hub is None
    assert older.versions[0].from_hub(hub)["spec"] == {"size": 3}
    assert hub["spec"] == {"size": 3, "mode": "x"}


def test_bodies_are_pruned_and_defaulted(v1):
    obj = widget(junk=1)
    obj["metadata"]["odd"] = 1
    assert v1.versions[0].prune(obj) == ['unknown field "metadata.odd"', 'unknown field "spec.junk"']
    v1.versions[0].default(obj)
    assert obj["spec"] == {"size": 1}
    assert "odd" not in obj["metadata"]


def test_status_has_a_door_of_its_own(v1):
    new = {**widget(size=3), "status": {"replicas": 1}}
    v1.strategy.prepare_create(new, CONTEXT)
    assert "status" not in new
    assert new["metadata"]["generation"] == 1
    old = {**widget(size=3), "status": {"replicas": 1}}
    new = {**widget(size=4), "status": {"replicas": 2}}
    v1.strategy.prepare_update(new, old, CONTEXT)
    assert new["status"] == {"replicas": 1}
    assert new["metadata"]["generation"] == 2
    new = {**widget(size=4), "status": {"replicas": 2}}
    new["metadata"]["labels"] = {"a": "b"}
    v1.subresources["status"].prepare_update(new, old, CONTEXT)
    assert new["spec"] == {"size": 3}
    assert new["status"] == {"replicas": 2}
    assert "labels" not in new["metadata"]
    assert new["metadata"]["generation"] == 1
    wrong = {**old, "status": {"replicas": "x"}}
    assert [e.field for e in v1.subresources["status"].validate_update(wrong, old, CONTEXT)] == [
        "status.replicas", ".status.replicas", "<nil>",
    ]  # fmt: skip


def test_without_a_status_door_everything_counts(kinds):
    older = kinds[1]
    old = {**widget(size=3), "status": {"a": 1}}
    new = {**widget(size=3), "status": {"a": 2}}
    older.strategy.prepare_update(new, old, CONTEXT)
    assert new["status"] == {"a": 2}
    assert new["metadata"]["generation"] == 2


def test_rules_of_the_schema_hold(v1):
    def create(**spec):
        return [str(e) for e in v1.strategy.validate(widget(**spec), CONTEXT)]

    assert create(size=3, fixed="a") == []
    assert create(size=3, mode="x") == ["spec.mode: Forbidden: failed rule: !has(self.mode) || self.size > 5"]
    assert create(size="x")[-1].startswith(
        "<nil>: Invalid value: null: some validation rules were not checked"
    )

    def update(new, old):
        return [str(e) for e in v1.strategy.validate_update(widget(**new), widget(**old), CONTEXT)]

    assert update({"size": 3, "fixed": "a"}, {"size": 4, "fixed": "a"}) == []
    assert update({"size": 3, "fixed": "b"}, {"size": 4, "fixed": "a"}) == [
        'spec.fixed: Invalid value: "b": fixed is fixed'
    ]
    assert update({"size": 3, "mode": "x"}, {"size": 3, "mode": "x"}) == [], "it was so before"


def test_replicas_are_counts(v1):
    assert [str(e) for e in v1.strategy.validate(widget(size=-1), CONTEXT)] == [
        ".spec.size: Invalid value: -1: should be a non-negative integer"
    ]
    assert v1.scale.spec_replicas == ("spec", "size")
    assert v1.scale.selector({"status": {"sel": "a=b"}}) == "a=b"


def test_columns_and_fields_are_read_by_path(kinds):
    newest, older = kinds
    born = 1767323045.0
    assert [c.name for c in newest.printer.columns] == ["Name", "Size", "Mode", "Born"]
    assert list(newest.printer.cells(widget(size=3), born + 65)) == ["w", 3, None, "65s"]
    assert [c.name for c in older.printer.columns] == ["Name", "Age"]
    assert newest.fields["spec.size"](widget(size=3)) == "3"
    assert newest.fields["spec.size"](widget()) == ""


def test_finalizers_should_say_whose_they_are(v1):
    obj = widget(size=1)
    obj["metadata"]["finalizers"] = ["mine", "example.com", "example.com/mine", "orphan"]
    assert len(v1.strategy.warn(obj, CONTEXT)) == 2
    assert v1.strategy.warn_update(obj, obj, CONTEXT) == []


def test_names_are_accepted_unless_taken():
    accepted = apiextensions.accept_names(definition(), (), NOW)
    assert [(c["type"], c["status"], c["reason"]) for c in accepted["status"]["conditions"]] == [
        ("NamesAccepted", "True", "NoConflicts"),
        ("Established", "True", "InitialNamesAccepted"),
    ]
    assert accepted["status"]["acceptedNames"] == definition()["spec"]["names"]
    assert apiextensions.accept_names(accepted, (), LATER) == accepted, "there is nothing more to do"
    other = definition()
    other["spec"]["names"] = {
        "plural": "gadgets",
        "singular": "gadget",
        "kind": "Widget",
        "shortNames": ["wd", "g"],
    }
    refused = apiextensions.accept_names(other, [accepted], NOW)
    first, second = refused["status"]["conditions"]
    assert (first["status"], first["reason"], first["message"]) == (
        "False", "KindConflict", '"Widget" is already in use',
    )  # fmt: skip
    assert (second["status"], second["reason"]) == ("False", "NotAccepted")
    assert refused["status"]["acceptedNames"]["plural"] == "gadgets"
    assert "shortNames" not in refused["status"]["acceptedNames"]


def test_what_is_established_stays_so():
    accepted = apiextensions.accept_names(definition(), (), NOW)
    again = copy.deepcopy(accepted)
    again["spec"]["names"]["shortNames"] = ["other"]
    taken = {"status": {"acceptedNames": {"plural": "other", "kind": "Other"}}}
    changed = apiextensions.accept_names(again, [taken], LATER)
    assert [c["status"] for c in changed["status"]["conditions"]] == ["False", "True"]
    assert [c["lastTransitionTime"] for c in changed["status"]["conditions"]] == [LATER, NOW]
    assert apiextensions.is_true(changed, "Established")
    assert not apiextensions.is_true(changed, "NamesAccepted")
    assert changed["status"]["acceptedNames"]["shortNames"] == ["wd"]


def test_a_definition_goes_when_its_objects_are_gone():
    rules = apiextensions.CUSTOM_RESOURCE_DEFINITION.strategy
    obj = apiextensions.accept_names(definition(), (), NOW)
    assert rules.held(obj)
    obj["metadata"]["deletionTimestamp"] = NOW
    rules.begin_deletion(obj, CONTEXT)
    assert obj["metadata"]["finalizers"] == [apiextensions.CLEANUP_FINALIZER]
    assert apiextensions.is_true(obj, "Terminating")
    assert not rules.held(obj), "from now on the finalizer holds it"


def test_definitions_change_within_limits():
    rules = apiextensions.CUSTOM_RESOURCE_DEFINITION.strategy
    old = apiextensions.accept_names(definition(), (), NOW)
    rules.prepare_create(created := definition(), CONTEXT)
    assert created["status"]["storedVersions"] == ["v1"]
    old["status"]["storedVersions"] = ["v1"]
    new = copy.deepcopy(old)
    new["spec"]["scope"] = "Cluster"
    new["spec"]["names"]["kind"] = "Thing"
    new["spec"]["versions"][0]["storage"] = False
    new["spec"]["versions"][1]["storage"] = True
    rules.prepare_update(new, old, CONTEXT)
    assert new["status"]["storedVersions"] == ["v1", "v1beta1"]
    assert new["metadata"]["generation"] == 2
    assert [e.field for e in rules.validate_update(new, old, CONTEXT)] == ["spec.scope", "spec.names.kind"]
    gone = copy.deepcopy(old)
    gone["status"]["storedVersions"] = ["v1", "v2"]
    found = rules.validate_update(gone, gone, CONTEXT)
    assert [e.field for e in found] == ["status.storedVersions[1]"]


def test_wrong_rules_are_found_when_a_definition_is_made():
    document = definition()
    wrong = copy.deepcopy(NEW)
    wrong["properties"]["spec"]["x-kubernetes-validations"] = [{"rule": "self.nothing > 1"}]
    wrong["properties"]["status"]["x-kubernetes-validations"] = [{"rule": "true", "optionalOldSelf": True}]
    document["spec"]["versions"] = [
        {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": wrong}}
    ]
    apiextensions.CUSTOM_RESOURCE_DEFINITION.strategy.prepare_create(document, CONTEXT)
    found = apiextensions.CUSTOM_RESOURCE_DEFINITION.strategy.validate(document, CONTEXT)
    path = "spec.validation.openAPIV3Schema.properties"
    assert [e.field for e in found] == [
        f"{path}[spec].x-kubernetes-validations[0].rule",
        f"{path}[status].x-kubernetes-validations[0].optionalOldSelf",
    ]
    assert "undefined field 'nothing'" in found[0].detail


@pytest.mark.parametrize(
    ("part", "problem"),
    [
        (
            {"type": "string", "x-kubernetes-preserve-unknown-fields": False},
            "x-kubernetes-preserve-unknown-fields",
        ),
        ({"type": "string", "x-kubernetes-list-type": "set"}, "type"),
        ({"type": "object", "x-kubernetes-map-type": "odd"}, "x-kubernetes-map-type"),
        (
            {"type": "array", "items": {"type": "object"}, "x-kubernetes-list-type": "set"},
            "items.x-kubernetes-map-type",
        ),
        ({"type": "integer", "anyOf": [{"type": "integer"}]}, "anyOf[0].type"),
        ({"type": "object", "x-kubernetes-embedded-resource": True}, "properties"),
        ({"type": "integer", "default": "x"}, "default"),
        ({"type": "object", "properties": {}, "default": {"unknown": 1}}, "default"),
        ({"type": "string", "uniqueItems": True}, "uniqueItems"),
        ({"type": "null"}, "type"),
        ({"$ref": "#/x", "type": "string"}, "$ref"),
        ({}, "type"),
    ],
)
def test_parts_of_schemas_that_make_no_sense(part, problem):
    schema = {"type": "object", "properties": {"x": part}}
    found = list(check(schema))
    assert f"s.properties[x].{problem}" in [e.field for e in found]


def check(schema, **options):
    from dray.api.groups.apiextensions.schemavalidation import check_schema
    from dray.api.validation.field import Path

    return check_schema(schema, Path("s"), compile_rule, **{"status": False, **options})


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
        {
            "type": "object",
            "properties": {"metadata": {"type": "object", "properties": {"name": {"type": "string"}}}},
        },
        {"type": "object", "properties": {"x": {"x-kubernetes-int-or-string": True}}},
        {
            "type": "object",
            "properties": {
                "x": {"x-kubernetes-int-or-string": True, "anyOf": [{"type": "integer"}, {"type": "string"}]},
                "y": {
                    "type": "object",
                    "properties": {"a": {"type": "string"}},
                    "oneOf": [{"required": ["a"]}],
                },
            },
        },
    ],
)
def test_structural_schemas_are_fine(schema):
    assert check(schema) == []


def test_the_root_of_a_schema_is_special():
    assert [str(e) for e in check({"type": "object", "nullable": True})] == [
        "s.nullable: Forbidden: nullable cannot be true at the root"
    ]
    found = check({"type": "object", "oneOf": [{"required": ["x"]}]}, status=True)
    assert "fields are allowed at the root of the schema if the status subresource is enabled" in str(
        found[0]
    )
    found = check({"type": "object", "allOf": [{"properties": {"x": {"minimum": 1}}}]})
    assert [str(e) for e in found] == [
        "s.properties[x]: Required value: because it is defined in s.allOf[0].properties[x]"
    ]
    found = check({"type": "object", "properties": {"metadata": {"type": "object", "required": ["labels"]}}})
    assert [e.field for e in found] == ["s.properties[metadata]"]


def test_the_schema_goes_with_the_version(v1):
    assert v1.versions[0].schema == NEW


def pairs(**bounds: Any) -> dict[str, Any]:
    """A list with a rule that compares each element with each other."""
    name = {"type": "string", **({"maxLength": bounds["length"]} if "length" in bounds else {})}
    rule = {"rule": "self.all(a, self.all(b, a.name == b.name))"}
    listed = {
        "type": "array",
        "items": {"type": "object", "properties": {"name": name}},
        "x-kubernetes-validations": [rule],
    }
    return {**listed, "maxItems": bounds["items"]} if "items" in bounds else listed


def test_rules_may_not_be_too_dear() -> None:
    def found(**properties: Any) -> list[str]:
        return [
            f"{error.field}: {error.detail}" for error in check({"type": "object", "properties": properties})
        ]

    hint = (
        "(try simplifying the rule, or adding maxItems, maxProperties, and maxLength "
        "where arrays, maps, and strings are declared)"
    )
    at = "s.properties[p].x-kubernetes-validations[0].rule"
    assert found(p=pairs(items=10, length=10)) == []
    dear = f"exceeds budget by factor of more than 100x {hint}"
    assert found(p=pairs()) == [
        f"{at}: estimated rule cost {dear}",
        f"{at}: contributed to estimated rule cost total exceeding cost limit for entire OpenAPIv3 schema",
        f"s: x-kubernetes-validations estimated rule cost total for entire OpenAPIv3 schema {dear}",
    ]
    # Bounded as it is, the rule is looked at as often as there are lists of its sort.
    within = {"type": "array", "items": pairs(items=100, length=10)}
    assert found(p=pairs(items=100, length=10)) == []
    assert any("estimated rule cost exceeds budget" in one for one in found(p=within))
    assert found(p={**within, "maxItems": 2}) == []


def test_a_schema_that_has_not_changed_may_keep_dear_rules() -> None:
    schema = {"type": "object", "properties": {"p": pairs(items=2000, length=20)}}
    assert check(schema) != []
    assert check(schema, changed=False) == []

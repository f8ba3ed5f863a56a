"""Validation rules of custom resources."""

from __future__ import annotations

from typing import Any

import pytest

from dray.api.groups.apiextensions import validationrules, values
from dray.cel.environment.schemas import escape
from dray.cel.environment.validations import CompiledRule, compile_rule

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "spec": {
            "type": "object",
            "x-kubernetes-validations": [
                {"rule": "self.replicas <= self.max", "messageExpression": "'at most ' + string(self.max)"},
                {"rule": "self.color == oldSelf.color", "message": "color is immutable", "fieldPath": ".color"},
            ],
            "properties": {
                "replicas": {"type": "integer", "x-kubernetes-validations": [{"rule": "self >= 0"}]},
                "max": {"type": "integer"},
                "color": {"type": "string"},
                "some-name": {"type": "string"},
                "tags": {"type": "array", "x-kubernetes-list-type": "set", "maxItems": 10, "items": {"type": "string", "maxLength": 5}},
                "ports": {
                    "type": "array",
                    "x-kubernetes-list-type": "map",
                    "x-kubernetes-list-map-keys": ["name"],
                    "items": {
                        "type": "object",
                        "properties": {"name": {"type": "string"}, "port": {"type": "integer"}},
                        "x-kubernetes-validations": [{"rule": "self.port >= oldSelf.port", "message": "ports only grow"}],
                    },
                },
                "when": {"type": "string", "format": "date-time"},
                "size": {"x-kubernetes-int-or-string": True},
                "labels": {"type": "object", "additionalProperties": {"type": "string"}},
            },
        }
    },
}  # fmt: skip
SPEC: dict[str, Any] = {"replicas": 1, "max": 3, "color": "red"}


def complaints(spec: dict[str, Any], old: dict[str, Any] | None = None) -> list[str]:
    before = values.MISSING if old is None else {"spec": old}
    return [
        str(error)
        for error in validationrules.apply(
            validationrules.tree(SCHEMA), {"spec": spec}, before, compile_rule, found=()
        )
    ]


def compiled(rule: dict[str, Any]) -> CompiledRule:
    return compile_rule(rule, SCHEMA, root=True)


def test_a_sound_object_has_no_complaints() -> None:
    assert complaints(SPEC, SPEC) == []


def test_broken_rules_are_reported_where_they_are() -> None:
    assert complaints({**SPEC, "replicas": 5}) == ["spec: Invalid value: at most 3"]
    assert complaints({**SPEC, "replicas": -1}) == [
        "spec.replicas: Invalid value: -1: failed rule: self >= 0"
    ]


def test_transition_rules_need_something_to_compare_with() -> None:
    assert complaints({**SPEC, "color": "blue"}) == []
    assert complaints({**SPEC, "color": "blue"}, SPEC) == ["spec.color: Invalid value: color is immutable"]


def test_elements_of_a_map_list_are_compared_by_key() -> None:
    before = {**SPEC, "ports": [{"name": "a", "port": 2}, {"name": "b", "port": 9}]}
    after = {**SPEC, "ports": [{"name": "b", "port": 8}, {"name": "c", "port": 1}]}
    assert complaints(after, before) == ["spec.ports[0]: Invalid value: ports only grow"]


def test_what_was_wrong_before_may_stay() -> None:
    assert complaints({**SPEC, "replicas": 5}, {**SPEC, "replicas": 5}) == []


def test_rules_that_fail_say_why() -> None:
    found = complaints({"replicas": 1, "color": "red"})
    assert found == [
        'spec: Invalid value: "object": no such key: max evaluating rule: self.replicas <= self.max'
    ]


@pytest.mark.parametrize(
    "rule",
    [
        "self.spec.some__dash__name == 'x'", "self.spec.tags == ['b', 'a']", "self.spec.tags + ['a', 'c'] == ['a', 'b', 'c']",
        "self.spec.when.getFullYear() == 2020", "type(self.spec.size) == string", "self.spec.labels['k'] == 'v'", "has(self.metadata.name)",
    ],
)  # fmt: skip
def test_values_have_the_types_of_their_schemas(rule: str) -> None:
    document = {
        "metadata": {"name": "n"},
        "spec": {**SPEC, "some-name": "x", "tags": ["a", "b"], "when": "2020-01-01T00:00:00Z", "size": "5%", "labels": {"k": "v"}},
    }  # fmt: skip
    assert compiled({"rule": rule}).evaluate(document, None).holds


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        ({"rule": "self.spec.nope == 1"}, "undefined field 'nope'"),
        ({"rule": "self.spec.replicas"}, "cel expression must evaluate to a bool"),
        ({"rule": "true", "messageExpression": "1"}, "messageExpression must evaluate to a string"),
        ({"rule": "true", "messageExpression": "x"}, "messageExpression compilation failed: "),
    ],
)
def test_rules_that_do_not_fit_are_refused(rule: dict[str, Any], message: str) -> None:
    found = compiled(rule)
    assert message in (found.message_verdict.error if "messageExpression" in rule else found.verdict.error)


def test_the_estimate_knows_the_bounds_of_the_schema() -> None:
    bounded = compiled({"rule": "self.spec.tags.all(t, t != 'x')"})
    unbounded = compiled({"rule": "self.spec.ports.all(p, p.name != 'x')"})
    assert bounded.verdict.max_cost < 100 < 1_000_000 < unbounded.verdict.max_cost


def test_an_object_has_a_budget() -> None:
    node = validationrules.tree(SCHEMA)
    assert node is not None
    meter = validationrules.CostBudget(left=2)
    found = list(validationrules.check(node, {"spec": SPEC}, values.MISSING, compile_rule, "", meter))
    assert [str(error) for error in found] == [
        'spec: Invalid value: "object": validation failed due to running out of cost budget, '
        "no further validation rules will be run"
    ]


def test_one_expression_has_a_limit_too() -> None:
    dear = "self.spec.tags.all(a, self.spec.tags.all(b, self.spec.tags.all(c, a + b + c != 'x')))"
    schema: dict[str, Any] = {
        "type": "object",
        "x-kubernetes-validations": [{"rule": dear, "message": "dear"}, {"rule": "false"}],
        "properties": {
            "spec": {
                "type": "object",
                "properties": {"tags": {"type": "array", "items": {"type": "string"}}},
            }
        },
    }
    document = {"spec": {"tags": [str(i) for i in range(100)]}}
    found = validationrules.apply(
        validationrules.tree(schema), document, values.MISSING, compile_rule, found=()
    )
    assert [error.detail for error in found] == [
        "'operation cancelled: actual cost limit exceeded': no further validation rules will be run due to "
        "call cost exceeds limit for rule: dear"
    ]


def test_an_optional_old_self_is_there_even_if_empty() -> None:
    rule = {
        "rule": "!oldSelf.hasValue() || oldSelf.value().spec.max == self.spec.max",
        "optionalOldSelf": True,
    }
    assert compiled(rule).evaluate({"spec": SPEC}, None).holds
    assert not compiled(rule).evaluate({"spec": SPEC}, {"spec": {**SPEC, "max": 9}}).holds


@pytest.mark.parametrize(
    ("name", "escaped"), [("a", "a"), ("a-b.c/d", "a__dash__b__dot__c__slash__d"), ("a__b", "a__underscores__b"), ("for", "__for__"), ("1a", None), ("a b", None)]
)  # fmt: skip
def test_names_are_escaped(name: str, escaped: str | None) -> None:
    assert escape(name) == escaped

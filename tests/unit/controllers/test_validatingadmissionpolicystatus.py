"""Type checks of admission policies: mistakes that show before a request does."""

from __future__ import annotations

from typing import Any

import pytest

from dray.api.scheme.kinds import Object
from dray.controllers.validatingadmissionpolicystatus import expression_warnings, kinds_of


def policy(*validations: Object | str, **spec: Any) -> Object:
    rule = {"apiGroups": ["apps"], "apiVersions": ["v1"], "operations": ["*"], "resources": ["deployments"]}
    listed = [{"expression": v} if isinstance(v, str) else v for v in validations]
    return {
        "metadata": {"name": "p"},
        "spec": {"matchConstraints": {"resourceRules": [rule]}, "validations": listed, **spec},
    }


@pytest.mark.parametrize(
    "expression",
    [
        "object.spec.replicas <= 5",
        "object.metadata.namespace == 'default' && object.kind == 'Deployment'",
        "oldObject == null || object.metadata.labels == oldObject.metadata.labels",
        "object.spec.template.spec.containers.all(c, quantity(c.resources.limits['cpu']).isInteger())",
        "object.metadata.creationTimestamp > timestamp('2020-01-01T00:00:00Z')",
        "authorizer.group('').resource('pods').check('get').allowed()",
        "request.operation == 'CREATE' && namespaceObject.metadata.name != ''",
    ],
)
def test_what_fits_raises_no_warning(expression: str) -> None:
    assert expression_warnings(policy(expression)) == []


def test_a_misspelt_field_is_found_in_expressions_and_messages() -> None:
    found = expression_warnings(
        policy(
            "true",
            {"expression": "object.spec.replcas < 5", "messageExpression": "'a' + object.spec.replicas"},
        )
    )
    assert [w["fieldRef"] for w in found] == [
        "spec.validations[1].expression",
        "spec.validations[1].messageExpression",
    ]
    assert found[0]["warning"] == (
        "apps/v1, Kind=Deployment: ERROR: <input>:1:12: undefined field 'replcas'\n"
        " | object.spec.replcas < 5\n"
        " | ...........^\n"
    )
    assert "found no matching overload for '_+_' applied to '(string, int)'" in found[1]["warning"]


def test_variables_and_parameters_have_types_too() -> None:
    spec = {
        "variables": [{"name": "n", "expression": "object.spec.replicas"}],
        "paramKind": {"apiVersion": "v1", "kind": "ConfigMap"},
    }
    assert expression_warnings(policy("variables.n < int(params.data.most)", **spec)) == []
    [found] = expression_warnings(policy("variables.n == params.data.most", **spec))
    assert "'(int, string)'" in found["warning"]
    [found] = expression_warnings(policy("params.dta.most == ''", **spec))
    assert "undefined field 'dta'" in found["warning"]


def test_rules_with_wildcards_and_unknown_kinds_are_left_alone() -> None:
    wide = policy("object.nonsense")
    [rule] = wide["spec"]["matchConstraints"]["resourceRules"]
    for change in (
        {"apiGroups": ["*"]},
        {"apiVersions": ["*"]},
        {"resources": ["*"]},
        {"resources": ["widgets"]},
    ):
        wide["spec"]["matchConstraints"]["resourceRules"] = [{**rule, **change}]
        assert kinds_of(wide) == []
        assert expression_warnings(wide) == []


def test_every_kind_of_a_rule_is_checked() -> None:
    several = policy("object.spec.replicas < 5")
    several["spec"]["matchConstraints"]["resourceRules"][0]["resources"] = ["deployments", "daemonsets"]
    [found] = expression_warnings(several)
    assert found["warning"].startswith("apps/v1, Kind=DaemonSet: ERROR")
    assert "Kind=Deployment" not in found["warning"]


def test_custom_resources_are_checked_by_the_schema_of_their_definition() -> None:
    spec = {
        "type": "object",
        "properties": {"replicas": {"type": "integer"}, "since": {"type": "string", "format": "date-time"}},
    }
    content = {"type": "object", "properties": {"spec": spec}}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": content}}
    definition: Any = {
        "spec": {"group": "stable.example.com", "names": {"kind": "CronTab"}, "versions": [version]}
    }
    rule = {"apiGroups": ["stable.example.com"], "apiVersions": ["v1"], "resources": ["crontabs"]}
    right = "object.spec.replicas > 1 && object.spec.since > timestamp('2020-01-01T00:00:00Z')"
    confused = policy(
        right,
        "object.spec.replicas > '1'",
        "object.spec.maxRetries < 10",
        matchConstraints={"resourceRules": [rule]},
    )
    found = expression_warnings(confused, {"crontabs.stable.example.com": definition}.get)
    assert [w["fieldRef"] for w in found] == [f"spec.validations[{i}].expression" for i in (1, 2)]
    assert "found no matching overload for '_>_' applied to '(int, string)'" in found[0]["warning"]
    assert found[1]["warning"].startswith("stable.example.com/v1, Kind=CronTab: ")
    assert "undefined field 'maxRetries'" in found[1]["warning"]

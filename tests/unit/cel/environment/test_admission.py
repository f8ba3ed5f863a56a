"""Expressions of admission policies: what they see, their variables, their budget, and the patches they make."""

from __future__ import annotations

import pytest

from dray.cel import CompileError, EvaluationError
from dray.cel.environment import mutation
from dray.cel.environment.admission import BUDGET, Activation, OutOfBudget, compile, compile_variables
from dray.cel.library.authz import AuthorizationAttributes, Authorizer, Decision, ResourceCheck

POD = {"metadata": {"name": "web", "labels": {"app": "x"}}, "spec": {"replicas": 3, "nodeName": "n"}}


def refused(expression: str, **options: object) -> str:
    with pytest.raises(CompileError) as wrong:
        compile(expression, **options)  # type: ignore[arg-type]
    return wrong.value.message


def test_an_expression_sees_the_request() -> None:
    activation = Activation(
        object=POD,
        request={"operation": "CREATE", "userInfo": {"username": "eve", "groups": ["a"]}},
        namespace_object={"metadata": {"labels": {"env": "prod"}}},
        params={"max": 5},
    )
    for expression in (
        "object.spec.replicas == 3 && !has(object.spec.nope)",
        "oldObject == null",
        "request.operation == 'CREATE' && 'a' in request.userInfo.groups",
        "namespaceObject.metadata.labels['env'] == 'prod'",
        "object.spec.replicas <= params.max",
    ):
        found = compile(expression, params=True).evaluate(activation, BUDGET)
        assert found.error is None and found.value is True


def test_errors_name_the_expression() -> None:
    found = compile("object.spec.nope == 1").evaluate(Activation(object=POD), BUDGET)
    assert found.error is not None
    assert found.error.message == "expression 'object.spec.nope == 1' resulted in error: no such key: nope"


def test_the_result_must_be_of_an_allowed_type() -> None:
    assert refused("1 + 1") == "must evaluate to bool but got int"
    assert refused("object.x") == "must evaluate to bool but got dyn"
    assert (
        refused("1", results=("string", "null_type"))
        == "must evaluate to one of [string null_type] but got int"
    )
    assert compile("null", results=("string", "null_type")).type.text == "null"
    assert compile("1", results=()).type.text == "int"


def test_variables_that_are_not_offered_are_not_declared() -> None:
    for name in ("params", "authorizer", "variables"):
        assert f"undeclared reference to '{name}'" in refused(f"{name}.x")


def test_variables_build_on_one_another_and_are_evaluated_once() -> None:
    variables = compile_variables(
        [("n", "object.spec.replicas"), ("double", "variables.n * 2"), ("unused", "1 / 0")]
    )
    expression = compile("variables.double == 6 && variables.double > variables.n", variables=variables)
    activation = Activation(object=POD, variables=variables)
    first = expression.evaluate(activation, BUDGET)
    second = expression.evaluate(activation, BUDGET)
    assert first.value is second.value is True
    assert first.budget < second.budget < BUDGET
    assert "undefined field 'nope'" in refused("variables.nope", variables=variables)
    assert "undefined field 'later'" in refused("variables.later == 1", variables=compile_variables([]))


def test_a_variable_that_fails_fails_the_expressions_that_use_it() -> None:
    variables = compile_variables([("bad", "nope"), ("broken", "object.x")])
    activation = Activation(object=POD, variables=variables)
    bad = compile("variables.bad == 1", variables=variables).evaluate(activation, BUDGET)
    assert bad.error is not None and 'composited variable "bad" fails to compile: ' in bad.error.message
    broken = compile("variables.broken == 1", variables=variables).evaluate(activation, BUDGET)
    assert broken.error is not None
    assert broken.error.message.endswith('composited variable "broken" fails to evaluate: no such key: x')


def test_the_budget_runs_out_across_expressions() -> None:
    expression = compile("object.spec.replicas == 3")
    activation = Activation(object=POD)
    left = expression.evaluate(activation, 10).budget
    assert left == 6
    with pytest.raises(OutOfBudget, match="validation failed due to running out of cost budget"):
        expression.evaluate(activation, 3)


def test_one_expression_has_a_limit_of_its_own() -> None:
    bomb = compile("lists.range(2000).all(a, lists.range(2000).all(b, a + b >= 0))")
    found = bomb.evaluate(Activation(), BUDGET)
    assert (
        found.error is not None and "operation cancelled: actual cost limit exceeded" in found.error.message
    )


def test_the_authorizer_gets_the_attributes_that_the_expression_names() -> None:
    asked: list[AuthorizationAttributes] = []

    def authorize(question: AuthorizationAttributes) -> Decision:
        asked.append(question)
        return Decision(allowed=question.verb == "get", reason="because")

    authorizer = Authorizer(authorize)
    activation = Activation(
        authorizer=authorizer,
        request_resource=ResourceCheck(authorizer, "", "pods", namespace="ns", name="p"),
    )
    expression = compile(
        "authorizer.group('apps').resource('deployments').subresource('scale').namespace('n').name('x').check('get').allowed()"
        " && authorizer.serviceAccount('ns', 'sa').path('/healthz').check('get').reason() == 'because'",
        authorizer=True,
    )
    found = expression.evaluate(activation, BUDGET)
    assert found.value is True and found.budget < BUDGET - 700_000
    other = compile("!authorizer.requestResource.check('delete').allowed()", authorizer=True)
    assert other.evaluate(activation, BUDGET).value is True
    assert asked[0] == AuthorizationAttributes(
        "get", group="apps", resource="deployments", subresource="scale", namespace="n", name="x"
    )
    assert asked[1] == AuthorizationAttributes("get", path="/healthz", service_account=("ns", "sa"))
    assert asked[2] == AuthorizationAttributes("delete", resource="pods", namespace="ns", name="p")


def test_an_apply_configuration_is_an_object() -> None:
    expression = compile(
        "Object{metadata: Object.metadata{labels: {'a': 'b'}}, spec: Object.spec{replicas: object.spec.replicas + 1}}",
        patch_types=True,
        results=("Object",),
    )
    made = expression.evaluate(Activation(object=POD), BUDGET).value
    mutation.check_type_names(made)
    assert mutation.to_json(made) == {"metadata": {"labels": {"a": "b"}}, "spec": {"replicas": 4}}
    assert refused("'x'", patch_types=True, results=("Object",)) == "must evaluate to Object but got string"


def test_types_of_nested_objects_must_follow_the_fields() -> None:
    expression = compile("Object{spec: Object.wrong{}}", patch_types=True, results=("Object",))
    with pytest.raises(EvaluationError) as wrong:
        mutation.check_type_names(expression.evaluate(Activation(), BUDGET).value)
    assert wrong.value.message == (
        'type mismatch: unexpected type name "Object.wrong", expected "Object.spec", '
        "which matches field name path from root Object type"
    )


def test_json_patches_are_lists_of_operations() -> None:
    expression = compile(
        "[JSONPatch{op: 'remove', path: '/spec/nodeName'},"
        " JSONPatch{op: 'add', path: '/metadata/labels/' + jsonpatch.escapeKey('a/b~c'), value: Object.x{n: 1}}]",
        patch_types=True,
        results=("list(JSONPatch)",),
    )
    operations = expression.evaluate(Activation(object=POD), BUDGET).value
    assert [operation.document() for operation in operations] == [
        {"op": "remove", "path": "/spec/nodeName"},
        {"op": "add", "path": "/metadata/labels/a~1b~0c", "value": {"n": 1}},
    ]
    assert "expected type of field 'op' is 'string' but provided type is 'int'" in refused(
        "[JSONPatch{op: 1}]", patch_types=True, results=("list(JSONPatch)",)
    )


def test_an_operation_of_a_json_patch_has_four_fields() -> None:
    """Upstream's provider of types knows a field of any name, but no type for it."""
    assert "expected type of field 'nope' is '' but provided type is 'string'" in refused(
        "[JSONPatch{nope: 'x'}]", patch_types=True, results=("list(JSONPatch)",)
    )
    late = compile("[JSONPatch{nope: dyn('x')}]", patch_types=True, results=("list(JSONPatch)",))
    assert "unexpected JSONPatchType field: nope" in str(late.evaluate(Activation(object=POD), BUDGET).error)

"""Types: what expressions have, and what does not fit."""

from __future__ import annotations

import pytest

from dray.cel import compiler
from tests.support.cel import ENVIRONMENT, refusal


def type_of(expression: str) -> str:
    return compiler.check_text(expression, ENVIRONMENT).type.text


@pytest.mark.parametrize(
    ("expression", "type"),
    [
        ("1 + 2", "int"), ("[1, 2]", "list(int)"), ("{'a': [1.0]}", "map(string, list(double))"), ("[]", "list(dyn)"),
        ("[1].map(x, string(x))", "list(string)"), ("true ? 1 : 2", "int"), ("{'a': 1}['a']", "int"),
        ("{'a': 1}[?'a']", "optional_type(int)"), ("{'a': {'b': 1}}.?a.b", "optional_type(int)"), ("type(1)", "type(int)"),
        ("[1, 2].exists(i, v, i == v)", "bool"), ("{'a': 1}.transformMap(k, v, string(v))", "map(string, string)"),
        ("dyn(1) + dyn('a')", "dyn"), ("timestamp('2020-01-01T00:00:00Z') - timestamp('2019-01-01T00:00:00Z')", "duration"),
        ("optional.none().orValue(1)", "int"), ("quantity('1').add(2)", "kubernetes.Quantity"),
        ("cel.bind(x, [1], x + [2])", "list(int)"), ("null", "null"), ("ip('::1')", "net.IP"),
    ],
)  # fmt: skip
def test_expressions_have_the_types_upstream_deduces(expression: str, type: str) -> None:
    assert type_of(expression) == type


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        ("x", "undeclared reference to 'x' (in container '')"),
        ("nope(1)", "undeclared reference to 'nope' (in container '')"),
        ("1 + 'a'", "found no matching overload for '_+_' applied to '(int, string)'"),
        ("'a'.contains(1)", "found no matching overload for 'contains' applied to 'string.(int)'"),
        ("1 == '1'", "found no matching overload for '_==_' applied to '(int, string)'"),
        ("1 && true", "expected type 'bool' but found 'int'"),
        ("1.foo", "type 'int' does not support field selection"),
        ("[1, 'a']", "expected type 'int' but found 'string'"),
        ("5.all(x, true)", "expression of type 'int' cannot be range of a comprehension (must be list, map, or dynamic)"),
        ("duration('x')", "invalid duration argument"),
        ("timestamp('x')", "invalid timestamp argument"),
        ("'a'.matches('[')", "invalid matches argument"),
        ("'%d'.format(['a'])", "error during formatting: decimal clause can only be used on integers, was given string"),
        ("'x'.format([1])", "too many arguments supplied to string.format (expected 0, got 1)"),
        ("Foo{}", "undeclared reference to 'Foo' (in container '')"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_worded_as_upstream_does(expression: str, message: str) -> None:
    first = refusal(expression).split("\n")[0]
    assert first.split(": ", 2)[2] == message


def test_all_errors_are_reported_in_the_order_of_their_places() -> None:
    found = refusal("b + a + 1 + 'x'")
    assert [line.split(": ")[1] for line in found.split("\n") if line.startswith("ERROR")] == [
        "<input>:1:1",
        "<input>:1:5",
        "<input>:1:11",
    ]


def test_a_local_variable_hides_what_is_outside() -> None:
    assert type_of("cel.bind(x, 'a', [1].map(x, x))") == "list(int)"


def test_a_conversion_that_cannot_succeed_is_found_before_the_run() -> None:
    assert (
        refusal("int('x') == 1")
        == "program instantiation failed: type conversion error from 'string' to 'int'"
    )

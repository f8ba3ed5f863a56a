"""What expressions mean: arithmetic, equality, errors that are absorbed, optionals, comprehensions."""

from __future__ import annotations

import math

import pytest

from dray.cel import CostExceeded, compiler
from dray.cel.common import types as t
from dray.cel.common.decls import Environment
from dray.cel.common.values import UInt
from tests.support.cel import ENVIRONMENT, evaluate, failure

WITH_X: Environment = ENVIRONMENT.with_variables({"x": t.DYN})


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        ("9223372036854775807 + 1", "integer overflow"),
        ("-(-9223372036854775808)", "integer overflow"),
        ("-9223372036854775808 / -1", "integer overflow"),
        ("0u - 1u", "unsigned integer overflow"),
        ("1 / 0", "division by zero"),
        ("1 % 0", "modulus by zero"),
        ("int(1e30 * 1.0)", "integer overflow"),
        ("[1][1]", "index out of bounds: 1"),
        ("{'a': 1}.b", "no such key: b"),
        ("dyn(1) + dyn('a')", "no such overload"),
        ("dyn(true) + dyn(1)", "no such overload: _+_"),
        ("dyn(1).exists(i, true)", "got 'types.Int', expected iterable type"),
        ("double('NaN') < 1.0", "NaN values cannot be ordered"),
        ("optional.none().value()", "optional.none() dereference"),
        ("quantity('1Gx')", "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"),
        ("semver('1')", "No Major.Minor.Patch elements found"),
        ("{'a': 1}.transformMapEntry(k, v, {'x': 1}) == {'x': 1} && [1, 2].transformMapEntry(i, v, {'x': v}) == {}",
         "insert failed: key x already exists"),
    ],
)  # fmt: skip
def test_failures_have_upstreams_words(expression: str, message: str) -> None:
    assert failure(expression) == message


@pytest.mark.parametrize(
    "expression",
    [
        "1 / 0 == 1 || true", "true || 1 / 0 == 1", "!(1 / 0 == 1 && false)", "[1, 0].exists(x, 1 / x == 1)",
        "![0, 2].all(x, 4 / x == 1)", "(true ? 1 : 1 / 0) == 1",
    ],
)  # fmt: skip
def test_logic_absorbs_errors_that_do_not_matter(expression: str) -> None:
    assert evaluate(expression) is True


def test_errors_that_matter_win() -> None:
    assert failure("1 / 0 == 1 && true") == "division by zero"
    assert failure("1 / 0 == 1 || 1 % 0 == 1") == "division by zero"
    assert failure("[1, 0].exists_one(x, 1 / x == 1)") == "division by zero"


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("dyn(1) == dyn(1u)", True), ("dyn(1) == dyn(1.0)", True), ("dyn(1) == dyn(true)", False), ("dyn('1') == dyn(1)", False),
        ("dyn([1, 2]) == dyn([1.0, 2.0])", True), ("dyn({1: 'a'}) == dyn({1u: 'a'})", True), ("null == null", True),
        ("1 < 1.5 && 2u > 1 && 1.0 <= 1u", True), ("dyn(9007199254740993) == dyn(9007199254740992.0)", True),
        ("b'a' < b'b'", True), ("'é' < '😀'", True), ("size('😀')", 1), ("-7 / 2", -3), ("-7 % 2", -1),
        ("1.0 / 0.0", math.inf), ("[1, 2] + [3]", [1, 2, 3]), ("1 in [1.0, 2.0].map(x, dyn(x))", True), ("2u + 1u", UInt(3)),
        ("{true: 1}[true]", 1), ("1 in {1: 'a'}", True), ("has({'a': null}.a)", True), ("'ab'.matches('^a.$')", True),
        ("string(1e21)", "1e+21"), ("string(0.1)", "0.1"), ("string(duration('1h30m'))", "5400s"), ("int('-5')", -5),
        ("timestamp('2020-02-29T12:00:00Z').getDayOfYear('America/New_York')", 59), ("type(1u) == uint", True),
        ("duration('1.5h') + duration('-30m') == duration('1h')", True), ("double('1e3')", 1000.0), ("bool('True')", True),
    ],
)  # fmt: skip
def test_values_are_what_upstream_computes(expression: str, value: object) -> None:
    found = evaluate(expression)
    assert found == value and type(found) is type(value)


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("{'a': 1}.?a.orValue(0) + {'a': 1}.?b.orValue(5)", 6), ("[?optional.none(), ?optional.of(2)]", [2]),
        ("{?'a': optional.none(), 'b': 1}", {"b": 1}), ("{'a': {'b': 2}}.?a.?b.optMap(x, x + 1).value()", 3),
        ("optional.of(1).optFlatMap(x, x > 1 ? optional.of(x) : optional.none()).hasValue()", False),
        ("[1, 2][?5].or(optional.of(7)).value()", 7), ("optional.ofNonZeroValue('').hasValue()", False),
        ("[1, 2].first().value() + [1, 2].last().value()", 3), ("[optional.of(1), optional.none()].unwrapOpt()", [1]),
    ],
)  # fmt: skip
def test_optionals(expression: str, value: object) -> None:
    assert evaluate(expression) == value


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("[1, 2, 3].filter(x, x > 1).map(x, x * 2)", [4, 6]), ("{'a': 1, 'b': 2}.map(k, k)", ["a", "b"]),
        ("[1, 2].map(x, x > 1, x)", [2]), ("[1, 1].existsOne(x, x == 1)", False), ("[5, 6].transformList(i, v, i + v)", [5, 7]),
        ("{'a': 1}.transformMap(k, v, k + string(v))", {"a": "a1"}), ("{'a': 'b'}.transformMapEntry(k, v, {v: k})", {"b": "a"}),
        ("[1, 2].all(i, v, v == i + 1)", True), ("cel.bind(a, 1, cel.bind(b, a + 1, a + b))", 3),
        ("[[1, 2], [3]].map(l, l.map(x, x + l.size()))", [[3, 4], [4]]),
    ],
)  # fmt: skip
def test_comprehensions(expression: str, value: object) -> None:
    assert evaluate(expression) == value


def test_a_quantity_refuses_to_be_compared_with_a_string_but_not_the_other_way_round() -> None:
    assert failure("dyn(quantity('1')) == dyn('1')") == "no such overload"
    assert evaluate("dyn('1') == dyn(quantity('1'))") is False
    assert evaluate("dyn(quantity('1')) != dyn('1')") is True


def test_a_bound_value_is_evaluated_only_if_it_is_used() -> None:
    assert evaluate("cel.bind(x, 1 / 0, true)") is True


@pytest.mark.parametrize(
    ("expression", "cost"),
    [
        ("x", 1), ("x.a.b", 3), ("has(x.a)", 1), ("x.a == 1", 3), ("true ? x : 1", 0), ("[1, 2].size()", 1), ("[x].size()", 12),
        ("x.a in [1, 2]", 2), ("x['a']", 2), ("x[x.k]", 3), ("[1, 2].all(i, i > 0)", 11), ("x.?z.hasValue()", 2), ("x.nope", 2),
        ("cel.bind(y, x.a, y + y)", 5), ("'ab' + x.k", 3), ("x.nope.foo || true", 2), ("dyn(1 / 0) + x.a", 5),
    ],
)  # fmt: skip
def test_evaluation_costs_what_upstream_counts(expression: str, cost: int) -> None:
    node = compiler.check_text(expression, WITH_X)
    x = {"a": {"b": 1} if expression == "x.a.b" else 1, "k": "a"}
    _, spent = compiler.program(node, WITH_X).run({"x": x}, 100)
    assert spent == cost


def test_the_cost_limit_cannot_be_absorbed() -> None:
    node = compiler.check_text("[1, 2, 3].all(x, x > 0) || true", ENVIRONMENT)
    with pytest.raises(CostExceeded, match="operation cancelled: actual cost limit exceeded"):
        compiler.program(node, ENVIRONMENT).run({}, 5)

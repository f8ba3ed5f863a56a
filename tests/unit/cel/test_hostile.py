"""Expressions meant to hurt end soon, in an error or a correct answer, and leave no mess."""

from __future__ import annotations

import pytest

from dray.cel import CompileError, CostExceeded, EvaluationError, compiler
from dray.cel.environment import devices
from dray.cel.environment.devices import Device
from tests.support.cel import ENVIRONMENT, LIMIT

SIZE = 10 * 1024


def outcome(expression: str) -> object:
    """A value, or the error of whatever stage."""
    try:
        node = compiler.check_text(expression, ENVIRONMENT)
        compiler.max_cost(node, ENVIRONMENT)
        return compiler.program(node, ENVIRONMENT).run({}, LIMIT)[0]
    except (CompileError, EvaluationError) as failed:
        return failed


@pytest.mark.parametrize(
    "expression",
    [
        "(" * SIZE, "[" * SIZE, "{" * SIZE, "!" * SIZE, "-" * SIZE, "a." * (SIZE // 2), "a[" * (SIZE // 2), "f(" * (SIZE // 2), "1+" * (SIZE // 2),
        "true?" * (SIZE // 5), "@#$%" * (SIZE // 4), "'" * SIZE, "a " * (SIZE // 2), "\x00" * SIZE, "é" * (SIZE // 2), ":" * SIZE,
        "&&".join(["true"] * (SIZE // 6)) + "&&", "f(" + "," * SIZE, "a.b" * (SIZE // 3) + "{",
    ],
)  # fmt: skip
def test_long_nonsense_is_refused(expression: str) -> None:
    assert isinstance(outcome(expression[:SIZE]), CompileError)


@pytest.mark.parametrize(
    "expression",
    [
        "[" * 120 + "1" + "]" * 120 + " == []", "&&".join(["true"] * 1700), "[1]" + ".map(x, x)" * 200 + " == [1]",
        "[1].all(a, " * 100 + "true" + ")" * 100, "cel.bind(x, 1, " * 200 + "x == 1" + ")" * 200, "{" + ",".join(f"{i}: 1" for i in range(1000)) + "} != {}",
        "!" * 10_000 + "true", "(" * 249 + "true" + ")" * 249, "true ? (" * 120 + "true" + ") : false" * 120,
    ],
)  # fmt: skip
def test_deep_and_long_expressions_that_are_sound_work(expression: str) -> None:
    assert isinstance(outcome(expression), bool)


DIGITS = "9" * 5000
NOON = "timestamp('2024-01-01T12:00:00Z')"


@pytest.mark.parametrize(
    "expression",
    [
        f"duration('{DIGITS}s') == duration('1s')", f"{NOON}.getHours('{DIGITS}:00') == 1", f"{NOON}.getHours('-111111111111:00') == 1",
        f"quantity('{DIGITS}') == quantity('1')", f"quantity('{'0' * 5000}!') == quantity('1')", f"double('0x{'1' * 5000}') == 1.0", f"double('{'1' * 5000}x') == 1.0",
    ],
)  # fmt: skip
def test_numbers_that_nothing_can_hold_are_errors(expression: str) -> None:
    assert isinstance(outcome(expression), CompileError | EvaluationError)


@pytest.mark.parametrize(
    "expression",
    [
        # Values that double or square with every step, at little cost in units.
        "cel.bind(a, [1, 2, 3, 4], " + "".join("cel.bind(a, a + a, " for _ in range(60)) + "a.size() > 0" + ")" * 61,
        "cel.bind(a, 'aaaaaaaaaa', " + "cel.bind(a, a + a, " * 60 + "a.size() > 0" + ")" * 61,
        "cel.bind(a, 'aaaaaaaaaa', " + "cel.bind(a, a.replace('a', a), " * 10 + "a.size() > 0" + ")" * 11,
        "cel.bind(a, ['aaaaaaaaaa'], " + "cel.bind(a, [a.join(), a.join(), a.join()], " * 40 + "a.size() > 0" + ")" * 41,
        "cel.bind(a, 'aaaaaaaaaa', " + "cel.bind(a, '%s%s%s%s'.format([a, a, a, a]), " * 40 + "a.size() > 0" + ")" * 41,
        "lists.range(1000000000000) == []",
        "lists.range(100000).map(x, lists.range(100000)).size() > 0",
        "lists.range(5000).all(a, lists.range(5000).all(b, a + b >= 0))",
        "lists.range(100000).distinct().size() == 0",
        "lists.range(100000).reverse().sort().size() == 0",
        "sets.contains(lists.range(10000), lists.range(10000))",
    ],
)  # fmt: skip
def test_bombs_are_stopped_by_the_cost_limit(expression: str) -> None:
    assert isinstance(outcome(expression), CostExceeded)


def test_precision_is_bounded() -> None:
    found = outcome("'%.999999999999f'.format([1.0]) == ''")
    assert isinstance(found, CompileError | EvaluationError)


def test_catastrophic_patterns_take_linear_time() -> None:
    assert outcome(f"'{'a' * 5000}b'.matches('^(a+)+$')") is False
    assert outcome("'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa!'.matches('(a|a)*$')") is True
    assert isinstance(outcome("'a'.matches('(a{1000}){1000}')"), CompileError)


def test_a_chain_of_macros_that_copy_does_not_explode() -> None:
    assert isinstance(outcome("optional.of(1)" + ".optMap(x, x)" * 200), CompileError)


def test_types_made_up_by_expressions_do_not_pile_up() -> None:
    from dray.cel.common import types

    before = len(types._interned)
    for i in range(50):
        outcome("[" * 20 + f"{i}" + "]" * 20 + f" == []{'.map(x, x)' * i}")
    assert len(types._interned) - before < 500


def test_a_selector_of_the_largest_size_compiles_or_is_refused() -> None:
    term = 'device.attributes["gpu.example.com"].model == "A100" || '
    expression = term * (SIZE // len(term) - 1) + "true"
    assert devices.compile(expression).matches(Device.of("gpu.example.com", {})) is True

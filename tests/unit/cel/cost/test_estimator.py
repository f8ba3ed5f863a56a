"""The static estimate: what an expression costs at worst."""

from __future__ import annotations

import pytest

from dray.cel import compiler
from dray.cel.common import types as t
from dray.cel.cost import estimator
from dray.cel.cost.sizes import UNBOUNDED, Path, Range
from tests.support.cel import ENVIRONMENT

WITH_INPUT = ENVIRONMENT.with_variables(
    {"list": t.list_of(t.STRING), "text": t.STRING, "map": t.map_of(t.STRING, t.INT)}
)


def hints(path: Path) -> Range | None:
    """Ten elements of at most a hundred characters."""
    match path:
        case ("list",) | ("map",):
            return Range(0, 10)
        case ("text",) | ("list", "@items") | ("map", "@keys"):
            return Range(0, 100)
    return None


def estimated(expression: str) -> tuple[int, int]:
    node = compiler.check_text(expression, WITH_INPUT)
    return tuple(estimator.estimate(node, hints=hints, estimators=WITH_INPUT.estimators))


@pytest.mark.parametrize(
    ("expression", "range"),
    [
        ("1", (0, 0)), ("text", (1, 1)), ("map.a", (2, 2)), ("has(map.a)", (1, 1)), ("[1, 2]", (10, 10)), ("{'a': 1}", (30, 30)),
        ("text == 'abcdefghij'", (2, 2)), ("text == text", (3, 12)), ("text.contains('abc')", (1, 11)), ("text + text", (2, 22)),
        ("text.matches('a+b+')", (2, 12)), ("'x' in list", (1, 11)), ("list.all(x, x != '')", (2, 42)), ("list.map(x, x)", (12, 142)),
        ("list.exists(x, x.startsWith('ab'))", (2, 62)), ("list.join(',')", (1, 102)), ("text.split(',')", (1, 21)),
        ("true && list.size() > 1", (0, 3)), ("true ? text.size() : 1", (0, 2)), ("list.isSorted()", (1, 111)), ("list.sort()", (12, 222)),
        ("sets.contains(list, list)", (3, 103)), ("cel.bind(x, text, x + x)", (13, 33)), ("map.transformMap(k, v, v + 1)", (32, 82)),
        ("text.replace('a', 'bb')", (1, 21)), ("quantity('100').compareTo(quantity('1'))", (3, 3)), ("lists.range(5)", (16, 16)),
        ("list.filter(x, x.size() > 1).size()", (13, 173)), ("dyn(text)", (2, 2)), ("ip('1.2.3.4').family()", (2, 2)),
    ],
)  # fmt: skip
def test_estimates(expression: str, range: tuple[int, int]) -> None:
    assert estimated(expression) == range


def test_what_has_no_bound_saturates() -> None:
    environment = ENVIRONMENT.with_variables({"l": t.list_of(t.INT)})
    node = compiler.check_text("l.all(a, l.all(b, a == b))", environment)
    assert estimator.estimate(node).high == UNBOUNDED


def test_the_estimate_is_never_below_what_a_run_costs() -> None:
    variables = {"list": ["x" * 100] * 10, "text": "y" * 100, "map": {str(i): i for i in range(10)}}
    for expression in (
        "list.all(x, x != text)",
        "list.map(x, x + text).size() == 10",
        "map.all(k, map[k] >= 0)",
        "list.exists(x, x.matches('^y+$'))",
        "text.split('y').join('z').size() > 5",
        "list.sortBy(x, x.size()).size() == 10",
    ):
        node = compiler.check_text(expression, WITH_INPUT)
        _, spent = compiler.program(node, WITH_INPUT).run(variables, 10**9)
        assert spent <= estimator.estimate(node, hints=hints, estimators=WITH_INPUT.estimators).high, (
            expression
        )

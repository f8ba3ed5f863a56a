"""Lists as sets: ``sets.contains``, ``sets.equivalent``, ``sets.intersects``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from dray.cel.common.decls import Library, overload
from dray.cel.common.operators import contains
from dray.cel.common.values import Value
from dray.cel.cost.runtime import Price, actual_size
from dray.cel.cost.sizes import ONE, CallEstimate, FunctionEstimator, SizedNode


def _contains(values: list[Value], part: list[Value]) -> bool:
    return all(contains(value, values) for value in part)


def _equivalent(a: list[Value], b: list[Value]) -> bool:
    return _contains(a, b) and _contains(b, a)


def _intersects(a: list[Value], b: list[Value]) -> bool:
    return any(contains(value, b) for value in a)


def _estimated(factor: float) -> FunctionEstimator:
    def estimate(target: SizedNode | None, args: list[SizedNode]) -> CallEstimate | None:
        if len(args) != 2:
            return None
        return CallEstimate(args[0].known.times(args[1].known).scaled(factor).plus(ONE))

    return estimate


def _metered(factor: float) -> Price:
    def meter(args: Sequence[Value], result: Value) -> int:
        return 1 + int(actual_size(args[0]) * actual_size(args[1]) * factor)

    return meter


SETS: Final = Library(
    name="cel.lib.ext.sets",
    overloads=(
        overload("sets.contains", "list_sets_contains_list", "(list(T), list(T)) -> bool", _contains),
        overload("sets.equivalent", "list_sets_equivalent_list", "(list(T), list(T)) -> bool", _equivalent),
        overload("sets.intersects", "list_sets_intersects_list", "(list(T), list(T)) -> bool", _intersects),
    ),
    estimators={
        "list_sets_contains_list": _estimated(1),
        "list_sets_intersects_list": _estimated(1),
        "list_sets_equivalent_list": _estimated(2),
    },
    prices={
        "list_sets_contains_list": _metered(1),
        "list_sets_intersects_list": _metered(1),
        "list_sets_equivalent_list": _metered(2),
    },
)

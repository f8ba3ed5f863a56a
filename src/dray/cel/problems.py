"""Selectors in bulk: read cases, one JSON object a line, and answer each."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from dray.cel.environment import devices
from dray.cel.errors import CompileError


def answers(cases: Iterable[Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
    """The answer to each case: a match, a compile error or an evaluation error, with the costs."""
    return (answer(case) for case in cases)


def answer(case: Mapping[str, Any]) -> dict[str, Any]:
    lists = bool(case.get("listTypeAttributes"))
    said: dict[str, Any] = {"name": case["name"], "listTypeAttributes": lists}
    try:
        selector = devices.compile(
            case["expression"],
            list_attributes=lists,
            consumable_capacity=bool(case.get("consumableCapacity")),
            stored=not case.get("newExpressionsOnly"),
        )
    except CompileError as wrong:
        return {**said, "compileError": wrong.message}
    outcome = selector.outcome(devices.Device.of(case["driver"], case))
    said |= {"maxCost": selector.max_cost, "actualCost": outcome.cost}
    if outcome.error is not None:
        return {**said, "evalError": outcome.error.message}
    return {**said, "match": outcome.match}

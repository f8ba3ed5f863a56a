"""Selector cases as single documents, answered by ``dray cel --problems``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dray.cel.environment import devices
from dray.cel.errors import CompileError

if TYPE_CHECKING:
    from dray.api.types import resource

    class Case(resource.Device, total=False):
        """A device, its driver, and the selector to evaluate on it."""

        driver: str
        expression: str
        listTypeAttributes: bool
        consumableCapacity: bool
        newExpressionsOnly: bool


def answer(case: Case) -> dict[str, Any]:
    """The answer to a case: a match, a compile error or an evaluation error, with the costs."""
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

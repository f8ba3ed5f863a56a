"""CEL in claims and classes: compiled, type-checked and held to a cost limit by the injected compiler."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from dray.api.groups.resource import limits
from dray.api.groups.resource.validation.checks import Errors, within
from dray.api.scheme.strategy import Context
from dray.api.validation import field
from dray.api.validation.expressions import Environment
from dray.api.validation.field import Path
from dray.api.validation.names import size

if TYPE_CHECKING:
    from dray.api.types.resource import DeviceSelector

_TOO_COMPLEX = "too complex, exceeds cost limit"


def selectors(listed: Sequence[DeviceSelector], path: Path, ctx: Context, errs: Errors) -> None:
    """A list of device selectors found under ``path``.selectors."""
    if not within(listed, limits.SELECTORS, path, "selectors", errs):
        return
    for i, selector in enumerate(listed):
        cel = selector.get("cel")
        if cel is None:
            errs.append(field.required(path.child("selectors").index(i).child("cel")))
        else:
            here = path.child("selectors").index(i).child("cel", "expression")
            expression(cel.get("expression", ""), here, ctx, errs)


def expression(
    text: str, path: Path, ctx: Context, errs: Errors, environment: Environment = Environment.DEVICE
) -> int:
    """Check one expression and say what evaluating it may cost at most."""
    if size(text) > limits.EXPRESSION:
        errs.append(field.too_long(path, limits.EXPRESSION))
        return 0
    verdict = ctx.expressions(
        text,
        environment=environment,
        list_attributes="DRAListTypeAttributes" in ctx.gates,
        consumable_capacity="DRAConsumableCapacity" in ctx.gates,
    )
    if verdict.error and verdict.internal:
        errs.append(field.internal(path, verdict.error))
        return 0
    if verdict.error:
        errs.append(field.invalid(path, text, verdict.error))
        return 0
    if verdict.max_cost > limits.EXPRESSION_COST:
        errs.append(field.forbidden(path, _TOO_COMPLEX))
    return verdict.max_cost

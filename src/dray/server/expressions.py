"""Compiles the CEL expressions that validation asks about. CEL is imported when the first expression is seen."""

from __future__ import annotations

from functools import lru_cache

from dray.api.expressions import Environment, Verdict


@lru_cache(maxsize=4096)
def compile_expression(
    expression: str,
    *,
    environment: Environment = Environment.DEVICE,
    list_attributes: bool = False,
    consumable_capacity: bool = True,
) -> Verdict:
    """The verdict on an expression, as ``Context.expressions`` promises it."""
    from dray.cel import CompileError, Kind

    try:
        match environment:
            case Environment.DEVICE:
                from dray.cel import devices

                found = devices.compile(
                    expression, list_attributes=list_attributes, consumable_capacity=consumable_capacity
                )
                return Verdict(max_cost=found.max_cost)
            case _:
                return Verdict()
    except CompileError as e:
        return Verdict(e.message, internal=e.kind is Kind.INTERNAL)

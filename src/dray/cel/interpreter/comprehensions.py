"""Comprehensions at run time: a loop over a list or map with an accumulator that is set when first read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from dray.cel.common.go_format import go_string
from dray.cel.common.values import Map, Value, go_type_of, is_list, is_map, make_map
from dray.cel.cost import runtime
from dray.cel.errors import CostExceeded, EvaluationError
from dray.cel.interpreter.attributes import Frame, Interpretable

UNSET: Final = object()


def _failed(value: Value) -> bool:
    return value.__class__ is EvaluationError


def local(slot: int) -> Interpretable:
    """Read a local variable."""

    def read(frame: Frame) -> Value:
        return frame.locals[slot]

    return read


def accumulated(slot: int, initial: Interpretable, *, grows: bool) -> Interpretable:
    """Read the accumulator, setting it to its initial value if this is the first time."""

    def read(frame: Frame) -> Value:
        value = frame.locals[slot]
        if value is UNSET:
            value = initial(frame)
            if grows and not _failed(value):
                # The loop's own list or map may grow in place: nobody else has seen it.
                value = list(value) if is_list(value) else Map(value.items())
            frame.locals[slot] = value
        return value

    return read


@dataclass(frozen=True, slots=True)
class Slots:
    """Where a comprehension keeps its variables; ``second`` is None if there is one variable."""

    accumulator: int
    first: int
    second: int | None


def fold(
    range: Interpretable,
    slots: Slots,
    condition: Interpretable,
    step: Interpretable,
    result: Interpretable,
    *,
    grows: bool,
) -> Interpretable:
    """The loop: errors of single steps are the accumulator's business, only the range must be sound."""
    accumulator, first, second = slots.accumulator, slots.first, slots.second

    def run(frame: Frame) -> Value:
        locals = frame.locals
        locals[accumulator] = UNSET
        values = range(frame)
        if values.__class__ is EvaluationError:
            return values
        entries = _entries(values, pairs=second is not None)
        if entries.__class__ is EvaluationError:
            return entries
        limit = frame.limit
        for entry in entries:
            if second is None:
                locals[first] = entry
            else:
                locals[first], locals[second] = entry
            if condition(frame) is False:
                break
            locals[accumulator] = step(frame)
            if frame.cost > limit:
                raise CostExceeded
        value = result(frame)
        return make_map(value.items()) if grows and type(value) is Map else value

    return run


def _entries(values: Value, *, pairs: bool) -> Any:
    """What a loop goes over: elements or keys, or with two variables index and element, key and value."""
    if is_list(values):
        return enumerate(values) if pairs else values
    if is_map(values):
        return values.items() if pairs else values
    if pairs:
        return EvaluationError(f"unsupported comprehension range type: {go_type_of(values)}")
    return EvaluationError(f"got '{go_type_of(values)}', expected iterable type")


def append_to(accumulated: Interpretable, addition: Interpretable) -> Interpretable:
    def append(frame: Frame) -> Value:
        values = accumulated(frame)
        more = addition(frame)
        frame.cost += runtime.SELECT + 1
        if _failed(values):
            return values
        if _failed(more):
            return more
        values += more
        return values

    return append


def insert_into(accumulated: Interpretable, additions: list[Interpretable]) -> Interpretable:
    def insert(frame: Frame) -> Value:
        values = accumulated(frame)
        frame.cost += runtime.SELECT
        if _failed(values):
            if len(additions) == 1:
                additions[0](frame)
                frame.cost += 1
            return values
        given: list[Value] = []
        for addition in additions:
            value = addition(frame)
            if _failed(value):
                frame.cost += len(additions) == 1
                return value
            given.append(value)
        frame.cost += 1
        added = [tuple(given)] if len(given) == 2 else list(given[0].items())
        for key, value in added:
            if not values.insert(key, value):
                return EvaluationError(f"insert failed: key {go_string(key)} already exists")
        return values

    return insert

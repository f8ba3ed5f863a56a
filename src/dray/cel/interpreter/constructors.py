"""Lists, maps and messages written down: how they are built from the values of their parts."""

from __future__ import annotations

from collections.abc import Callable

from dray.cel.common.go_format import go_string
from dray.cel.common.values import Optional, Value, equal, make_map
from dray.cel.errors import EvaluationError
from dray.cel.interpreter.attributes import Frame, Interpretable


def build_list(elements: list[tuple[Interpretable, bool]]) -> Interpretable:
    """A list of elements; one marked optional is left out if it is empty."""

    def build(frame: Frame) -> Value:
        values: list[Value] = []
        for step, optional in elements:
            value = step(frame)
            if value.__class__ is EvaluationError:
                return value
            if optional:
                if type(value) is not Optional:
                    return EvaluationError(
                        f"cannot initialize optional list element from non-optional value {go_string(value)}"
                    )
                if not value.present:
                    continue
                value = value.value
            values.append(value)
        return values

    return build


def _entry_error(key: str, value: Value) -> EvaluationError:
    return EvaluationError(
        f"cannot initialize optional entry '{key}' from non-optional value {go_string(value)}"
    )


def build_map(entries: list[tuple[Interpretable, Interpretable, bool]]) -> Interpretable:
    """A map of keys and values; an optional entry that is empty also removes an earlier one of its key."""

    def build(frame: Frame) -> Value:
        values: list[tuple[Value, Value]] = []
        for key_step, value_step, optional in entries:
            key = key_step(frame)
            if key.__class__ is EvaluationError:
                return key
            value = value_step(frame)
            if value.__class__ is EvaluationError:
                return value
            if optional:
                if type(value) is not Optional:
                    return _entry_error(go_string(key), value)
                if not value.present:
                    values = [(k, v) for k, v in values if not equal(k, key)]
                    continue
                value = value.value
            values.append((key, value))
        try:
            return make_map(values)
        except EvaluationError as failed:
            return failed

    return build


def build_message(
    fields: list[tuple[str, Interpretable, bool]], make: Callable[[dict[str, Value]], Value]
) -> Interpretable:
    """A message of named fields."""

    def build(frame: Frame) -> Value:
        values: dict[str, Value] = {}
        for name, step, optional in fields:
            value = step(frame)
            if value.__class__ is EvaluationError:
                return value
            if optional:
                if type(value) is not Optional:
                    return _entry_error(name, value)
                if not value.present:
                    values.pop(name, None)
                    continue
                value = value.value
            values[name] = value
        try:
            return make(values)
        except EvaluationError as failed:
            return failed

    return build


def with_cost(build: Interpretable, cost: int) -> Interpretable:
    """Building something, with what it costs to make one of its kind."""

    def construct(frame: Frame) -> Value:
        value = build(frame)
        frame.cost += cost
        return value

    return construct


def constant(build: Interpretable) -> Value:
    """What is built from constants alone, or an error."""
    return build(Frame({}, [], 0))

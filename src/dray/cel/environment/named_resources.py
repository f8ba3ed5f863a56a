"""Selectors of Kubernetes 1.30's structured parameters: ``attributes.<type>["name"]`` over named instances."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, Literal

from dray.api.quantity import Quantity
from dray.api.release import V1_29, V1_30
from dray.api.textcache import cache_by_length
from dray.api.validation.field import quote
from dray.cel import compiler
from dray.cel.common import types as t
from dray.cel.common.decls import Environment
from dray.cel.common.values import QUANTITY, SEMVER, Value
from dray.cel.environment.base import PER_CALL_LIMIT, base, parse_version
from dray.cel.errors import CompileError, EvaluationError
from dray.cel.interpreter.planner import Program
from dray.cel.library.semver import semver

if TYPE_CHECKING:
    from dray.api.types.resource_v1alpha2 import (
        NamedResourcesAttribute,
        NamedResourcesIntSlice,
        NamedResourcesStringSlice,
    )

#: The attributes of an instance as the API has them: a name and one value, whose field tells its type.
Attributes = Sequence["NamedResourcesAttribute"]
Field = Literal["quantity", "bool", "int", "intSlice", "string", "stringSlice", "version"]


def _same(value: Any) -> Any:
    return value


def _ints(value: NamedResourcesIntSlice) -> Value:
    return value.get("ints") or []


def _strings(value: NamedResourcesStringSlice) -> Value:
    return value.get("strings") or []


# By the name of the variable: its type, the field that holds such a value, and how to read it.
_VARIABLES: Final[dict[str, tuple[t.Type, Field, Callable[[Any], Value]]]] = {
    "quantity": (QUANTITY, "quantity", Quantity.from_json),
    "bool": (t.BOOL, "bool", _same),
    "int": (t.INT, "int", _same),
    "intslice": (t.list_of(t.INT), "intSlice", _ints),
    "string": (t.STRING, "string", _same),
    "stringslice": (t.list_of(t.STRING), "stringSlice", _strings),
    "version": (SEMVER, "version", parse_version),
}


@lru_cache
def environment(*, stored: bool = False) -> Environment:
    """What a selector may refer to in 1.30; a new one only what 1.29 knew already, the attributes aside."""
    variables = {f"attributes.{name}": t.map_of(t.STRING, kind) for name, (kind, _, _) in _VARIABLES.items()}
    return base(V1_30 if stored else V1_29).with_libraries(semver(0)).with_variables(variables)


class Selector:
    """A compiled selector."""

    __slots__ = ("_program", "expression")

    def __init__(self, expression: str, program: Program) -> None:
        self.expression = expression
        self._program = program

    def matches(self, attributes: Attributes) -> bool:
        """Whether an instance with these attributes is selected; EvaluationError if that cannot be told."""
        value, _ = self._program.run(_values(attributes), PER_CALL_LIMIT)
        if isinstance(value, EvaluationError):
            raise value
        return value is True


@cache_by_length(1 << 17)
def compile(expression: str, *, stored: bool = False) -> Selector:
    """A selector from its text, or CompileError in upstream's words."""
    declared = environment(stored=stored)
    node = compiler.check_text(expression, declared)
    if node.type is not t.BOOL:
        raise CompileError("must evaluate to bool")
    return Selector(expression, compiler.program(node, declared))


def _values(attributes: Attributes) -> dict[str, dict[str, Value]]:
    values: dict[str, dict[str, Value]] = {}
    for name, (_, field, read) in _VARIABLES.items():
        found = values[f"attributes.{name}"] = {}
        for i, attribute in enumerate(attributes):
            given = attribute.get(field)
            if given is None:
                continue
            try:
                found[attribute["name"]] = read(given)
            except ValueError as wrong:
                # Upstream prints the position as if it were a character.
                shown = "'" + quote(chr(i))[1:-1] + "'"
                raise EvaluationError(
                    f"extract attributes with type {name}: attribute {shown}: {wrong}"
                ) from None
    return values

"""Selectors of Kubernetes 1.30's structured parameters: ``attributes.<type>["name"]`` over named instances."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final

from dray.api.quantity import Quantity
from dray.api.semver import Version
from dray.api.validation.field import quote
from dray.cel import compiler
from dray.cel.common import types as t
from dray.cel.common.decls import Environment
from dray.cel.common.values import QUANTITY, SEMVER, Value
from dray.cel.environment.base import Release, base
from dray.cel.errors import CompileError, EvaluationError
from dray.cel.interpreter.planner import Program
from dray.cel.library.semver import semver

PER_CALL_LIMIT: Final = 1_000_000
Attributes = Sequence[Mapping[str, Any]]
"""The attributes of an instance as the API has them: a name and one value, whose field tells its type."""


def _version(text: str) -> Version:
    try:
        return Version.parse(text)
    except ValueError as wrong:
        raise ValueError(f"parse semantic version: {wrong}") from None


def _same(value: Any) -> Any:
    return value


# By the name of the variable: its type, the field that holds such a value, and how to read it.
_VARIABLES: Final[dict[str, tuple[t.Type, str, Callable[[Any], Value]]]] = {
    "quantity": (QUANTITY, "quantity", Quantity.from_json),
    "bool": (t.BOOL, "bool", _same),
    "int": (t.INT, "int", _same),
    "intslice": (t.list_of(t.INT), "intSlice", lambda value: value.get("ints") or []),
    "string": (t.STRING, "string", _same),
    "stringslice": (t.list_of(t.STRING), "stringSlice", lambda value: value.get("strings") or []),
    "version": (SEMVER, "version", _version),
}


@lru_cache
def environment(*, stored: bool = False) -> Environment:
    """What a selector may refer to in 1.30; a new one only what 1.29 knew already, the attributes aside."""
    variables = {f"attributes.{name}": t.map_of(t.STRING, kind) for name, (kind, _, _) in _VARIABLES.items()}
    known = Release(1, 30) if stored else Release(1, 29)
    return base(known).with_libraries(semver(0)).with_variables(variables)


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


@lru_cache(maxsize=1024)
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

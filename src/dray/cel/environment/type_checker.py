"""The expressions of admission policies checked against the types of the objects that the policy matches.

A policy's expressions run on documents of any shape. Where the kinds that a policy matches are known, the type checker
finds mistakes such as a misspelt field. They are warnings, because the expression may be right for other kinds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from dray.api.schema import ListOf, MapOf, Scalar, Struct, Type
from dray.cel import compiler
from dray.cel.common import types as t
from dray.cel.common.decls import Environment
from dray.cel.environment import admission
from dray.cel.environment.base import VARIABLES_TYPE
from dray.cel.errors import CompileError

_SCALARS: Final[Mapping[str, t.Type]] = {
    "string": t.STRING,
    "bool": t.BOOL,
    "int32": t.INT,
    "int64": t.INT,
    "float64": t.DOUBLE,
    "time": t.TIMESTAMP,
    "microtime": t.TIMESTAMP,
    "duration": t.STRING,
    "bytes": t.BYTES,
}
_PREFIX: Final = "compilation failed: "


class _Types:
    """CEL's types of the API's types; structs become messages under their own names."""

    def __init__(self) -> None:
        self.messages: dict[str, Mapping[str, t.Type]] = {}

    def of(self, type_: Type) -> t.Type:
        match type_:
            case Scalar():
                # Quantities are strings or numbers, raw values anything.
                return _SCALARS.get(type_.base, t.DYN)
            case ListOf():
                return t.list_of(self.of(type_.item))
            case MapOf():
                return t.map_of(t.STRING, self.of(type_.value))
            case Struct():
                return self._struct(type_)
        return t.DYN

    def _struct(self, type_: Struct) -> t.Type:
        if type_.open_ended:
            return t.DYN
        if type_.name not in self.messages:
            self.messages[type_.name] = {}  # a struct may hold itself
            self.messages[type_.name] = {f.name: self.of(f.type) for f in type_.fields}
        return t.object_type(type_.name)


def environment(object_type: Struct | None, params_type: Struct | None, *, params: bool) -> Environment:
    """What an expression sees where objects and parameters have these types; None: unknown."""
    types = _Types()
    variables = {"object": t.DYN if object_type is None else types.of(object_type)}
    if object_type is not None:
        common = {"apiVersion": t.STRING, "kind": t.STRING}
        types.messages[object_type.name] = {**common, **types.messages[object_type.name]}
    variables["oldObject"] = variables["object"]
    if params:
        variables["params"] = t.DYN if params_type is None else types.of(params_type)
    known = admission.environment(params=params, authorizer=True, stored=True)
    return known.with_messages(types.messages).with_variables(variables)


def type_errors(expression: str, declared: Environment, variables: Sequence[tuple[str, str]]) -> str:
    """What is wrong with an expression, in cel-go's words; empty if nothing is.

    ``variables`` are those of the policy; one that is itself wrong can be anything.
    """
    types: dict[str, t.Type] = {}
    for name, text in variables:
        try:
            types[name] = compiler.check_text(text, _with(declared, types)).type
        except CompileError:
            types[name] = t.DYN
    try:
        compiler.check_text(expression, _with(declared, types))
    except CompileError as e:
        return e.message.removeprefix(_PREFIX)
    return ""


def _with(declared: Environment, types: Mapping[str, t.Type]) -> Environment:
    return declared.with_messages({VARIABLES_TYPE: types}).with_variables(
        {"variables": t.object_type(VARIABLES_TYPE)}
    )

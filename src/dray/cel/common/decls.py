"""Declarations: the functions, variables, types and macros an expression may use.

A function's overloads are written as signatures, ``"string.(int) -> string"`` for a method and
``"(A, list(A)) -> bool"`` for a plain function, where single capital letters are type parameters.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

from dray.cel.common import types as t
from dray.cel.parser.macros import Macro, MacroKey

if TYPE_CHECKING:
    from dray.cel.cost.runtime import Price
    from dray.cel.cost.sizes import FunctionEstimator

Implementation = Callable[..., Any]


@dataclass(frozen=True, slots=True, eq=False)
class Overload:
    """One signature of a function and what it does.

    ``variadic`` marks what upstream binds as a function of any number of arguments: such a call stops at the
    first argument that fails, while one- and two-argument bindings evaluate all of them.
    """

    function: str
    id: str
    args: tuple[t.Type, ...]
    result: t.Type
    member: bool
    implementation: Implementation | None
    variadic: bool = False
    guarded: bool = True
    params: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class Function:
    """A function: its overloads in the order of declaration.

    An operator has one implementation for all overloads.
    """

    name: str
    overloads: tuple[Overload, ...]
    singleton: Implementation | None = None

    def with_overloads(self, more: Iterable[Overload]) -> Function:
        known = {o.id: o for o in self.overloads}
        known.update((o.id, o) for o in more)
        return replace(self, overloads=tuple(known.values()))


_SIGNATURE: Final = re.compile(r"(?:(?P<target>[^-]*?)\.)?\((?P<args>.*)\) -> (?P<result>.+)", re.DOTALL)
_NAMES: Final = {
    "bool": t.BOOL,
    "int": t.INT,
    "uint": t.UINT,
    "double": t.DOUBLE,
    "string": t.STRING,
    "bytes": t.BYTES,
    "null": t.NULL,
    "dyn": t.DYN,
    "timestamp": t.TIMESTAMP,
    "duration": t.DURATION,
}


@lru_cache(maxsize=512)
def parse_type(text: str) -> t.Type:
    """A type from its written form: ``list(A)``, ``map(string, int)``, ``kubernetes.Quantity`` …"""
    text = text.strip()
    if text in _NAMES:
        return _NAMES[text]
    if len(text) == 1 and text.isupper():
        return t.type_param(text)
    if text.endswith(")"):
        head, _, inner = text[:-1].partition("(")
        params = [parse_type(part) for part in _split(inner)]
        match head:
            case "list":
                return t.list_of(*params)
            case "map":
                return t.map_of(*params)
            case "optional":
                return t.optional_of(*params)
            case "type":
                return t.type_of(*params)
            case _:
                return t.opaque(head, *params)
    return t.object_type(text)


def _split(text: str) -> list[str]:
    parts: list[str] = []
    depth = start = 0
    for i, c in enumerate(text):
        depth += (c == "(") - (c == ")")
        if c == "," and depth == 0:
            parts.append(text[start:i])
            start = i + 1
    if text[start:].strip():
        parts.append(text[start:])
    return parts


def overload(
    function: str,
    id: str,
    signature: str,
    implementation: Implementation | None = None,
    *,
    variadic: bool = False,
    guarded: bool = True,
) -> Overload:
    """An overload from its signature."""
    shape = _SIGNATURE.fullmatch(signature)
    assert shape is not None, signature
    args = [parse_type(part) for part in _split(shape["args"])]
    target = shape["target"]
    if target:
        args.insert(0, parse_type(target))
    result = parse_type(shape["result"])
    params = dict.fromkeys(name for part in (*args, result) for name in _params(part))
    return Overload(
        function=function,
        id=id,
        args=tuple(args),
        result=result,
        member=bool(target),
        implementation=implementation,
        variadic=variadic or len(args) > 2 or not args,
        guarded=guarded,
        params=tuple(params),
    )


def _params(type: t.Type) -> Iterable[str]:
    if type.kind == "param":
        yield type.name
    for inner in type.params:
        yield from _params(inner)


@dataclass(frozen=True, slots=True)
class Library:
    """A set of declarations that is switched on together."""

    name: str
    overloads: tuple[Overload, ...] = ()
    functions: tuple[Function, ...] = ()
    macros: Mapping[MacroKey, Macro] = field(default_factory=dict)
    types: tuple[t.Type, ...] = ()
    estimators: Mapping[str, FunctionEstimator] = field(default_factory=dict)
    prices: Mapping[str, Price] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Environment:
    """Everything an expression may refer to, and the rules it is held to."""

    functions: Mapping[str, Function] = field(default_factory=dict)
    variables: Mapping[str, t.Type] = field(default_factory=dict)
    types: Mapping[str, t.Type] = field(default_factory=dict)
    messages: Mapping[str, Mapping[str, t.Type]] = field(default_factory=dict)
    constructors: Mapping[str, Callable[[dict[str, Any]], Any]] = field(default_factory=dict)
    macros: Mapping[MacroKey, Macro] = field(default_factory=dict)
    estimators: Mapping[str, FunctionEstimator] = field(default_factory=dict)
    prices: Mapping[str, Price] = field(default_factory=dict)
    container: str = ""
    optional_syntax: bool = False
    escaped_names: bool = False
    homogeneous: bool = False
    cross_type_comparisons: bool = False
    strict_presence: bool = False
    validate_literals: bool = False
    mixed_literals_in: frozenset[str] = frozenset()

    def with_libraries(self, *libraries: Library) -> Environment:
        functions = dict(self.functions)
        macros = dict(self.macros)
        types = dict(self.types)
        estimators = dict(self.estimators)
        prices = dict(self.prices)
        for library in libraries:
            for function in library.functions:
                functions[function.name] = function
            for each in library.overloads:
                known = functions.get(each.function) or Function(each.function, ())
                functions[each.function] = known.with_overloads([each])
            macros.update(library.macros)
            types.update((type.name, type) for type in library.types)
            estimators.update(library.estimators)
            prices.update(library.prices)
        return replace(
            self, functions=functions, macros=macros, types=types, estimators=estimators, prices=prices
        )

    def with_variables(self, variables: Mapping[str, t.Type]) -> Environment:
        return replace(self, variables={**self.variables, **variables})

    def with_messages(self, messages: Mapping[str, Mapping[str, t.Type]]) -> Environment:
        return replace(self, messages={**self.messages, **messages})

    def candidates(self, name: str) -> list[str]:
        """The qualified names a name may stand for, innermost container first."""
        if name.startswith("."):
            return [name[1:]]
        if not self.container:
            return [name]
        parts = self.container.split(".")
        return [".".join([*parts[:i], name]) for i in range(len(parts), 0, -1)] + [name]

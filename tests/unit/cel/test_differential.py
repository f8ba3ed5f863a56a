"""Random expressions, evaluated here and by Google's own CEL runtime: the same value, or an error on both sides."""

from __future__ import annotations

import math
from functools import cache
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from dray.cel import CompileError, ErrorType, EvaluationError, compiler
from dray.cel.common import types as t
from dray.cel.common.decls import Environment
from dray.cel.common.values import UInt, Value, is_list, is_map, type_of
from dray.cel.library import stdlib

oracle = pytest.importorskip("cel_expr_python.cel")

VARIABLES = {
    "i": t.INT,
    "s": t.STRING,
    "b": t.BOOL,
    "d": t.DYN,
    "l": t.list_of(t.INT),
    "m": t.map_of(t.STRING, t.INT),
}
ENVIRONMENT = (
    Environment(cross_type_comparisons=True).with_libraries(stdlib.STANDARD).with_variables(VARIABLES)
)


def _oracle_environment() -> Any:
    kinds = oracle.Type
    return oracle.NewEnv(
        variables={
            "i": kinds.INT,
            "s": kinds.STRING,
            "b": kinds.BOOL,
            "d": kinds.DYN,
            "l": kinds.List(kinds.INT),
            "m": kinds.Map(kinds.STRING, kinds.INT),
        }
    )


ORACLE = _oracle_environment()

Exprs = st.SearchStrategy[str]

_ints = st.one_of(st.integers(-3, 5), st.sampled_from([2**63 - 1, -(2**63), 2**31, 2**53, 2**53 + 1])).map(
    str
)
_uints = st.one_of(st.integers(0, 5), st.sampled_from([2**64 - 1, 2**63])).map("{}u".format)
_doubles = st.sampled_from(["0.0", "-0.0", "1.0", "1.5", "-2.5", "1e10", "9007199254740993.0", "1e300"])
_strings = st.sampled_from(["''", "'a'", "'ab'", "'é'", "'😀x'", "'1'", "'-7'", "'true'", "'x1'"])
_bytes = st.sampled_from(["b''", "b'a'", "b'\\xff'"])


def _binary(operators: list[str], operands: Exprs) -> Exprs:
    return st.builds(lambda a, o, b: f"({a} {o} {b})", operands, st.sampled_from(operators), operands)


def _call(template: str, *parts: Exprs) -> Exprs:
    return st.builds(lambda *given: template.format(*given), *parts)


@cache
def _expressions(kind: str, depth: int) -> Exprs:
    """Expressions of a type, as deep as asked."""
    if depth == 0:
        return _LEAVES[kind]

    def of(other: str) -> Exprs:
        return st.deferred(lambda: _expressions(other, depth - 1))

    any_ = st.one_of([of(name) for name in ("int", "uint", "double", "string", "bool", "list", "map", "dyn")])
    choices: list[Exprs] = [_LEAVES[kind], _call("({} ? {} : {})", of("bool"), of(kind), of(kind))]
    match kind:
        case "int":
            choices += [
                _binary(["+", "-", "*", "/", "%"], of("int")),
                _call("-({})", of("int")),
                _call("size({})", st.one_of(of("string"), of("list"), of("map"))),
                _call("int({})", st.one_of(of("uint"), of("string"), of("double"))),
                _call("({})[{}]", of("list"), of("int")),
                _call("({})[{}]", of("map"), of("string")),
            ]
        case "uint":
            choices += [
                _binary(["+", "-", "*", "/", "%"], of("uint")),
                _call("uint({})", st.one_of(of("int"), of("double"))),
            ]
        case "double":
            choices += [_binary(["+", "-", "*", "/"], of("double")), _call("double({})", of("int"))]
        case "string":
            choices += [_binary(["+"], of("string")), _call("string({})", st.one_of(of("int"), of("bool")))]
        case "bool":
            # Comparing numbers across types is a matter of configuration there, except for dyn.
            # Ordering NaN is an error in cel-go and false in C++, so that no double here may become one.
            ordered_doubles = st.one_of(_doubles, _call("double({})", of("int")))
            numbers = _call("dyn({})", st.one_of(of("int"), of("uint"), ordered_doubles))
            choices += [
                _binary(["&&", "||"], of("bool")),
                _call("!({})", of("bool")),
                _binary(["<", "<=", ">", ">="], numbers),
                _binary(["<", "==", "!=", ">="], of("string")),
                _call("(dyn({}) == dyn({}))", any_, any_),
                _call("(dyn({}) && {})", any_, of("bool")),
                _call("({} in {})", of("int"), of("list")),
                _call("({} in {})", of("string"), of("map")),
                _call("({}).contains({})", of("string"), of("string")),
                _call("({}).startsWith({})", of("string"), of("string")),
                _call("({}).all(x, {} < x)", of("list"), of("int")),
                _call("({}).exists(x, x / {} == 1)", of("list"), of("int")),
                _call("({}).exists_one(x, x == {})", of("list"), of("int")),
                _call("has(({}).{})", of("map"), st.sampled_from(["a", "k"])),
            ]
        case "list":
            choices += [
                _binary(["+"], of("list")),
                _call("({}).map(x, x + {})", of("list"), of("int")),
                _call("({}).filter(x, x > {})", of("list"), of("int")),
                _call("[{}, {}]", of("int"), of("int")),
            ]
        case "map":
            choices += [
                _call("{{'a': {}, {}: {}}}", of("int"), _strings.filter(lambda s: s != "'a'"), of("int"))
            ]
        case "dyn":
            choices += [_call("dyn({})", any_)]
    return st.one_of(choices)


_LEAVES: dict[str, Exprs] = {
    "int": st.one_of(_ints, st.just("i")),
    "uint": _uints,
    "double": _doubles,
    "string": st.one_of(_strings, st.just("s")),
    "bool": st.sampled_from(["true", "false", "b"]),
    "bytes": _bytes,
    # No empty literals: which type an unconstrained one gets depends on the order of overloads.
    "list": st.sampled_from(["l", "[1, 2, 3]", "[i]"]),
    "map": st.sampled_from(["m", "{'k': 1}"]),
    "dyn": st.just("d"),
}

_bindings = st.fixed_dictionaries(
    {
        "i": st.integers(-3, 3),
        "s": st.sampled_from(["", "a", "é1"]),
        "b": st.booleans(),
        "d": st.one_of(st.none(), st.integers(-1, 2), st.sampled_from(["a", 1.0, True]), st.just([1])),
        "l": st.lists(st.integers(-2, 3), max_size=3),
        "m": st.dictionaries(st.sampled_from(["a", "k"]), st.integers(0, 2)),
    }
)


class _Failed:
    """Any error: the two word theirs differently."""

    def __repr__(self) -> str:
        return "failed"


FAILED = _Failed()


def _here(expression: str, bindings: dict[str, Any]) -> Value:
    try:
        node = compiler.check_text(expression, ENVIRONMENT)
        value, _ = compiler.program(node, ENVIRONMENT).run(bindings, 10**9)
    except CompileError as refused:
        # A constant that cannot be converted is found before the run here, as in cel-go, and only there in it.
        assume(refused.type is not ErrorType.INTERNAL)
        return FAILED
    return FAILED if isinstance(value, EvaluationError) else _comparable(value)


def _there(expression: str, bindings: dict[str, Any]) -> Value:
    try:
        value = ORACLE.compile(expression).eval(data=bindings)
    except RuntimeError:
        return FAILED
    return _plain(value)


def _plain(value: Any) -> Value:
    """The oracle's value in the form of ``_comparable``."""
    name = value.type().name()
    if name == "ERROR":
        return FAILED
    content = value.value()
    if isinstance(content, list):
        return ("list", [_plain(each) for each in content])
    if isinstance(content, dict):
        return ("map", {key: _plain(each) for key, each in content.items()})
    if isinstance(content, bytearray):
        content = bytes(content)
    return (_NAMES.get(name, name), _number(content))


_NAMES = {
    "NULL": "null_type", "BOOL": "bool", "INT": "int", "UINT": "uint", "DOUBLE": "double", "STRING": "string",
    "BYTES": "bytes",
}  # fmt: skip


def _comparable(value: Value) -> Value:
    if is_list(value):
        return ("list", [_comparable(each) for each in value])
    if is_map(value):
        return ("map", {key: _comparable(each) for key, each in value.items()})
    return (type_of(value).name, _number(int(value) if isinstance(value, UInt) else value))


def _number(value: Value) -> Value:
    if isinstance(value, float):
        return "NaN" if math.isnan(value) else (value, math.copysign(1, value))
    return value


_KINDS = ("bool", "int", "uint", "double", "string", "list", "map")


@settings(max_examples=200, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.one_of([_expressions(kind, 3) for kind in _KINDS]), _bindings)
def test_random_expressions_mean_the_same_here_and_in_googles_runtime(
    expression: str, bindings: dict[str, Any]
) -> None:
    assert _here(expression, bindings) == _there(expression, bindings)

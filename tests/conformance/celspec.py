"""The CEL specification's own tests: what one asks for, and how an answer is held against it."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from dray.cel import CompileError, EvaluationError, compiler
from dray.cel.common import types as t
from dray.cel.common.ast import Node
from dray.cel.common.decls import Environment, Library, Overload
from dray.cel.common.values import UInt, Value, equal, make_map, type_of
from dray.cel.library import bindings, comprehensions, stdlib
from dray.cel.library.lists import lists
from dray.cel.library.mathematics import MATHEMATICS
from dray.cel.library.network import CIDR_LIBRARY, IP_LIBRARY
from dray.cel.library.optionals import OPTIONALS
from dray.cel.library.sets import SETS
from dray.cel.library.strings import strings
from tests.conformance import textproto
from tests.conformance.textproto import Message
from tests.conformance.unchecked import resolve_names

LATEST = 99
LIMIT = 10**12


@dataclass(frozen=True)
class Case:
    """One test."""

    id: str
    expression: str
    message: Message

    def flag(self, name: str) -> bool:
        return self.message.get(name) == ["true"]

    @property
    def container(self) -> str:
        return text(self.message, "container")

    @property
    def needs_messages(self) -> bool:
        """Whether it is about protobuf messages, which Kubernetes' CEL does not have."""
        return _PROTOBUF.search(repr(self.message)) is not None

    def environment(self) -> Environment:
        decls = self.message.get("type_env", [])
        variables = {text(d, "name"): type_(d["ident"][0]["type"][0]) for d in decls if "ident" in d}
        functions = Library(name="of the test", overloads=tuple(o for d in decls for o in overloads(d)))
        declared = replace(_environment(), container=self.container).with_variables(variables)
        return declared.with_libraries(functions)

    def bindings(self) -> dict[str, Value]:
        bound: dict[str, Value] = {}
        for entry in self.message.get("bindings", []):
            bound[text(entry, "key")] = value(entry["value"][0]["value"][0])
        return bound

    def expected(self) -> Value | EvaluationError:
        if "eval_error" in self.message:
            errors = self.message["eval_error"][0].get("errors", [{}])
            return EvaluationError(text(errors[0], "message"))
        if "typed_result" in self.message:
            result = self.message["typed_result"][0].get("result")
            return value(result[0]) if result else None
        return value(self.message["value"][0]) if "value" in self.message else True

    def tree(self, environment: Environment) -> Node:
        """The expression, checked unless the test says otherwise."""
        if not self.flag("disable_check"):
            return compiler.check_text(self.expression, environment)
        node = compiler.parse_text(self.expression, environment)
        resolve_names(node, environment)
        return node

    def answer(self) -> Value | CompileError | EvaluationError:
        """What dray makes of it."""
        environment = self.environment()
        try:
            program = compiler.program(self.tree(environment), environment)
            return program.run(self.bindings(), LIMIT)[0]
        except (CompileError, EvaluationError) as failed:
            return failed

    def deduced_type(self) -> t.Type | None:
        if "typed_result" not in self.message:
            return None
        return type_(self.message["typed_result"][0]["deduced_type"][0])


# The types of times and durations have protobuf's names, but need no messages.
_PROTOBUF = re.compile(
    r"object_value|TestAllTypes|type\.googleapis\.com|proto2|proto3|enum_value|GlobalEnum|b'google\.protobuf'"
    r"|google\.protobuf\.(?!(?:Timestamp|Duration)\b(?!\{))"
)


def cases(path: Path) -> Iterator[Case]:
    file = textproto.parse(path.read_text())
    for section in file["section"]:
        for test in section.get("test", []):
            id = f"{path.stem}/{text(section, 'name')}/{text(test, 'name')}"
            yield Case(id, text(test, "expr"), test)


def text(message: Message, field: str) -> str:
    found = message.get(field)
    if not found:
        return ""
    return found[0].decode() if isinstance(found[0], bytes) else str(found[0])


def _environment() -> Environment:
    environment = Environment(
        optional_syntax=True, escaped_names=True, cross_type_comparisons=True, strict_presence=True
    )
    return environment.with_libraries(
        stdlib.STANDARD,
        bindings.BINDINGS,
        comprehensions.TWO_VARIABLE_COMPREHENSIONS,
        OPTIONALS,
        strings(LATEST),
        lists(LATEST),
        SETS,
        MATHEMATICS,
        IP_LIBRARY,
        CIDR_LIBRARY,
    )


def overloads(decl: Message) -> Iterator[Overload]:
    """The overloads of a function a test declares; nothing is said about what it does."""
    for function in decl.get("function", []):
        for each in function["overloads"]:
            args = tuple(map(type_, each.get("params", [])))
            params = tuple(p.decode() for p in each.get("type_params", []))
            yield Overload(
                function=text(decl, "name"),
                id=text(each, "overload_id"),
                args=args,
                result=type_(each["result_type"][0]),
                member=each.get("is_instance_function") == ["true"],
                implementation=None,
                params=params,
            )


_PRIMITIVES = {
    "BOOL": t.BOOL, "INT64": t.INT, "UINT64": t.UINT, "DOUBLE": t.DOUBLE, "STRING": t.STRING, "BYTES": t.BYTES,
}  # fmt: skip
_WELL_KNOWN = {"ANY": t.ANY, "TIMESTAMP": t.TIMESTAMP, "DURATION": t.DURATION}


def type_(message: Message) -> t.Type:
    """A declared type."""
    [(kind, [content])] = message.items()
    match kind:
        case "primitive":
            return _PRIMITIVES[content]
        case "wrapper":
            return t.nullable(_PRIMITIVES[content])
        case "well_known":
            return _WELL_KNOWN[content]
        case "null":
            return t.NULL
        case "dyn":
            return t.DYN
        case "list_type":
            return t.list_of(type_(content["elem_type"][0]))
        case "map_type":
            return t.map_of(type_(content["key_type"][0]), type_(content["value_type"][0]))
        case "type":
            return t.type_of(type_(content)) if content else t.TYPE
        case "type_param":
            return t.type_param(content.decode())
        case "abstract_type":
            return t.opaque(text(content, "name"), *map(type_, content.get("parameter_types", [])))
        case "message_type":
            return t.object_type(content.decode())
    raise AssertionError(kind)


_TYPE_NAMES = {
    "bool": t.BOOL, "int": t.INT, "uint": t.UINT, "double": t.DOUBLE, "string": t.STRING, "bytes": t.BYTES,
    "null_type": t.NULL, "list": t.LIST, "map": t.MAP, "type": t.TYPE, "google.protobuf.Timestamp": t.TIMESTAMP,
    "google.protobuf.Duration": t.DURATION, "optional_type": t.OPTIONAL,
}  # fmt: skip


def value(message: Message) -> Value:
    """A value as CEL has it."""
    [(kind, [content])] = message.items()
    match kind:
        case "null_value":
            return None
        case "bool_value":
            return content == "true"
        case "int64_value":
            return int(content, 0)
        case "uint64_value":
            return UInt(int(content.rstrip("uU"), 0))
        case "double_value":
            return float(content.rstrip("fF") if content[-3:].lower() not in ("inf", "nan") else content)
        case "string_value":
            return content.decode()
        case "bytes_value":
            return content
        case "list_value":
            return [value(each) for each in content.get("values", [])]
        case "map_value":
            entries = content.get("entries", [])
            return make_map((value(e["key"][0]), value(e["value"][0])) for e in entries)
        case "type_value":
            return _TYPE_NAMES.get(content.decode()) or t.opaque(content.decode())
    raise AssertionError(kind)


def same(actual: Value, wanted: Value) -> bool:
    """Whether an answer is exactly the one asked for, its type included."""
    if isinstance(wanted, float) and math.isnan(wanted):
        return isinstance(actual, float) and math.isnan(actual)
    if isinstance(wanted, t.Type) and isinstance(actual, t.Type):
        return actual.name == wanted.name
    if isinstance(wanted, list):
        return (
            isinstance(actual, list | tuple) and len(actual) == len(wanted) and all(map(same, actual, wanted))
        )
    if type_of(wanted) is t.MAP:
        return type_of(actual) is t.MAP and equal(actual, wanted)
    return type(actual) is type(wanted) and equal(actual, wanted)

"""Checks of literals after type checking: durations, timestamps, patterns, formats, and mixed lists and maps."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from dray.cel.common import conversions, regex
from dray.cel.common import types as t
from dray.cel.common.ast import Call, ListNode, Literal, MapNode, Node, walk
from dray.cel.common.decls import Environment
from dray.cel.common.source import Issue
from dray.cel.errors import EvaluationError
from dray.cel.library import formatting


def validate(node: Node, environment: Environment) -> list[Issue]:
    """Everything wrong with the literals of a checked expression."""
    nodes = list(walk(node))
    calls = [each for each in nodes if isinstance(each, Call)]
    issues: list[Issue] = []
    issues += _convertible(calls, "duration")
    issues += _convertible(calls, "timestamp")
    issues += _patterns(calls)
    issues += _homogeneous(node, environment.mixed_literals_in)
    if "format" in environment.mixed_literals_in:
        issues += _formats(calls)
    return issues


def _literal_argument(calls: list[Call], function: str) -> Iterator[Literal]:
    for call in calls:
        if call.function == function and call.args and isinstance(call.args[0], Literal):
            yield call.args[0]


def _convertible(calls: list[Call], function: str) -> Iterator[Issue]:
    convert = conversions.to_duration if function == "duration" else conversions.to_timestamp
    for literal in _literal_argument(calls, function):
        try:
            convert(literal.value)
        except EvaluationError:
            yield Issue(literal.offset, f"invalid {function} argument")


def _patterns(calls: list[Call]) -> Iterator[Issue]:
    # Of a method call the pattern is the first argument; of the plain function upstream checks the text instead.
    for literal in _literal_argument(calls, "matches"):
        try:
            regex.compile_pattern(literal.value)
        except EvaluationError:
            yield Issue(literal.offset, "invalid matches argument")


def _homogeneous(root: Node, exempt: frozenset[str]) -> Iterator[Issue]:
    lists: list[ListNode] = []
    maps: list[MapNode] = []
    pending: list[Node] = [root]
    while pending:
        node = pending.pop()
        if isinstance(node, Call) and node.function in exempt:
            continue
        if isinstance(node, ListNode):
            lists.append(node)
        elif isinstance(node, MapNode):
            maps.append(node)
        pending.extend(reversed(list(node.children())))
    for node in lists:
        yield from _mixed_elements(node)
    for node in maps:
        yield from _mixed_entries(node)


def _mixed_elements(node: ListNode) -> Iterator[Issue]:
    first: t.Type | None = None
    for i, element in enumerate(node.elements):
        given = element.type.params[0] if i in node.optional and element.type.params else element.type
        if first is None:
            first = given
        elif not t.equivalent(first, given):
            yield _mismatch(element, first, given)
            return


def _mixed_entries(node: MapNode) -> Iterator[Issue]:
    first: tuple[t.Type, t.Type] | None = None
    for entry in node.entries:
        value = entry.value.type
        if entry.optional and value.params:
            value = value.params[0]
        if first is None:
            first = (entry.key.type, value)
            continue
        if not t.equivalent(first[0], entry.key.type):
            yield _mismatch(entry.key, first[0], entry.key.type)
        if not t.equivalent(first[1], value):
            yield _mismatch(entry.value, first[1], value)


def _mismatch(node: Node, expected: t.Type, actual: t.Type) -> Issue:
    return Issue(node.offset, f"expected type '{expected.text}' but found '{actual.text}'")


# Formats

_FORMATTED: Final[dict[str, frozenset[str]]] = {
    "s": frozenset(
        {
            "list",
            "map",
            "int",
            "uint",
            "double",
            "bool",
            "string",
            "timestamp",
            "bytes",
            "duration",
            "type",
            "null",
        }
    ),
    "d": frozenset({"int", "uint"}),
    "f": frozenset({"double", "string"}),
    "e": frozenset({"double", "string"}),
    "b": frozenset({"int", "uint", "bool"}),
    "x": frozenset({"int", "uint", "string", "bytes"}),
    "X": frozenset({"int", "uint", "string", "bytes"}),
    "o": frozenset({"int", "uint"}),
}


class _Unformattable(EvaluationError):
    """An argument its clause cannot take."""

    def __init__(self, node: Node, clause: str) -> None:
        words = formatting.CLAUSE_ERRORS_V1[clause]
        super().__init__(f"error during formatting: {words}, was given {node.type.name}")
        self.node = node


def _formats(calls: list[Call]) -> Iterator[Issue]:
    """Literal format strings, checked against the types of literal arguments."""
    for call in calls:
        match call:
            case Call(
                function="format", target=Literal(value=str() as template), args=[ListNode(elements=elements)]
            ):
                yield from _format(call, template, elements)


def _format(call: Call, template: str, elements: list[Node]) -> Iterator[Issue]:
    used = 0

    def check(index: int, clause: str, precision: int) -> str:
        nonlocal used
        used += 1
        _formattable(elements[index], clause)
        return ""

    try:
        formatting.interpolate(template, len(elements), check)
    except _Unformattable as wrong:
        yield Issue(wrong.node.offset, wrong.message)
    except EvaluationError as wrong:
        yield Issue(call.offset, wrong.message)
    else:
        if len(elements) > used:
            yield Issue(
                call.offset,
                f"too many arguments supplied to string.format (expected {used}, got {len(elements)})",
            )


def _formattable(node: Node, clause: str) -> None:
    if node.type is not t.DYN and node.type.kind not in _FORMATTED[clause]:
        raise _Unformattable(node, clause)
    if clause != "s":
        return
    if isinstance(node, ListNode):
        for element in node.elements:
            _formattable(element, clause)
    elif isinstance(node, MapNode):
        for entry in node.entries:
            _formattable(entry.key, clause)
            _formattable(entry.value, clause)

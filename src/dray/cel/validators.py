"""Checks of literals after type checking: durations, timestamps, patterns, formats, and mixed lists and maps."""

from __future__ import annotations

from collections.abc import Iterator

from dray.cel import conversions, regex
from dray.cel import types as t
from dray.cel.ast import Call, ListNode, Literal, MapNode, Node, walk
from dray.cel.decls import Environment
from dray.cel.errors import EvaluationError
from dray.cel.source import Problem


def validate(node: Node, environment: Environment) -> list[Problem]:
    """Everything wrong with the literals of a checked expression."""
    nodes = list(walk(node))
    calls = [each for each in nodes if isinstance(each, Call)]
    problems: list[Problem] = []
    problems += _convertible(calls, "duration")
    problems += _convertible(calls, "timestamp")
    problems += _patterns(calls)
    problems += _homogeneous(node, environment.mixed_literals_in)
    return problems


def _literal_argument(calls: list[Call], function: str) -> Iterator[Literal]:
    for call in calls:
        if call.function == function and call.args and isinstance(call.args[0], Literal):
            yield call.args[0]


def _convertible(calls: list[Call], function: str) -> Iterator[Problem]:
    convert = conversions.to_duration if function == "duration" else conversions.to_timestamp
    for literal in _literal_argument(calls, function):
        try:
            convert(literal.value)
        except EvaluationError:
            yield Problem(literal.offset, f"invalid {function} argument")


def _patterns(calls: list[Call]) -> Iterator[Problem]:
    # Of a method call the pattern is the first argument; of the plain function upstream checks the text instead.
    for literal in _literal_argument(calls, "matches"):
        try:
            regex.compile_pattern(literal.value)
        except EvaluationError:
            yield Problem(literal.offset, "invalid matches argument")


def _homogeneous(root: Node, exempt: frozenset[str]) -> Iterator[Problem]:
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


def _mixed_elements(node: ListNode) -> Iterator[Problem]:
    first: t.Type | None = None
    for i, element in enumerate(node.elements):
        given = element.type.params[0] if i in node.optional and element.type.params else element.type
        if first is None:
            first = given
        elif not t.equivalent(first, given):
            yield _mismatch(element, first, given)
            return


def _mixed_entries(node: MapNode) -> Iterator[Problem]:
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


def _mismatch(node: Node, expected: t.Type, actual: t.Type) -> Problem:
    return Problem(node.offset, f"expected type '{expected.text}' but found '{actual.text}'")

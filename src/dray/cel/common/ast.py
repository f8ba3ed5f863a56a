"""The parsed expression: a tree of nodes, each with its place in the text and, once checked, its type."""

from __future__ import annotations

from collections.abc import Iterator

from dray.cel.common import types as t
from dray.cel.common.values import Value


class Node:
    """What all nodes have: ``offset`` in the text, and the ``type`` the checker finds."""

    __slots__ = ("offset", "type")
    offset: int
    type: t.Type

    def children(self) -> Iterator[Node]:
        return iter(())


class Literal(Node):
    __slots__ = ("value",)

    def __init__(self, offset: int, value: Value) -> None:
        self.offset = offset
        self.value = value


class Ident(Node):
    """A name. Once checked, ``name`` is fully qualified, and ``constant`` holds the value of a type name."""

    __slots__ = ("constant", "name")

    def __init__(self, offset: int, name: str) -> None:
        self.offset = offset
        self.name = name
        self.constant: t.Type | None = None


class Select(Node):
    """``operand.field``, or with ``test`` the question whether it is there. ``resolved`` is set if the whole
    chain turned out to be one qualified name."""

    __slots__ = ("field", "operand", "resolved", "test")

    def __init__(self, offset: int, operand: Node, field: str, *, test: bool = False) -> None:
        self.offset = offset
        self.operand = operand
        self.field = field
        self.test = test
        self.resolved: Ident | None = None

    def children(self) -> Iterator[Node]:
        yield self.operand


class Call(Node):
    """A function or operator applied. ``overloads`` are the ids of the signatures that may apply."""

    __slots__ = ("args", "function", "overloads", "target")

    def __init__(self, offset: int, function: str, target: Node | None, args: list[Node]) -> None:
        self.offset = offset
        self.function = function
        self.target = target
        self.args = args
        self.overloads: tuple[str, ...] = ()

    def children(self) -> Iterator[Node]:
        if self.target is not None:
            yield self.target
        yield from self.args


class ListNode(Node):
    __slots__ = ("elements", "optional")

    def __init__(self, offset: int, elements: list[Node], optional: frozenset[int] = frozenset()) -> None:
        self.offset = offset
        self.elements = elements
        self.optional = optional

    def children(self) -> Iterator[Node]:
        yield from self.elements


class Entry:
    """``key: value`` of a map, ``?key: value`` if optional."""

    __slots__ = ("key", "offset", "optional", "value")

    def __init__(self, offset: int, key: Node, value: Node, *, optional: bool = False) -> None:
        self.offset = offset
        self.key = key
        self.value = value
        self.optional = optional


class MapNode(Node):
    __slots__ = ("entries",)

    def __init__(self, offset: int, entries: list[Entry]) -> None:
        self.offset = offset
        self.entries = entries

    def children(self) -> Iterator[Node]:
        for entry in self.entries:
            yield entry.key
            yield entry.value


class Field:
    """``name: value`` of a message."""

    __slots__ = ("name", "offset", "optional", "value")

    def __init__(self, offset: int, name: str, value: Node, *, optional: bool = False) -> None:
        self.offset = offset
        self.name = name
        self.value = value
        self.optional = optional


class Message(Node):
    """``TypeName{field: value, …}``."""

    __slots__ = ("fields", "name")

    def __init__(self, offset: int, name: str, fields: list[Field]) -> None:
        self.offset = offset
        self.name = name
        self.fields = fields

    def children(self) -> Iterator[Node]:
        for field in self.fields:
            yield field.value


class Comprehension(Node):
    """The loop that macros become: fold ``step`` over ``range`` while ``condition`` holds, then ``result``."""

    __slots__ = ("accumulator", "condition", "initial", "range", "result", "step", "variable", "variable2")

    def __init__(
        self,
        offset: int,
        range: Node,
        variable: str,
        accumulator: str,
        initial: Node,
        condition: Node,
        step: Node,
        result: Node,
        *,
        variable2: str = "",
    ) -> None:
        self.offset = offset
        self.range = range
        self.variable = variable
        self.variable2 = variable2
        self.accumulator = accumulator
        self.initial = initial
        self.condition = condition
        self.step = step
        self.result = result

    def children(self) -> Iterator[Node]:
        yield self.range
        yield self.initial
        yield self.condition
        yield self.step
        yield self.result


def qualified_name(node: Node) -> str | None:
    """``a.b.c`` as a name, if the node is nothing but that."""
    parts: list[str] = []
    while isinstance(node, Select) and not node.test:
        parts.append(node.field)
        node = node.operand
    if not isinstance(node, Ident):
        return None
    parts.append(node.name)
    return ".".join(reversed(parts))


def walk(node: Node) -> Iterator[Node]:
    """The node and everything below it, parents first, without recursion."""
    pending = [node]
    while pending:
        current = pending.pop()
        yield current
        pending.extend(reversed(list(current.children())))

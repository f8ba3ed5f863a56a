"""Macros: calls that become other expressions while parsing."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import islice
from typing import Final, NamedTuple

from dray.cel.common.ast import (
    Call,
    Comprehension,
    Entry,
    Field,
    Ident,
    ListNode,
    Literal,
    MapNode,
    Message,
    Node,
    Select,
    walk,
)

ACCUMULATOR: Final = "@result"
_OLD_ACCUMULATOR: Final = "__result__"
UNUSED: Final = "#unused"
MAX_COPIED: Final = 2_000


ANY_NUMBER: Final = -1


class MacroKey(NamedTuple):
    """Which calls a macro takes."""

    function: str
    arguments: int
    member: bool


class MacroError(Exception):
    """The macro applies, but not to these arguments."""

    def __init__(self, node: Node, message: str) -> None:
        self.node = node
        self.message = message


Macro = Callable[[int, Node | None, list[Node]], Node | None]
"""From the offset of the call, its target and arguments to what it stands for, or None: an ordinary call."""


def _accumulator(offset: int) -> Ident:
    return Ident(offset, ACCUMULATOR)


def _call(offset: int, function: str, *args: Node) -> Call:
    return Call(offset, function, None, list(args))


def _name(node: Node, message: str) -> str:
    if not isinstance(node, Ident):
        raise MacroError(node, message)
    if node.name in (ACCUMULATOR, _OLD_ACCUMULATOR):
        raise MacroError(node, "iteration variable overwrites accumulator variable")
    return node.name


def _names(args: list[Node], message: str) -> tuple[str, str]:
    """One or two iteration variables; the second is empty if there is one."""
    first = _simple(args[0], message)
    if len(args) == 1:
        return _name(args[0], message), ""
    second = _simple(args[1], message)
    if first == second:
        raise MacroError(args[1], f"duplicate variable name: {first}")
    return _name(args[0], message), _name(args[1], message)


def _simple(node: Node, message: str) -> str:
    if not isinstance(node, Ident):
        raise MacroError(node, message)
    return node.name


_MUST_BE_NAME: Final = "argument must be a simple name"
_IS_NOT_NAME: Final = "argument is not an identifier"


def has(offset: int, target: Node | None, args: list[Node]) -> Node:
    selected = args[0]
    if not isinstance(selected, Select):
        raise MacroError(selected, "invalid argument to has() macro")
    return Select(offset, selected.operand, selected.field, test=True)


def _loop(
    offset: int,
    target: Node | None,
    names: tuple[str, str],
    initial: Node,
    condition: Node,
    step: Node,
    result: Node,
) -> Comprehension:
    assert target is not None
    return Comprehension(
        offset, target, names[0], ACCUMULATOR, initial, condition, step, result, variable2=names[1]
    )


def all_(offset: int, target: Node | None, args: list[Node]) -> Node:
    return _loop(
        offset,
        target,
        _names(args[:-1], _MUST_BE_NAME),
        Literal(offset, True),
        _call(offset, "@not_strictly_false", _accumulator(offset)),
        _call(offset, "_&&_", _accumulator(offset), args[-1]),
        _accumulator(offset),
    )


def exists(offset: int, target: Node | None, args: list[Node]) -> Node:
    return _loop(
        offset,
        target,
        _names(args[:-1], _MUST_BE_NAME),
        Literal(offset, False),
        _call(offset, "@not_strictly_false", _call(offset, "!_", _accumulator(offset))),
        _call(offset, "_||_", _accumulator(offset), args[-1]),
        _accumulator(offset),
    )


def exists_one(offset: int, target: Node | None, args: list[Node]) -> Node:
    more = _call(offset, "_+_", _accumulator(offset), Literal(offset, 1))
    return _loop(
        offset,
        target,
        _names(args[:-1], _MUST_BE_NAME),
        Literal(offset, 0),
        Literal(offset, True),
        _call(offset, "_?_:_", args[-1], more, _accumulator(offset)),
        _call(offset, "_==_", _accumulator(offset), Literal(offset, 1)),
    )


def _collect(
    offset: int,
    target: Node | None,
    names: tuple[str, str],
    initial: Node,
    step: Node,
    predicate: Node | None,
) -> Node:
    if predicate is not None:
        step = _call(offset, "_?_:_", predicate, step, _accumulator(offset))
    return _loop(offset, target, names, initial, Literal(offset, True), step, _accumulator(offset))


def _append(offset: int, element: Node) -> Node:
    return _call(offset, "_+_", _accumulator(offset), ListNode(offset, [element]))


def map_(offset: int, target: Node | None, args: list[Node]) -> Node:
    names = (_name(args[0], _IS_NOT_NAME), "")
    predicate = args[1] if len(args) == 3 else None
    return _collect(offset, target, names, ListNode(offset, []), _append(offset, args[-1]), predicate)


def filter_(offset: int, target: Node | None, args: list[Node]) -> Node:
    names = (_name(args[0], _IS_NOT_NAME), "")
    return _collect(offset, target, names, ListNode(offset, []), _append(offset, args[0]), args[1])


def _predicate(args: list[Node]) -> Node | None:
    return args[2] if len(args) == 4 else None


def transform_list(offset: int, target: Node | None, args: list[Node]) -> Node:
    names = _names(args[:2], _MUST_BE_NAME)
    return _collect(offset, target, names, ListNode(offset, []), _append(offset, args[-1]), _predicate(args))


def transform_map(offset: int, target: Node | None, args: list[Node]) -> Node:
    names = _names(args[:2], _MUST_BE_NAME)
    step = _call(offset, "cel.@mapInsert", _accumulator(offset), Ident(offset, names[0]), args[-1])
    return _collect(offset, target, names, MapNode(offset, []), step, _predicate(args))


def transform_map_entry(offset: int, target: Node | None, args: list[Node]) -> Node:
    names = _names(args[:2], _MUST_BE_NAME)
    step = _call(offset, "cel.@mapInsert", _accumulator(offset), args[-1])
    return _collect(offset, target, names, MapNode(offset, []), step, _predicate(args))


def _bound(offset: int, name: str, value: Node, result: Node) -> Comprehension:
    """``result`` with a local variable: a loop over nothing whose accumulator is the variable."""
    return Comprehension(
        offset,
        ListNode(offset, []),
        UNUSED,
        name,
        value,
        Literal(offset, False),
        Ident(offset, name),
        result,
    )


def bind(offset: int, target: Node | None, args: list[Node]) -> Node | None:
    if not isinstance(target, Ident) or target.name != "cel":
        return None
    name = _simple(args[0], "cel.bind() variable names must be simple identifiers")
    return _bound(offset, name, args[1], args[2])


def opt_map(offset: int, target: Node | None, args: list[Node]) -> Node:
    mapped = _optionally(offset, target, args, "optMap")
    mapped.args[1] = _call(offset, "optional.of", mapped.args[1])
    return mapped


def opt_flat_map(offset: int, target: Node | None, args: list[Node]) -> Node:
    return _optionally(offset, target, args, "optFlatMap")


def _optionally(offset: int, target: Node | None, args: list[Node], macro: str) -> Call:
    assert target is not None
    name = _simple(args[0], f"{macro}() variable name must be a simple identifier")
    if sum(1 for _ in islice(walk(target), MAX_COPIED + 1)) > MAX_COPIED:
        # The target is written twice, so a chain of these would double with every link.
        raise MacroError(target, f"expression too large for {macro}(): limit {MAX_COPIED}")
    value = Call(offset, "value", copy(target), [])
    return _call(
        offset,
        "_?_:_",
        Call(offset, "hasValue", target, []),
        _bound(offset, name, value, args[1]),
        _call(offset, "optional.none"),
    )


STANDARD: Final[Mapping[MacroKey, Macro]] = {
    MacroKey("has", 1, False): has,
    MacroKey("all", 2, True): all_,
    MacroKey("exists", 2, True): exists,
    MacroKey("exists_one", 2, True): exists_one,
    MacroKey("existsOne", 2, True): exists_one,
    MacroKey("map", 2, True): map_,
    MacroKey("map", 3, True): map_,
    MacroKey("filter", 2, True): filter_,
}
OPTIONALS: Final[Mapping[MacroKey, Macro]] = {
    MacroKey("optMap", 2, True): opt_map,
    MacroKey("optFlatMap", 2, True): opt_flat_map,
}
BINDINGS: Final[Mapping[MacroKey, Macro]] = {MacroKey("bind", 3, True): bind}
TWO_VARIABLES: Final[Mapping[MacroKey, Macro]] = {
    MacroKey("all", 3, True): all_,
    MacroKey("exists", 3, True): exists,
    MacroKey("existsOne", 3, True): exists_one,
    MacroKey("exists_one", 3, True): exists_one,
    MacroKey("transformList", 3, True): transform_list,
    MacroKey("transformList", 4, True): transform_list,
    MacroKey("transformMap", 3, True): transform_map,
    MacroKey("transformMap", 4, True): transform_map,
    MacroKey("transformMapEntry", 3, True): transform_map_entry,
    MacroKey("transformMapEntry", 4, True): transform_map_entry,
}


def copy(node: Node) -> Node:
    """The same expression once more; nodes carry types, so no node may stand in two places."""
    match node:
        case Literal():
            return Literal(node.offset, node.value)
        case Ident():
            return Ident(node.offset, node.name)
        case Select():
            return Select(node.offset, copy(node.operand), node.field, test=node.test)
        case Call():
            target = None if node.target is None else copy(node.target)
            return Call(node.offset, node.function, target, [copy(arg) for arg in node.args])
        case ListNode():
            return ListNode(node.offset, [copy(e) for e in node.elements], node.optional)
        case MapNode():
            entries = [Entry(e.offset, copy(e.key), copy(e.value), optional=e.optional) for e in node.entries]
            return MapNode(node.offset, entries)
        case Message():
            fields = [Field(f.offset, f.name, copy(f.value), optional=f.optional) for f in node.fields]
            return Message(node.offset, node.name, fields)
        case Comprehension():
            return Comprehension(
                node.offset,
                copy(node.range),
                node.variable,
                node.accumulator,
                copy(node.initial),
                copy(node.condition),
                copy(node.step),
                copy(node.result),
                variable2=node.variable2,
            )
    raise AssertionError(node)

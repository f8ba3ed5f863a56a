"""The static cost estimate: what an expression may cost at worst, from the sizes its inputs may have.

This is cel-go's estimate with Kubernetes' prices for its own functions.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from dray.cel.common import types as t
from dray.cel.common.ast import Call, Comprehension, Ident, ListNode, Literal, MapNode, Message, Node, Select
from dray.cel.cost import functions, runtime
from dray.cel.cost.runtime import TRAVERSAL
from dray.cel.cost.sizes import (
    ONE,
    UNBOUNDED,
    UNKNOWN,
    ZERO,
    CallEstimate,
    FunctionEstimator,
    Path,
    Range,
    SizedNode,
    SizeHint,
    fixed,
    no_hints,
)


class Entries(NamedTuple):
    """The sizes of a container's keys (or indices) and values."""

    container: str
    key: Range
    value: Range

    def union(self, other: Entries) -> Entries:
        return Entries(self.container, self.key.union(other.key), self.value.union(other.value))


class _Local(NamedTuple):
    path: Path
    size: Range | None
    entries: Entries | None


def estimate(
    node: Node, *, hints: SizeHint = no_hints, estimators: Mapping[str, FunctionEstimator] | None = None
) -> Range:
    """The cost of a checked expression. ``estimators`` take precedence, by overload id."""
    return _Estimator(hints, estimators or {}).cost(node)


class _Estimator:
    def __init__(self, hints: SizeHint, estimators: Mapping[str, FunctionEstimator]) -> None:
        self.hints = hints
        self.estimators = estimators
        self.paths: dict[int, Path] = {}
        self.sizes: dict[int, Range] = {}
        self.entries: dict[int, Entries] = {}
        self.locals: dict[str, list[_Local]] = {}

    def cost(self, node: Node) -> Range:
        return _COSTS[type(node)](self, node)

    # Sizes

    def local(self, name: str) -> _Local | None:
        stack = self.locals.get(name)
        return stack[-1] if stack else None

    def path(self, node: Node) -> Path:
        if (name := _ident(node)) is not None:
            found = self.local(name)
            if found is not None:
                return found.path
        return self.paths.get(id(node), ())

    def size(self, node: Node) -> Range | None:
        known = self.sizes.get(id(node))
        if known is not None:
            return known
        written = _written_size(node)
        if written is not None:
            return written
        hinted = self._hint(self.path(node))
        if hinted is not None:
            self.sizes[id(node)] = hinted
            return hinted
        if _scalar(node.type):
            return ONE
        if (name := _ident(node)) is not None:
            found = self.local(name)
            if found is not None:
                return found.size
        return None

    def _hint(self, path: Path) -> Range | None:
        return self.hints(path) if path else None

    def entry_sizes(self, node: Node) -> Entries | None:
        known = self.entries.get(id(node))
        if known is not None:
            return known
        if (name := _ident(node)) is not None:
            found = self.local(name)
            if found is not None:
                return found.entries
        return None

    def sized(self, node: Node) -> SizedNode:
        path = self.path(node)
        if path and path[0] in ("@result", "__result__"):
            path = ()
        return SizedNode(path, node.type, node, self.size(node), self.hints)

    # Nodes

    def literal(self, node: Literal) -> Range:
        return ZERO

    def ident(self, node: Ident) -> Range:
        found = self.local(node.name)
        self.paths[id(node)] = found.path if found is not None else (node.name,)
        return ONE

    def select(self, node: Select) -> Range:
        if node.resolved is not None:
            self.paths[id(node)] = (node.resolved.name,)
            return ONE
        total = self.cost(node.operand)
        if node.test:
            return total
        if node.operand.type.kind in ("map", "struct", "param"):
            total = total.plus(ONE)
        self.paths[id(node)] = (*self.path(node.operand), node.field)
        return total

    def call(self, node: Call) -> Range:
        if node.function == "dyn":
            total = ONE.plus(self.cost(node.args[0]))
            self._copy_sizes(node, node.args[0])
            return total
        costs = []
        args = []
        for arg in node.args:
            costs.append(self.cost(arg))
            args.append(self.sized(arg))
        if not node.overloads:
            return ZERO
        total, target = ZERO, None
        if node.target is not None:
            total = self.cost(node.target)
            target = self.sized(node.target)
        worst = Range(UNBOUNDED, 0)
        result: Range | None = None
        for id_ in node.overloads:
            cost, size = self._call(node, id_, target, args, costs)
            worst = worst.union(cost)
            if size is not None:
                result = size if result is None else result.union(size)
            if id_ in ("index_list", "index_map"):
                entries = self.entry_sizes(node.args[0])
                result = entries.value if entries is not None else None
                step = "@items" if id_ == "index_list" else "@values"
                self.paths[id(node)] = (*self.path(node.args[0]), step)
            if result is None:
                result = self.size(node)
        if result is not None:
            self.sizes[id(node)] = result
        return total.plus(worst)

    def _copy_sizes(self, node: Node, origin: Node) -> None:
        size = self.size(origin)
        if size is not None:
            self.sizes[id(node)] = size
        entries = self.entry_sizes(origin)
        if entries is not None:
            self.entries[id(node)] = entries

    def list_(self, node: ListNode) -> Range:
        total = ZERO
        item = Range(UNBOUNDED if node.elements else 0, 0)
        for element in node.elements:
            total = total.plus(self.cost(element))
            item = item.union(self.size(element) or UNKNOWN)
        self.entries[id(node)] = Entries("list", ONE, item)
        return total.plus(fixed(runtime.LIST))

    def map_(self, node: MapNode) -> Range:
        total = ZERO
        key = value = Range(UNBOUNDED if node.entries else 0, 0)
        for entry in node.entries:
            total = total.plus(self.cost(entry.key)).plus(self.cost(entry.value))
            key = key.union(self.size(entry.key) or UNKNOWN)
            value = value.union(self.size(entry.value) or UNKNOWN)
        self.entries[id(node)] = Entries("map", key, value)
        return total.plus(fixed(runtime.MAP))

    def message(self, node: Message) -> Range:
        total = ZERO
        for field in node.fields:
            total = total.plus(self.cost(field.value))
        return total.plus(fixed(runtime.MESSAGE))

    def comprehension(self, node: Comprehension) -> Range:
        if _is_binding(node):
            return self._binding(node)
        total = self.cost(node.range).plus(self.cost(node.initial))
        self._push(
            node.accumulator,
            _Local(self.path(node.initial), self.size(node.initial), self.entry_sizes(node.initial)),
        )
        self._push_iterated(node)
        loop = self.cost(node.condition)
        step = self.cost(node.step)
        self.locals[node.variable].pop()
        if node.variable2:
            self.locals[node.variable2].pop()
        total = total.plus(self.cost(node.result))
        self.locals[node.accumulator].pop()
        count = self.size(node.range) or UNKNOWN
        total = total.plus(count.times(step.plus(loop)))
        if isinstance(node.initial, Literal):
            size = self.size(node.initial)
            if size is not None:
                self.sizes[id(node)] = size
        elif isinstance(node.initial, ListNode | MapNode):
            self.sizes[id(node)] = count
            entries = self.entry_sizes(node.step)
            if entries is not None:
                self.entries[id(node)] = entries
        return total

    def _binding(self, node: Comprehension) -> Range:
        total = self.cost(node.range).plus(self.cost(node.initial))
        self._push(
            node.accumulator,
            _Local(self.path(node.initial), self.size(node.initial), self.entry_sizes(node.initial)),
        )
        total = total.plus(self.cost(node.result))
        self.locals[node.accumulator].pop()
        self._copy_sizes(node, node.result)
        return total

    def _push(self, name: str, local: _Local) -> None:
        self.locals.setdefault(name, []).append(local)

    def _push_iterated(self, node: Comprehension) -> None:
        entries = self.entry_sizes(node.range)
        path = self.path(node.range)
        container = entries.container if entries is not None else node.range.type.kind
        key = entries.key if entries is not None else None
        value = entries.value if entries is not None else None
        listed = container == "list"
        if node.variable2:
            self._push(node.variable, _Local((*path, "@indices" if listed else "@keys"), key, None))
            self._push(node.variable2, _Local((*path, "@items" if listed else "@values"), value, None))
        elif listed:
            self._push(node.variable, _Local((*path, "@items"), value, None))
        else:
            self._push(node.variable, _Local((*path, "@keys"), key, None))

    # Calls

    def _call(
        self, node: Call, overload: str, target: SizedNode | None, args: list[SizedNode], costs: list[Range]
    ) -> CallEstimate:
        summed = ZERO
        for cost in costs:
            summed = summed.plus(cost)
        for estimator in (self.estimators.get(overload), functions.kubernetes(node.function, overload)):
            priced = estimator(target, args) if estimator is not None else None
            if priced is not None:
                return CallEstimate(priced.cost.plus(summed), priced.size)
        match overload:
            case "logical_or" | "logical_and":
                return CallEstimate(Range(costs[0].low, costs[0].plus(costs[1]).high))
            case "conditional":
                return self._conditional(node, costs)
            case "add_string" | "add_bytes" | "add_list" if len(args) == 2:
                return self._addition(node, overload, summed)
        standard = functions.BY_OVERLOAD.get(overload)
        priced = standard(target, args) if standard is not None else None
        if priced is None:
            return CallEstimate(ONE.plus(summed))
        return CallEstimate(priced.cost.plus(summed), priced.size)

    def _conditional(self, node: Call, costs: list[Range]) -> CallEstimate:
        _, then, otherwise = node.args
        a, b = self.entry_sizes(then), self.entry_sizes(otherwise)
        if a is not None and b is not None:
            self.entries[id(node)] = a.union(b)
        size = (self.size(then) or UNKNOWN).union(self.size(otherwise) or UNKNOWN)
        return CallEstimate(costs[0].plus(costs[1].union(costs[2])), size)

    def _addition(self, node: Call, overload: str, summed: Range) -> CallEstimate:
        left, right = node.args
        size = (self.size(left) or UNKNOWN).plus(self.size(right) or UNKNOWN)
        a, b = self.entry_sizes(left), self.entry_sizes(right)
        if a is not None and b is not None:
            self.entries[id(node)] = a.union(b)
        cost = ONE if overload == "add_list" else size.scaled(TRAVERSAL)
        return CallEstimate(cost.plus(summed), size)


def _ident(node: Node) -> str | None:
    if isinstance(node, Ident):
        return node.name
    if isinstance(node, Select) and node.resolved is not None:
        return node.resolved.name
    return None


def _is_binding(node: Comprehension) -> bool:
    return (
        isinstance(node.range, ListNode)
        and not node.range.elements
        and isinstance(node.condition, Literal)
        and node.condition.value is False
        and node.accumulator != "__result__"
    )


def _written_size(node: Node) -> Range | None:
    match node:
        case Literal():
            return fixed(len(node.value)) if isinstance(node.value, str | bytes) else ONE
        case ListNode():
            return fixed(len(node.elements))
        case MapNode():
            return fixed(len(node.entries))
    return None


_SCALARS: Final = frozenset({"bool", "double", "duration", "int", "timestamp", "uint"})


def _scalar(type: t.Type) -> bool:
    inner, optional = t.unwrap_optional(type)
    return _scalar(inner) if optional else type.kind in _SCALARS


_COSTS: Final[dict[type, Callable[[_Estimator, Any], Range]]] = {
    Literal: _Estimator.literal,
    Ident: _Estimator.ident,
    Select: _Estimator.select,
    Call: _Estimator.call,
    ListNode: _Estimator.list_,
    MapNode: _Estimator.map_,
    Message: _Estimator.message,
    Comprehension: _Estimator.comprehension,
}

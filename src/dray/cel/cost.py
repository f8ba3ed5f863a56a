"""The static cost estimate: what an expression may cost at worst, from the sizes its inputs may have.

This is cel-go's estimate with Kubernetes' prices for its own functions. Sizes and costs are ranges; everything
saturates at 2^64 - 1, which stands for "unbounded".
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import ceil
from typing import Final, NamedTuple, overload

from dray.cel import metering
from dray.cel import types as t
from dray.cel.ast import (
    Call,
    Comprehension,
    Ident,
    ListNode,
    Literal,
    MapNode,
    Message,
    Node,
    Select,
)
from dray.cel.metering import REGEX, TRAVERSAL

UNBOUNDED: Final = (1 << 64) - 1
_TWO_TO_64: Final = 2.0**64


class Range(NamedTuple):
    """From ``low`` to ``high``: a size or a cost."""

    low: int
    high: int

    def plus(self, other: Range) -> Range:
        return Range(_add(self.low, other.low), _add(self.high, other.high))

    def times(self, other: Range) -> Range:
        return Range(_multiply(self.low, other.low), _multiply(self.high, other.high))

    def scaled(self, factor: float) -> Range:
        return Range(_scale(self.low, factor), _scale(self.high, factor))

    def union(self, other: Range) -> Range:
        return Range(min(self.low, other.low), max(self.high, other.high))


def _add(x: int, y: int) -> int:
    return min(x + y, UNBOUNDED)


def _multiply(x: int, y: int) -> int:
    return min(x * y, UNBOUNDED)


def _scale(x: int, factor: float) -> int:
    number = float(x)
    if number > 0 and factor > 0 and number > UNBOUNDED / factor:
        return UNBOUNDED
    rounded = ceil(number * factor)
    return UNBOUNDED if rounded >= _TWO_TO_64 else rounded


def fixed(amount: int) -> Range:
    return Range(amount, amount)


ZERO: Final = fixed(0)
ONE: Final = fixed(1)
UNKNOWN: Final = Range(0, UNBOUNDED)


class Entries(NamedTuple):
    """The sizes of a container's keys (or indices) and values."""

    container: str
    key: Range
    value: Range

    def union(self, other: Entries) -> Entries:
        return Entries(self.container, self.key.union(other.key), self.value.union(other.value))


Path = tuple[str, ...]
"""The way from a variable to a value: its name, then fields, ``@items``, ``@keys``, ``@values`` or ``@indices``."""

SizeHint = Callable[[Path], Range | None]
"""How large the value at a path may be, as far as an environment knows."""


def no_hints(path: Path) -> Range | None:
    return None


class Sized(NamedTuple):
    """What the price of a call may depend on, of its target or an argument."""

    path: Path
    type: t.Type
    node: Node | None
    size: Range | None


class Estimate(NamedTuple):
    """What a call costs, and how large its result is, if that can be told."""

    cost: Range
    size: Range | None = None


class _Local(NamedTuple):
    path: Path
    size: Range | None
    entries: Entries | None


class Measured(NamedTuple):
    """A target or argument with its size worked out."""

    part: Sized
    size: Range


Estimator = Callable[[Measured | None, list[Measured]], Estimate | None]
"""What a call of one overload costs; None leaves it to the general rules."""


def estimate(
    node: Node, *, hints: SizeHint = no_hints, estimators: Mapping[str, Estimator] | None = None
) -> Range:
    """The cost of a checked expression. ``estimators`` take precedence, by overload id."""
    return _Estimator(hints, estimators or {}).cost(node)


class _Estimator:
    def __init__(self, hints: SizeHint, estimators: Mapping[str, Estimator]) -> None:
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

    def sized(self, node: Node) -> Sized:
        path = self.path(node)
        if path and path[0] in ("@result", "__result__"):
            path = ()
        return Sized(path, node.type, node, self.size(node))

    def size_of(self, part: Sized) -> Range:
        """The size for Kubernetes' prices: asks the hints once more, which a bare element's path needs."""
        if part.size is not None:
            return part.size
        return self._hint(part.path) or UNKNOWN

    @overload
    def measured(self, part: Sized) -> Measured: ...
    @overload
    def measured(self, part: None) -> None: ...
    def measured(self, part: Sized | None) -> Measured | None:
        return None if part is None else Measured(part, self.size_of(part))

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
        return total.plus(fixed(metering.LIST))

    def map_(self, node: MapNode) -> Range:
        total = ZERO
        key = value = Range(UNBOUNDED if node.entries else 0, 0)
        for entry in node.entries:
            total = total.plus(self.cost(entry.key)).plus(self.cost(entry.value))
            key = key.union(self.size(entry.key) or UNKNOWN)
            value = value.union(self.size(entry.value) or UNKNOWN)
        self.entries[id(node)] = Entries("map", key, value)
        return total.plus(fixed(metering.MAP))

    def message(self, node: Message) -> Range:
        total = ZERO
        for field in node.fields:
            total = total.plus(self.cost(field.value))
        return total.plus(fixed(metering.MESSAGE))

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
        self, node: Call, overload: str, target: Sized | None, args: list[Sized], costs: list[Range]
    ) -> Estimate:
        summed = ZERO
        for cost in costs:
            summed = summed.plus(cost)
        own = self.estimators.get(overload)
        priced = own(self.measured(target), [*map(self.measured, args)]) if own is not None else None
        if priced is None:
            kubernetes = _KUBERNETES.get(node.function)
            priced = kubernetes(self, overload, target, args) if kubernetes is not None else None
        if priced is not None:
            return Estimate(priced.cost.plus(summed), priced.size)
        match overload:
            case "logical_or" | "logical_and":
                return Estimate(Range(costs[0].low, costs[0].plus(costs[1]).high))
            case "conditional":
                return self._conditional(node, costs)
            case "add_string" | "add_bytes" | "add_list" if len(args) == 2:
                return self._addition(node, overload, summed)
        standard = _STANDARD.get(overload)
        if standard is not None:
            priced = standard(target, args)
            if priced is not None:
                return Estimate(priced.cost.plus(summed), priced.size)
        return Estimate(ONE.plus(summed))

    def _conditional(self, node: Call, costs: list[Range]) -> Estimate:
        _, then, otherwise = node.args
        a, b = self.entry_sizes(then), self.entry_sizes(otherwise)
        if a is not None and b is not None:
            self.entries[id(node)] = a.union(b)
        size = (self.size(then) or UNKNOWN).union(self.size(otherwise) or UNKNOWN)
        return Estimate(costs[0].plus(costs[1].union(costs[2])), size)

    def _addition(self, node: Call, overload: str, summed: Range) -> Estimate:
        left, right = node.args
        size = (self.size(left) or UNKNOWN).plus(self.size(right) or UNKNOWN)
        a, b = self.entry_sizes(left), self.entry_sizes(right)
        if a is not None and b is not None:
            self.entries[id(node)] = a.union(b)
        cost = ONE if overload == "add_list" else size.scaled(TRAVERSAL)
        return Estimate(cost.plus(summed), size)


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


def _known(part: Sized) -> Range:
    return part.size or UNKNOWN


# The standard functions, by overload


def _format(target: Sized | None, args: list[Sized]) -> Estimate | None:
    return None if target is None else Estimate(_known(target).scaled(TRAVERSAL))


def _string_to_bytes(target: Sized | None, args: list[Sized]) -> Estimate | None:
    if len(args) != 1:
        return None
    size = _known(args[0])
    return Estimate(size.scaled(TRAVERSAL), Range(size.low, size.high * 4 & UNBOUNDED))


def _bytes_to_string(target: Sized | None, args: list[Sized]) -> Estimate | None:
    if len(args) != 1:
        return None
    size = _known(args[0])
    return Estimate(size.scaled(TRAVERSAL), Range(size.low // 4, size.high))


def _quote(target: Sized | None, args: list[Sized]) -> Estimate | None:
    if len(args) != 1:
        return None
    size = _known(args[0])
    return Estimate(size.scaled(TRAVERSAL), Range(size.low + 2 & UNBOUNDED, size.high * 2 + 2 & UNBOUNDED))


def _affix(target: Sized | None, args: list[Sized]) -> Estimate | None:
    return Estimate(_known(args[0]).scaled(TRAVERSAL)) if len(args) == 1 else None


def _in_list(target: Sized | None, args: list[Sized]) -> Estimate | None:
    return Estimate(_known(args[1]).scaled(1)) if len(args) == 2 else None


def _matches(target: Sized | None, args: list[Sized]) -> Estimate | None:
    if target is None or len(args) != 1:
        return None
    return Estimate(_known(target).plus(ONE).scaled(TRAVERSAL).times(_known(args[0]).scaled(REGEX)))


def _contains(target: Sized | None, args: list[Sized]) -> Estimate | None:
    if target is None or len(args) != 1:
        return None
    return Estimate(_known(target).scaled(TRAVERSAL).times(_known(args[0]).scaled(TRAVERSAL)))


def _comparison(target: Sized | None, args: list[Sized]) -> Estimate | None:
    smallest = min(_known(args[0]).high, _known(args[1]).high)
    return Estimate(Range(1 if smallest > 0 else 0, smallest).scaled(TRAVERSAL))


_STANDARD: Final[dict[str, Callable[[Sized | None, list[Sized]], Estimate | None]]] = {
    "string_format": _format,
    "string_to_bytes": _string_to_bytes,
    "bytes_to_string": _bytes_to_string,
    "strings_quote": _quote,
    "starts_with_string": _affix,
    "ends_with_string": _affix,
    "in_list": _in_list,
    "matches_string": _matches,
    "contains_string": _contains,
    **dict.fromkeys(
        (
            "less_string", "greater_string", "less_equals_string", "greater_equals_string",
            "less_bytes", "greater_bytes", "less_equals_bytes", "greater_equals_bytes", "equals", "not_equals",
        ),
        _comparison,
    ),
}  # fmt: skip


# Kubernetes' functions, by name

KubernetesPrice = Callable[[_Estimator, str, Sized | None, list[Sized]], Estimate | None]


def _nominal(e: _Estimator, overload: str, target: Sized | None, args: list[Sized]) -> Estimate | None:
    return Estimate(ONE)


def _check(e: _Estimator, overload: str, target: Sized | None, args: list[Sized]) -> Estimate | None:
    return Estimate(fixed(metering.AUTHORIZATION_CHECK))


def _selector(e: _Estimator, overload: str, target: Sized | None, args: list[Sized]) -> Estimate | None:
    if len(args) != 1:
        return None
    length = e.size_of(args[0])
    requirements = length.scaled(0.5).scaled(float(metering.LIST + metering.MESSAGE))
    return Estimate(fixed(metering.LIST).plus(length.scaled(TRAVERSAL)).plus(requirements))


def _over_list(e: _Estimator, overload: str, target: Sized | None, args: list[Sized]) -> Estimate | None:
    if target is None:
        return None
    size = e.size_of(target)
    if not target.type.params:
        return Estimate(size.scaled(TRAVERSAL))
    element = target.type.params[0]
    each = ONE
    if element.kind in ("string", "bytes"):
        path = (*target.path, "@items") if target.path else ()
        each = each.plus((e._hint(path) or UNKNOWN).scaled(TRAVERSAL))
    return Estimate(size.times(each))


def _parsed_whole(e: _Estimator, overload: str, target: Sized | None, args: list[Sized]) -> Estimate | None:
    if len(args) != 1:
        return None
    size = e.size_of(args[0])
    return Estimate(size.scaled(TRAVERSAL), size)


def _rewritten(e: _Estimator, overload: str, target: Sized | None, args: list[Sized]) -> Estimate | None:
    if target is None:
        return None
    size = e.size_of(target)
    return Estimate(size.scaled(TRAVERSAL), size)


def _replace(e: _Estimator, overload: str, target: Sized | None, args: list[Sized]) -> Estimate | None:
    if target is None or len(args) < 2:
        return None
    text, old, new = e.size_of(target), e.size_of(args[0]), e.size_of(args[1])
    most = kept_most = least = kept_least = 0
    if old.low == 0:
        # An empty needle puts the replacement around every character.
        most, kept_most = min(text.high + 1, UNBOUNDED), text.high
    elif new.high <= old.low:
        kept_most = text.high
    else:
        most = _divided(text.high, old.low)
    if old.high == 0:
        least, kept_least = min(text.low + 1, UNBOUNDED), text.low
    elif old.high <= new.low:
        kept_least = text.low
    else:
        least = _divided(text.low, old.high)
    size = Range(least, most).times(new).plus(Range(kept_least, kept_most))
    return Estimate(text.scaled(2 * TRAVERSAL), size)


def _divided(x: int, y: int) -> int:
    return min(ceil(float(x) / float(y)), UNBOUNDED)


def _split(e: _Estimator, overload: str, target: Sized | None, args: list[Sized]) -> Estimate | None:
    if target is None:
        return None
    size = e.size_of(target)
    most = size.high
    if len(args) > 1 and isinstance(args[1].node, Literal) and type(args[1].node.value) is int:
        most = args[1].node.value & UNBOUNDED
    return Estimate(size.scaled(2 * TRAVERSAL), Range(0, most))


def _join(e: _Estimator, overload: str, target: Sized | None, args: list[Sized]) -> Estimate | None:
    if target is None:
        return None
    count = e.size_of(target)
    size = ZERO
    if target.type.params:
        path = (*target.path, "@items") if target.path else ()
        size = count.times(e._hint(path) or UNKNOWN)
    if args:
        separators = Range(max(count.low - 1, 0), max(count.high - 1, 0))
        size = size.plus(e.size_of(args[0]).times(separators))
    return Estimate(size.scaled(TRAVERSAL), size)


def _find(e: _Estimator, overload: str, target: Sized | None, args: list[Sized]) -> Estimate | None:
    if target is None or not args:
        return None
    size = e.size_of(target)
    cost = size.plus(ONE).scaled(TRAVERSAL).times(e.size_of(args[0]).scaled(REGEX))
    return Estimate(cost, Range(0, size.high))


def _parsed(e: _Estimator, overload: str, target: Sized | None, args: list[Sized]) -> Estimate | None:
    return Estimate(e.size_of(args[0]).scaled(TRAVERSAL)) if args else None


def _ip(e: _Estimator, overload: str, target: Sized | None, args: list[Sized]) -> Estimate | None:
    return Estimate(ONE) if overload == "cidr_ip" else _parsed(e, overload, target, args)


def _parsed_twice(e: _Estimator, overload: str, target: Sized | None, args: list[Sized]) -> Estimate | None:
    return Estimate(e.size_of(args[0]).scaled(2 * TRAVERSAL)) if args else None


_ADDRESS: Final = Range(4, 16)


def _contains_ip(e: _Estimator, overload: str, target: Sized | None, args: list[Sized]) -> Estimate | None:
    if not args:
        return None
    cost = _ADDRESS.plus(_ADDRESS).scaled(TRAVERSAL)
    if overload == "cidr_contains_ip_string":
        cost = cost.plus(e.size_of(args[0]).scaled(TRAVERSAL))
    return Estimate(cost)


def _contains_cidr(e: _Estimator, overload: str, target: Sized | None, args: list[Sized]) -> Estimate | None:
    if not args:
        return None
    cost = _ADDRESS.plus(_ADDRESS).scaled(TRAVERSAL).plus(_ADDRESS.scaled(TRAVERSAL)).plus(ONE)
    if overload == "cidr_contains_cidr_string":
        cost = cost.plus(e.size_of(args[0]).scaled(TRAVERSAL))
    return Estimate(cost)


MAX_NAME_FORMAT_REGEX: Final = 128
MAX_FORMAT_SIZE: Final = 64


def _validate(e: _Estimator, overload: str, target: Sized | None, args: list[Sized]) -> Estimate | None:
    if not args:
        return None
    return Estimate(e.size_of(args[0]).scaled(TRAVERSAL).scaled(MAX_NAME_FORMAT_REGEX * REGEX))


_CHEAP_EQUALITY: Final = frozenset(
    {
        "net.IP", "net.CIDR", "kubernetes.Quantity", "kubernetes.Semver", "kubernetes.authorization.Authorizer",
        "kubernetes.authorization.PathCheck", "kubernetes.authorization.GroupCheck",
        "kubernetes.authorization.ResourceCheck", "kubernetes.authorization.Decision",
    }
)  # fmt: skip


def _equality(e: _Estimator, overload: str, target: Sized | None, args: list[Sized]) -> Estimate | None:
    if len(args) != 2 or not t.same(args[0].type, args[1].type):
        return None
    name = args[0].type.name
    if name in _CHEAP_EQUALITY:
        return Estimate(ONE)
    if name == "kubernetes.NamedFormat":
        return Estimate(Range(1, MAX_FORMAT_SIZE).scaled(TRAVERSAL))
    if name == "kubernetes.URL":
        size = args[1].size or ONE
        return Estimate(Range(1, size.high).scaled(TRAVERSAL))
    return None


_NOMINAL: Final = [
    "serviceAccount",
    "path",
    "group",
    "resource",
    "subresource",
    "namespace",
    "name",
    "allowed",
    "reason",
    "error",
    "errored",
    "masked",
    "prefixLength",
    "family",
    "isUnspecified",
    "isLoopback",
    "isLinkLocalMulticast",
    "isLinkLocalUnicast",
    "isGlobalUnicast",
    "format.named",
    "sign",
    "asInteger",
    "isInteger",
    "asApproximateFloat",
    "isGreaterThan",
    "isLessThan",
    "compareTo",
    "add",
    "sub",
    "major",
    "minor",
    "patch",
    "getScheme",
    "getHostname",
    "getHost",
    "getPort",
    "getEscapedPath",
    "getQuery",
]

_KUBERNETES: Final[dict[str, KubernetesPrice]] = {
    **dict.fromkeys(_NOMINAL, _nominal),
    "check": _check,
    **dict.fromkeys(("fieldSelector", "labelSelector"), _selector),
    **dict.fromkeys(("isSorted", "sum", "max", "min", "indexOf", "lastIndexOf"), _over_list),
    **dict.fromkeys(("url", "jsonpatch.escapeKey"), _parsed_whole),
    **dict.fromkeys(("lowerAscii", "upperAscii", "substring", "trim"), _rewritten),
    "replace": _replace,
    "split": _split,
    "join": _join,
    **dict.fromkeys(("find", "findAll"), _find),
    **dict.fromkeys(("cidr", "isIP", "isCIDR", "quantity", "isQuantity", "semver", "isSemver"), _parsed),
    "ip": _ip,
    "ip.isCanonical": _parsed_twice,
    "containsIP": _contains_ip,
    "containsCIDR": _contains_cidr,
    "validate": _validate,
    "_==_": _equality,
}

_COSTS: Final[dict[type, Callable[[_Estimator, object], Range]]] = {
    Literal: _Estimator.literal,  # type: ignore[dict-item]
    Ident: _Estimator.ident,  # type: ignore[dict-item]
    Select: _Estimator.select,  # type: ignore[dict-item]
    Call: _Estimator.call,  # type: ignore[dict-item]
    ListNode: _Estimator.list_,  # type: ignore[dict-item]
    MapNode: _Estimator.map_,  # type: ignore[dict-item]
    Message: _Estimator.message,  # type: ignore[dict-item]
    Comprehension: _Estimator.comprehension,  # type: ignore[dict-item]
}

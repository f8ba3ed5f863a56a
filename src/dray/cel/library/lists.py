"""Lists: Kubernetes' own functions (sum, min, isSorted …) and cel-go's extension (slice, sort, distinct …)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cmp_to_key, lru_cache
from typing import Any, Final

from dray.cel.common import operators
from dray.cel.common.ast import Call, Comprehension, Ident, ListNode, Literal, MapNode, Message, Node
from dray.cel.common.decls import Function, Library, Overload, overload
from dray.cel.common.values import Duration, UInt, Value, compare, equal, is_list, type_of
from dray.cel.cost.runtime import LIST, TRAVERSAL, Price, ResultPrice, actual_size
from dray.cel.cost.sizes import ONE, UNBOUNDED, CallEstimate, FunctionEstimator, Range, SizedNode, fixed
from dray.cel.errors import CostExceeded, EvaluationError, no_such_overload
from dray.cel.interpreter.limits import MAX_SIZE, check_size
from dray.cel.parser import macros
from dray.cel.parser.macros import MacroError, MacroKey

_SUMMABLE: Final = ("int", "uint", "double", "duration")
_COMPARABLE: Final = ("int", "uint", "double", "bool", "duration", "timestamp", "string", "bytes")
_ZEROS: Final[dict[str, Value]] = {"int": 0, "uint": UInt(0), "double": 0.0, "duration": Duration(0)}


# Kubernetes' functions


def _order(a: Value, b: Value) -> int | None:
    """The order of two elements, None where they have none."""
    try:
        return compare(a, b, "")
    except EvaluationError:
        return None


def _comparable(value: Value) -> Value:
    if type(value) not in operators.COMPARERS:
        raise no_such_overload()
    return value


def _is_sorted(values: list[Value]) -> bool:
    for i, value in enumerate(values):
        _comparable(value)
        if i and _order(values[i - 1], value) == 1:
            return False
    return True


def _sum(zero: Value) -> Callable[[list[Value]], Value]:
    def total(values: list[Value]) -> Value:
        result = zero
        for value in values:
            result = operators.add(result, value)
        return result

    return total


def _extreme(name: str, wanted: int) -> Callable[[list[Value]], Value]:
    def extreme(values: list[Value]) -> Value:
        if not values:
            raise EvaluationError(f"{name} called on empty list")
        result = _comparable(values[0])
        for value in values[1:]:
            if _order(result, _comparable(value)) == wanted:
                result = value
        return result

    return extreme


def _index_of(values: list[Value], wanted: Value) -> int:
    return next((i for i, value in enumerate(values) if equal(value, wanted)), -1)


def _last_index_of(values: list[Value], wanted: Value) -> int:
    return next((i for i in reversed(range(len(values))) if equal(values[i], wanted)), -1)


KUBERNETES_LISTS: Final = Library(
    name="kubernetes.lists",
    overloads=(
        *(overload("isSorted", f"list_{t}_is_sorted_bool", f"list({t}).() -> bool", _is_sorted) for t in _COMPARABLE),
        *(overload("sum", f"list_{t}_sum_{t}", f"list({t}).() -> {t}", _sum(_ZEROS[t])) for t in _SUMMABLE),
        *(overload("max", f"list_{t}_max_{t}", f"list({t}).() -> {t}", _extreme("max", -1)) for t in _COMPARABLE),
        *(overload("min", f"list_{t}_min_{t}", f"list({t}).() -> {t}", _extreme("min", 1)) for t in _COMPARABLE),
        overload("indexOf", "list_a_index_of_int", "list(A).(A) -> int", _index_of),
        overload("lastIndexOf", "list_a_last_index_of_int", "list(A).(A) -> int", _last_index_of),
    ),
)  # fmt: skip


# cel-go's extension


def _slice(values: list[Value], start: int, end: int) -> list[Value]:
    if start < 0 or end < 0:
        raise EvaluationError(f"cannot slice({start}, {end}), negative indexes not supported")
    if start > end:
        raise EvaluationError(
            f"cannot slice({start}, {end}), start index must be less than or equal to end index"
        )
    if len(values) < end:
        raise EvaluationError(f"cannot slice({start}, {end}), list is length {len(values)}")
    return values[start:end]


def _flatten(values: Value, depth: int = 1) -> list[Value]:
    if not is_list(values) or type(depth) is not int:
        shown = f"{type_of(values).shown}.flatten({'' if depth == 1 else type_of(depth).shown})"
        raise EvaluationError(f"no such overload: {shown}")
    if depth < 0:
        raise EvaluationError("level must be non-negative")
    flat: list[Value] = []
    for value in values:
        if depth and is_list(value):
            flat += _flatten(value, depth - 1)
            check_size(len(flat))
        else:
            flat.append(value)
    return flat


def _sort(values: Value) -> list[Value]:
    return _sort_by(values, values)


def _sort_by(values: Value, keys: Value) -> list[Value]:
    """The values in the order of their keys."""
    if not is_list(values) or not is_list(keys):
        raise no_such_overload()
    if len(values) != len(keys):
        raise EvaluationError(
            "@sortByAssociatedKeys() expected a list of the same size as the associated keys list, "
            f"but got {len(values)} and {len(keys)} elements respectively"
        )
    if not values:
        return list(values)
    if type(keys[0]) not in operators.COMPARERS:
        raise EvaluationError("list elements must be comparable")
    if any(type(key) is not type(keys[0]) for key in keys):
        raise EvaluationError("list elements must have the same type")
    order = cmp_to_key(lambda i, j: _order(keys[i], keys[j]) or 0)
    return [values[i] for i in sorted(range(len(values)), key=order)]


def _range(count: int) -> list[int]:
    # Upstream pays a unit for every element, and no limit is as high as this one.
    if count > MAX_SIZE // 10:
        raise CostExceeded
    return list(range(count))


def _reverse(values: list[Value]) -> list[Value]:
    return values[::-1]


def _distinct(values: list[Value]) -> list[Value]:
    unique: list[Value] = []
    for value in values:
        if not any(equal(value, other) for other in unique):
            unique.append(value)
    return unique


def _sort_by_macro(offset: int, target: Node | None, args: list[Node]) -> Node:
    """``list.sortBy(e, key)``: bind the list, and sort it by the keys mapped from it."""
    if isinstance(target, Literal | MapNode | Message) or target is None:
        assert target is not None
        raise MacroError(
            target,
            "sortBy can only be applied to a list, identifier, comprehension, call or select expression",
        )
    name = "@__sortBy_input__"
    keys = macros.map_(offset, Ident(offset, name), args)
    call = Call(offset, "@sortByAssociatedKeys", Ident(offset, name), [keys])
    return Comprehension(
        offset,
        ListNode(offset, []),
        macros.UNUSED,
        name,
        target,
        Literal(offset, False),
        Ident(offset, name),
        call,
    )


def _sorting(name: str, implementation: Callable[..., Any], signature: str, suffix: str) -> Function:
    type_names = {"duration": "google.protobuf.Duration", "timestamp": "google.protobuf.Timestamp"}
    return Function(
        name,
        tuple(
            overload(name, f"list_{type_names.get(t, t)}_{suffix}", signature.format(t=t))
            for t in _COMPARABLE
        ),
        singleton=implementation,
    )


# What they cost: a unit a call, the list made, and work in proportion to the elements or pairs of them.


def _allocating(factor: float, size: Range) -> CallEstimate:
    return CallEstimate(size.scaled(factor).plus(ONE).plus(fixed(LIST)), size)


def _literal(part: SizedNode, otherwise: int) -> int:
    node = part.node
    if not isinstance(node, Literal) or type(node.value) is not int:
        return otherwise
    return max(node.value, 0)


def _estimate_slice(target: SizedNode | None, args: list[SizedNode]) -> CallEstimate | None:
    if target is None or len(args) != 2:
        return None
    start = _literal(args[0], 0)
    end = _literal(args[1], target.known.high)
    return _allocating(1, fixed(end - start & UNBOUNDED))


def _estimate_range(target: SizedNode | None, args: list[SizedNode]) -> CallEstimate | None:
    if target is not None or len(args) != 1:
        return None
    return _allocating(1, fixed(_literal(args[0], UNBOUNDED)))


def _estimate_reverse(target: SizedNode | None, args: list[SizedNode]) -> CallEstimate | None:
    return None if target is None or args else _allocating(1, target.known)


def _estimate_flatten(target: SizedNode | None, args: list[SizedNode]) -> CallEstimate | None:
    if target is None or len(args) > 1:
        return None
    depth = _literal(args[0], UNBOUNDED) if args else 1
    return _allocating(float(depth), target.known)


def _estimate_pairs(kind: str, *, of_argument: bool) -> FunctionEstimator:
    factor = 2.0 + (TRAVERSAL if kind in ("string", "bytes") else 0)

    def estimate(target: SizedNode | None, args: list[SizedNode]) -> CallEstimate | None:
        if target is None or len(args) != (1 if of_argument else 0):
            return None
        size = (args[0] if of_argument else target).known
        return _allocating(factor, size.times(size))

    return estimate


def _metered(factor: float, size: int) -> int:
    return int(size * factor) + 1 + LIST


def _meter_result(args: Sequence[Value], result: Value) -> int:
    return _metered(1, actual_size(result))


def _meter_flatten(args: Sequence[Value], result: Value) -> int:
    depth = float(args[1]) if len(args) == 2 and type(args[1]) is int else 1.0
    return max(_metered(depth, actual_size(args[0])), 0)


def _meter_pairs(position: int) -> Price:
    def meter(args: Sequence[Value], result: Value) -> int:
        values = args[position]
        if not is_list(values) or not values:
            return _metered(2.0, 0)
        factor = 2.0 + (TRAVERSAL if isinstance(values[0], str | bytes) else 0)
        return _metered(factor, len(values) ** 2)

    return meter


@lru_cache
def lists(version: int) -> Library:
    """The extension as of a version of its own; Kubernetes uses 3."""
    overloads: list[Overload] = [
        overload("slice", "list_slice", "list(T).(int, int) -> list(T)", _slice),
    ]
    functions: list[Function] = []
    macro: dict[MacroKey, macros.Macro] = {}
    if version >= 1:
        overloads += [
            overload("flatten", "list_flatten", "list(list(T)).() -> list(T)", _flatten, guarded=False),
            overload("flatten", "list_flatten_int", "list(dyn).(int) -> list(dyn)", _flatten, guarded=False),
        ]
    if version >= 2:
        functions += [
            _sorting("sort", _sort, "list({t}).() -> list({t})", "sort"),
            _sorting(
                "@sortByAssociatedKeys", _sort_by, "list(T).(list({t})) -> list(T)", "sortByAssociatedKeys"
            ),
        ]
        macro[MacroKey("sortBy", 2, True)] = _sort_by_macro
        overloads += [
            overload("lists.range", "lists_range", "(int) -> list(int)", _range),
            overload("reverse", "list_reverse", "list(T).() -> list(T)", _reverse),
            overload("distinct", "list_distinct", "list(T).() -> list(T)", _distinct),
        ]
    estimators: dict[str, FunctionEstimator] = {}
    prices: dict[str, Price] = {}
    if version >= 3:
        estimators |= {
            "list_slice": _estimate_slice,
            "list_flatten": _estimate_flatten,
            "list_flatten_int": _estimate_flatten,
            "lists_range": _estimate_range,
            "list_reverse": _estimate_reverse,
            "list_distinct": _estimate_pairs("", of_argument=False),
        }
        prices |= {
            "list_slice": ResultPrice(_meter_result),
            "list_flatten": _meter_flatten,
            "list_flatten_int": _meter_flatten,
            "lists_range": ResultPrice(_meter_result),
            "list_reverse": ResultPrice(_meter_result),
            "list_distinct": _meter_pairs(0),
        }
        for function in functions:
            by_keys = function.name != "sort"
            for each in function.overloads:
                kind = each.args[-1].params[0].kind
                estimators[each.id] = _estimate_pairs(kind, of_argument=by_keys)
                prices[each.id] = _meter_pairs(1 if by_keys else 0)
    return Library(
        name="cel.lib.ext.lists",
        overloads=tuple(overloads),
        functions=tuple(functions),
        macros=macro,
        estimators=estimators,
        prices=prices,
    )

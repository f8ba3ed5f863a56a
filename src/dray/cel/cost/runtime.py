"""What a call costs at run time, in cel-go's cost units with Kubernetes' additions.

A price is a number, or a function of the arguments and the result. Failed arguments are priced like scalars, as
upstream does, so an expression costs the same whether or not it ends in an error.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import ceil
from typing import Final

from dray.cel.common.values import Optional, Value, is_list, is_map, is_opaque, size

Price = int | Callable[[Sequence[Value], Value], int]


class ResultPrice:
    """A price that depends on the result; every other price is known, and paid, before the call."""

    __slots__ = ("price",)

    def __init__(self, price: Callable[[Sequence[Value], Value], int]) -> None:
        self.price = price

    def __call__(self, args: Sequence[Value], result: Value) -> int:
        return self.price(args, result)


SELECT: Final = 1
LIST: Final = 10
MAP: Final = 30
MESSAGE: Final = 40
TRAVERSAL: Final = 0.1
REGEX: Final = 0.25
AUTHORIZATION_CHECK: Final = 350_000


def actual_size(value: Value) -> int:
    """The size a value counts with; whatever has none counts as 1."""
    found = size(value)
    if found is not None:
        return found
    if type(value) is Optional and value.present:
        return actual_size(value.value)
    return 1


def _actual_size(value: Value) -> int:
    # Kubernetes' own prices do not look into optionals.
    found = size(value)
    return 1 if found is None else found


def _one_traversal(args: Sequence[Value], result: Value) -> int:
    return ceil(_actual_size(args[0]) * TRAVERSAL)


def _two_traversals(args: Sequence[Value], result: Value) -> int:
    return ceil(_actual_size(args[0]) * 2 * TRAVERSAL)


def _join(args: Sequence[Value], result: Value) -> int:
    return ceil(_actual_size(result) * 2 * TRAVERSAL)


def _regex_search(args: Sequence[Value], result: Value) -> int:
    return ceil((1.0 + _actual_size(args[0])) * TRAVERSAL) * ceil(_actual_size(args[1]) * REGEX)


def _whole(args: Sequence[Value], result: Value) -> int:
    return _tree(args[0])


def _tree(value: Value) -> int:
    """The cost of walking a value as a tree."""
    if isinstance(value, str):
        return int(len(value.encode()) * TRAVERSAL)
    if isinstance(value, bytes):
        return int(len(value) * TRAVERSAL)
    if is_list(value):
        return sum(map(_tree, value))
    if is_map(value):
        return sum(_tree(k) + _tree(v) for k, v in value.items())
    return 1


def _contains_ip(args: Sequence[Value], result: Value) -> int:
    return ceil(_actual_size(args[0]) * 2 * TRAVERSAL)


def _contains_ip_string(args: Sequence[Value], result: Value) -> int:
    return _contains_ip(args, result) + ceil(_actual_size(args[1]) * TRAVERSAL)


def _contains_cidr(args: Sequence[Value], result: Value) -> int:
    own = _actual_size(args[0])
    return ceil(own * 2 * TRAVERSAL) + ceil(own * TRAVERSAL) + 1


def _contains_cidr_string(args: Sequence[Value], result: Value) -> int:
    return _contains_cidr(args, result) + ceil(_actual_size(args[1]) * TRAVERSAL)


def _validate(args: Sequence[Value], result: Value) -> int:
    pattern_size: int | None = getattr(args[0], "max_regex_size", None)
    if pattern_size is None:
        return 1
    return ceil((1.0 + _actual_size(args[1])) * TRAVERSAL) * ceil(pattern_size * REGEX)


def _selector(args: Sequence[Value], result: Value) -> int:
    length = _actual_size(args[1]) if len(args) > 1 else 0
    return LIST + ceil(length * TRAVERSAL) + (LIST + MESSAGE) * ceil(length * 0.5)


def _smaller_traversal(args: Sequence[Value], result: Value) -> int:
    return ceil(min(actual_size(args[0]), actual_size(args[1])) * TRAVERSAL)


def _sum_traversal(args: Sequence[Value], result: Value) -> int:
    return ceil((actual_size(args[0]) + actual_size(args[1])) * TRAVERSAL)


def _first_traversal(args: Sequence[Value], result: Value) -> int:
    return ceil(actual_size(args[0]) * TRAVERSAL)


def _matches(args: Sequence[Value], result: Value) -> int:
    return ceil((1.0 + actual_size(args[0])) * TRAVERSAL) * ceil(actual_size(args[1]) * REGEX)


def _contains(args: Sequence[Value], result: Value) -> int:
    return ceil(actual_size(args[0]) * TRAVERSAL) * ceil(actual_size(args[1]) * TRAVERSAL)


def _second_size(args: Sequence[Value], result: Value) -> int:
    return actual_size(args[1])


def _equals(args: Sequence[Value], result: Value) -> int:
    if is_opaque(args[0]):
        return 1
    return _smaller_traversal(args, result)


_BY_FUNCTION: Final[dict[str, Price]] = {
    "check": AUTHORIZATION_CHECK,
    "fieldSelector": _selector,
    "labelSelector": _selector,
    **dict.fromkeys(("isSorted", "sum", "max", "min", "indexOf", "lastIndexOf"), _whole),
    **dict.fromkeys(
        ("url", "lowerAscii", "upperAscii", "substring", "trim", "jsonpatch.escapeKey"), _one_traversal
    ),
    **dict.fromkeys(("replace", "split"), _two_traversals),
    "join": ResultPrice(_join),
    **dict.fromkeys(("find", "findAll"), _regex_search),
    **dict.fromkeys(("cidr", "isIP", "isCIDR", "ip"), _one_traversal),
    "ip.isCanonical": _two_traversals,
    **dict.fromkeys(("quantity", "isQuantity", "semver", "isSemver"), _one_traversal),
    "validate": _validate,
    "_==_": _equals,
}
_BY_FUNCTION_AND_OVERLOAD: Final[dict[tuple[str, str], Price]] = {
    ("ip", "cidr_ip"): 1,
    ("containsIP", "cidr_contains_ip_string"): _contains_ip_string,
    ("containsCIDR", "cidr_contains_cidr_string"): _contains_cidr_string,
}
_BY_FUNCTION["containsIP"] = _contains_ip
_BY_FUNCTION["containsCIDR"] = _contains_cidr

_BY_OVERLOAD: Final[dict[str, Price]] = {
    **dict.fromkeys(
        ("starts_with_string", "ends_with_string", "string_to_bytes", "bytes_to_string", "strings_quote", "string_format"),
        _first_traversal,
    ),
    "in_list": _second_size,
    **dict.fromkeys(
        (
            "less_string", "greater_string", "less_equals_string", "greater_equals_string",
            "less_bytes", "greater_bytes", "less_equals_bytes", "greater_equals_bytes", "equals", "not_equals",
        ),
        _smaller_traversal,
    ),
    **dict.fromkeys(("add_string", "add_bytes"), _sum_traversal),
    "matches_string": _matches,
    "contains_string": _contains,
}  # fmt: skip


def price(function: str, overload: str) -> Price:
    """The price of a call; ``overload`` is empty where it is chosen only at run time."""
    found = _BY_FUNCTION_AND_OVERLOAD.get((function, overload))
    if found is None:
        found = _BY_FUNCTION.get(function)
    if found is None:
        found = _BY_OVERLOAD.get(overload)
    return 1 if found is None else found

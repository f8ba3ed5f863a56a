"""What calls cost at worst: cel-go's standard functions by overload, Kubernetes' functions by name."""

from __future__ import annotations

from math import ceil
from typing import Final

from dray.cel.common import types as t
from dray.cel.common.ast import Literal
from dray.cel.cost import runtime
from dray.cel.cost.runtime import REGEX, TRAVERSAL
from dray.cel.cost.sizes import ONE, UNBOUNDED, ZERO, CallEstimate, FunctionEstimator, Range, SizedNode, fixed

# The standard functions, by overload


def _format(target: SizedNode | None, args: list[SizedNode]) -> CallEstimate | None:
    return None if target is None else CallEstimate(target.known.scaled(TRAVERSAL))


def _string_to_bytes(target: SizedNode | None, args: list[SizedNode]) -> CallEstimate | None:
    if len(args) != 1:
        return None
    size = args[0].known
    return CallEstimate(size.scaled(TRAVERSAL), Range(size.low, size.high * 4 & UNBOUNDED))


def _bytes_to_string(target: SizedNode | None, args: list[SizedNode]) -> CallEstimate | None:
    if len(args) != 1:
        return None
    size = args[0].known
    return CallEstimate(size.scaled(TRAVERSAL), Range(size.low // 4, size.high))


def _quote(target: SizedNode | None, args: list[SizedNode]) -> CallEstimate | None:
    if len(args) != 1:
        return None
    size = args[0].known
    return CallEstimate(
        size.scaled(TRAVERSAL), Range(size.low + 2 & UNBOUNDED, size.high * 2 + 2 & UNBOUNDED)
    )


def _affix(target: SizedNode | None, args: list[SizedNode]) -> CallEstimate | None:
    return CallEstimate(args[0].known.scaled(TRAVERSAL)) if len(args) == 1 else None


def _in_list(target: SizedNode | None, args: list[SizedNode]) -> CallEstimate | None:
    return CallEstimate(args[1].known.scaled(1)) if len(args) == 2 else None


def _matches(target: SizedNode | None, args: list[SizedNode]) -> CallEstimate | None:
    if target is None or len(args) != 1:
        return None
    return CallEstimate(target.known.plus(ONE).scaled(TRAVERSAL).times(args[0].known.scaled(REGEX)))


def _contains(target: SizedNode | None, args: list[SizedNode]) -> CallEstimate | None:
    if target is None or len(args) != 1:
        return None
    return CallEstimate(target.known.scaled(TRAVERSAL).times(args[0].known.scaled(TRAVERSAL)))


def _comparison(target: SizedNode | None, args: list[SizedNode]) -> CallEstimate | None:
    smallest = min(args[0].known.high, args[1].known.high)
    return CallEstimate(Range(1 if smallest > 0 else 0, smallest).scaled(TRAVERSAL))


BY_OVERLOAD: Final[dict[str, FunctionEstimator]] = {
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


def _nominal(target: SizedNode | None, args: list[SizedNode]) -> CallEstimate | None:
    return CallEstimate(ONE)


def _check(target: SizedNode | None, args: list[SizedNode]) -> CallEstimate | None:
    return CallEstimate(fixed(runtime.AUTHORIZATION_CHECK))


def _selector(target: SizedNode | None, args: list[SizedNode]) -> CallEstimate | None:
    if len(args) != 1:
        return None
    length = args[0].known
    requirements = length.scaled(0.5).scaled(float(runtime.LIST + runtime.MESSAGE))
    return CallEstimate(fixed(runtime.LIST).plus(length.scaled(TRAVERSAL)).plus(requirements))


def _over_list(target: SizedNode | None, args: list[SizedNode]) -> CallEstimate | None:
    if target is None:
        return None
    size = target.known
    if not target.type.params:
        return CallEstimate(size.scaled(TRAVERSAL))
    each = ONE
    if target.type.params[0].kind in ("string", "bytes"):
        each = each.plus(target.items.scaled(TRAVERSAL))
    return CallEstimate(size.times(each))


def _parsed_whole(target: SizedNode | None, args: list[SizedNode]) -> CallEstimate | None:
    if len(args) != 1:
        return None
    size = args[0].known
    return CallEstimate(size.scaled(TRAVERSAL), size)


def _rewritten(target: SizedNode | None, args: list[SizedNode]) -> CallEstimate | None:
    if target is None:
        return None
    size = target.known
    return CallEstimate(size.scaled(TRAVERSAL), size)


def _replace(target: SizedNode | None, args: list[SizedNode]) -> CallEstimate | None:
    if target is None or len(args) < 2:
        return None
    text, old, new = target.known, args[0].known, args[1].known
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
    return CallEstimate(text.scaled(2 * TRAVERSAL), size)


def _divided(x: int, y: int) -> int:
    return min(ceil(float(x) / float(y)), UNBOUNDED)


def _split(target: SizedNode | None, args: list[SizedNode]) -> CallEstimate | None:
    if target is None:
        return None
    size = target.known
    most = size.high
    if len(args) > 1 and isinstance(args[1].node, Literal) and type(args[1].node.value) is int:
        most = args[1].node.value & UNBOUNDED
    return CallEstimate(size.scaled(2 * TRAVERSAL), Range(0, most))


def _join(target: SizedNode | None, args: list[SizedNode]) -> CallEstimate | None:
    if target is None:
        return None
    count = target.known
    size = ZERO
    if target.type.params:
        size = count.times(target.items)
    if args:
        separators = Range(max(count.low - 1, 0), max(count.high - 1, 0))
        size = size.plus(args[0].known.times(separators))
    return CallEstimate(size.scaled(TRAVERSAL), size)


def _find(target: SizedNode | None, args: list[SizedNode]) -> CallEstimate | None:
    if target is None or not args:
        return None
    size = target.known
    cost = size.plus(ONE).scaled(TRAVERSAL).times(args[0].known.scaled(REGEX))
    return CallEstimate(cost, Range(0, size.high))


def _parsed(target: SizedNode | None, args: list[SizedNode]) -> CallEstimate | None:
    return CallEstimate(args[0].known.scaled(TRAVERSAL)) if args else None


def _parsed_twice(target: SizedNode | None, args: list[SizedNode]) -> CallEstimate | None:
    return CallEstimate(args[0].known.scaled(2 * TRAVERSAL)) if args else None


_ADDRESS: Final = Range(4, 16)


def _contains_ip(target: SizedNode | None, args: list[SizedNode]) -> CallEstimate | None:
    if not args:
        return None
    cost = _ADDRESS.plus(_ADDRESS).scaled(TRAVERSAL)
    return CallEstimate(cost)


def _contains_cidr(target: SizedNode | None, args: list[SizedNode]) -> CallEstimate | None:
    if not args:
        return None
    cost = _ADDRESS.plus(_ADDRESS).scaled(TRAVERSAL).plus(_ADDRESS.scaled(TRAVERSAL)).plus(ONE)
    return CallEstimate(cost)


def _and_parsed(estimator: FunctionEstimator) -> FunctionEstimator:
    """The same for an argument that is a string to be parsed first."""

    def estimate(target: SizedNode | None, args: list[SizedNode]) -> CallEstimate | None:
        found = estimator(target, args)
        return None if found is None else CallEstimate(found.cost.plus(args[0].known.scaled(TRAVERSAL)))

    return estimate


MAX_NAME_FORMAT_REGEX: Final = 128
MAX_FORMAT_SIZE: Final = 64


def _validate(target: SizedNode | None, args: list[SizedNode]) -> CallEstimate | None:
    if not args:
        return None
    return CallEstimate(args[0].known.scaled(TRAVERSAL).scaled(MAX_NAME_FORMAT_REGEX * REGEX))


_CHEAP_EQUALITY: Final = frozenset(
    {
        "net.IP", "net.CIDR", "kubernetes.Quantity", "kubernetes.Semver", "kubernetes.authorization.Authorizer",
        "kubernetes.authorization.PathCheck", "kubernetes.authorization.GroupCheck",
        "kubernetes.authorization.ResourceCheck", "kubernetes.authorization.Decision",
    }
)  # fmt: skip


def _equality(target: SizedNode | None, args: list[SizedNode]) -> CallEstimate | None:
    if len(args) != 2 or not t.same(args[0].type, args[1].type):
        return None
    name = args[0].type.name
    if name in _CHEAP_EQUALITY:
        return CallEstimate(ONE)
    if name == "kubernetes.NamedFormat":
        return CallEstimate(Range(1, MAX_FORMAT_SIZE).scaled(TRAVERSAL))
    if name == "kubernetes.URL":
        size = args[1].size or ONE
        return CallEstimate(Range(1, size.high).scaled(TRAVERSAL))
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

BY_FUNCTION: Final[dict[str, FunctionEstimator]] = {
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
    "ip": _parsed,
    "ip.isCanonical": _parsed_twice,
    "containsIP": _contains_ip,
    "containsCIDR": _contains_cidr,
    "validate": _validate,
    "_==_": _equality,
}

BY_FUNCTION_AND_OVERLOAD: Final[dict[tuple[str, str], FunctionEstimator]] = {
    ("ip", "cidr_ip"): _nominal,
    ("containsIP", "cidr_contains_ip_string"): _and_parsed(_contains_ip),
    ("containsCIDR", "cidr_contains_cidr_string"): _and_parsed(_contains_cidr),
}


def kubernetes(function: str, overload: str) -> FunctionEstimator | None:
    """Kubernetes' own estimate of a call, if it has one."""
    return BY_FUNCTION_AND_OVERLOAD.get((function, overload)) or BY_FUNCTION.get(function)

"""Semantic versions: ``semver("1.2.3").isLessThan(semver("2.0.0"))``."""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from dray.api.semver import Version
from dray.cel.common.decls import Library, overload
from dray.cel.common.values import SEMVER
from dray.cel.errors import EvaluationError


def _parse(text: str, lenient: bool = False) -> Version:
    try:
        return Version.parse_lenient(text) if lenient else Version.parse(text)
    except ValueError as wrong:
        raise EvaluationError(str(wrong)) from None


def _is_semver(text: str, lenient: bool = False) -> bool:
    try:
        _parse(text, lenient)
    except EvaluationError:
        return False
    return True


def _signed(number: int) -> int:
    """A uint64 as Go's conversion to int64 leaves it."""
    return number - (1 << 64) if number >= 1 << 63 else number


_V: Final = "kubernetes.Semver"

_BASE: Final = (
    overload("semver", "string_to_semver", f"(string) -> {_V}", _parse),
    overload("isSemver", "is_semver_string", "(string) -> bool", _is_semver),
    overload("isGreaterThan", "semver_is_greater_than", f"{_V}.({_V}) -> bool", Version.__gt__),
    overload("isLessThan", "semver_is_less_than", f"{_V}.({_V}) -> bool", Version.__lt__),
    overload("compareTo", "semver_compare_to", f"{_V}.({_V}) -> int", Version.compare),
    overload("major", "semver_major", f"{_V}.() -> int", lambda v: _signed(v.major)),
    overload("minor", "semver_minor", f"{_V}.() -> int", lambda v: _signed(v.minor)),
    overload("patch", "semver_patch", f"{_V}.() -> int", lambda v: _signed(v.patch)),
)
_LENIENT: Final = (
    overload("semver", "string_bool_to_semver", f"(string, bool) -> {_V}", _parse),
    overload("isSemver", "is_semver_string_bool", "(string, bool) -> bool", _is_semver),
)


@lru_cache
def semver(version: int) -> Library:
    """The library as of a version of its own: 0 in Kubernetes 1.30, 1 since it is generally available."""
    overloads = (*_BASE, *_LENIENT) if version >= 1 else _BASE
    return Library(name="kubernetes.Semver", types=(SEMVER,), overloads=overloads)

"""Semantic versions, parsed and ordered as the Go library that Kubernetes uses does it."""

from __future__ import annotations

import re
from typing import Final

from dray.api.textcache import cache_short
from dray.api.validation.field import quote

_DIGITS: Final = frozenset("0123456789")
_ALPHANUMERIC: Final = frozenset("0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ-")
_UINT64_MAX: Final = (1 << 64) - 1
_PLAIN: Final = re.compile(r"(0|[1-9][0-9]{0,18})\.(0|[1-9][0-9]{0,18})\.(0|[1-9][0-9]{0,18})")


class Version:
    """``major.minor.patch-prerelease+build``. Build metadata is printed but neither compared nor hashed."""

    __slots__ = ("build", "key", "major", "minor", "patch", "prerelease")

    def __init__(
        self,
        major: int,
        minor: int,
        patch: int,
        *,
        prerelease: tuple[str, ...] = (),
        build: tuple[str, ...] = (),
    ) -> None:
        self.major = major
        self.minor = minor
        self.patch = patch
        self.prerelease = prerelease
        self.build = build
        # A release follows all of its pre-releases.
        self.key = (major, minor, patch, not prerelease, tuple(map(_rank, prerelease)))

    @staticmethod
    def parse(text: str) -> Version:
        """The version a string stands for, or ValueError in upstream's words."""
        return _parse(text)

    @staticmethod
    def parse_lenient(text: str) -> Version:
        """The same, but a leading "v", leading zeros and a missing minor or patch number are allowed."""
        return _parse(_normalized(text))

    def __str__(self) -> str:
        text = f"{self.major}.{self.minor}.{self.patch}"
        if self.prerelease:
            text += "-" + ".".join(self.prerelease)
        if self.build:
            text += "+" + ".".join(self.build)
        return text

    def __repr__(self) -> str:
        return f"Version({str(self)!r})"

    def __hash__(self) -> int:
        return hash(self.key)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Version) and self.key == other.key

    def __lt__(self, other: Version) -> bool:
        return self.key < other.key

    def __le__(self, other: Version) -> bool:
        return self.key <= other.key

    def __gt__(self, other: Version) -> bool:
        return self.key > other.key

    def __ge__(self, other: Version) -> bool:
        return self.key >= other.key

    def compare(self, other: Version) -> int:
        """-1, 0 or 1."""
        return (self.key > other.key) - (self.key < other.key)


def _rank(identifier: str) -> tuple[int, int, str]:
    return (0, int(identifier), "") if _DIGITS.issuperset(identifier) else (1, 0, identifier)


@cache_short(16384)
def _parse(text: str) -> Version:
    if (plain := _PLAIN.fullmatch(text)) is not None:
        return Version(int(plain[1]), int(plain[2]), int(plain[3]))
    if not text:
        raise ValueError("Version string empty")
    parts = text.split(".", 2)
    if len(parts) != 3:
        raise ValueError("No Major.Minor.Patch elements found")
    major = _number(parts[0], "Major")
    minor = _number(parts[1], "Minor")
    rest, has_build, build_text = parts[2].partition("+")
    rest, has_prerelease, prerelease_text = rest.partition("-")
    patch = _number(rest, "Patch")
    prerelease = tuple(map(_prerelease, prerelease_text.split("."))) if has_prerelease else ()
    build = tuple(map(_build, build_text.split("."))) if has_build else ()
    return Version(major, minor, patch, prerelease=prerelease, build=build)


def _number(digits: str, what: str) -> int:
    if not _DIGITS.issuperset(digits):
        raise ValueError(f"Invalid character(s) found in {what.lower()} number {quote(digits)}")
    if len(digits) > 1 and digits[0] == "0":
        raise ValueError(f"{what} number must not contain leading zeroes {quote(digits)}")
    return _uint64(digits)


def _uint64(digits: str) -> int:
    if not digits:
        raise ValueError(f"strconv.ParseUint: parsing {quote(digits)}: invalid syntax")
    if len(digits) > 20 or int(digits) > _UINT64_MAX:
        raise ValueError(f"strconv.ParseUint: parsing {quote(digits)}: value out of range")
    return int(digits)


def _prerelease(text: str) -> str:
    if not text:
        raise ValueError("Prerelease is empty")
    if _DIGITS.issuperset(text):
        if len(text) > 1 and text[0] == "0":
            raise ValueError(f"Numeric PreRelease version must not contain leading zeroes {quote(text)}")
        _uint64(text)
    elif not _ALPHANUMERIC.issuperset(text):
        raise ValueError(f"Invalid character(s) found in prerelease {quote(text)}")
    return text


def _build(text: str) -> str:
    if not text:
        raise ValueError("Build meta data is empty")
    if not _ALPHANUMERIC.issuperset(text):
        raise ValueError(f"Invalid character(s) found in build meta data {quote(text)}")
    return text


def _normalized(text: str) -> str:
    parts = text.removeprefix("v").split(".", 2)
    for i, part in enumerate(parts):
        if len(part) > 1:
            part = part.lstrip("0")
            parts[i] = part if part[:1] in _DIGITS and part else "0" + part
    if len(parts) < 3:
        if "+" in parts[-1] or "-" in parts[-1]:
            raise ValueError("short version cannot contain PreRelease/Build meta data")
        parts += ["0"] * (3 - len(parts))
    return ".".join(parts)

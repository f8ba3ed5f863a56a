"""JSONPath as kubectl and printer columns know it: fields, indices, slices, filters, wildcards and descent.

Missing fields find nothing rather than being an error, which is how columns and selectable fields are read.
"""

from __future__ import annotations

import json
import operator
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from dray.api.textcache import cache_short

Step = Callable[[list[Any]], list[Any]]

_SLICE: Final = re.compile(r"(-?\d*)(:-?\d*)?(:-?\d*)?")
_FILTER: Final = re.compile(r"([^!<>=]+)([!<>=]+)(.+)", re.DOTALL)
_QUOTED: Final = re.compile(r"'([^']*)'")
_COMPARE: Final[dict[str, Callable[[Any, Any], bool]]] = {
    "<": operator.lt,
    ">": operator.gt,
    "<=": operator.le,
    ">=": operator.ge,
}
_ENDS: Final = frozenset(" \t\r\n.,[]$@{}")
_ESCAPES: Final = {"n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "f": "\f", "v": "\v"}


class PathError(ValueError):
    """The path is not well formed, or does not fit what it is applied to."""


@dataclass(frozen=True, slots=True)
class JsonPath:
    """A parsed path."""

    steps: tuple[Step, ...]

    def find(self, value: Any) -> list[Any]:
        """What the path leads to; nothing where something on the way is missing."""
        found = [value]
        for step in self.steps:
            found = step(found)
        return found


@cache_short(1024)
def parse(text: str) -> JsonPath:
    """A path such as ``.status.conditions[?(@.type=="Ready")].status``."""
    return JsonPath(tuple(_Parser(text).steps()))


def to_text(value: Any) -> str:
    """What a found value looks like in a column of strings."""
    match value:
        case None:
            return "<nil>"
        case bool():
            return "true" if value else "false"
        case str():
            return value
        case dict() | list():
            return json.dumps(value, separators=(",", ":"), ensure_ascii=False, sort_keys=True)
        case float() if value.is_integer() and abs(value) < 1e21:
            return str(int(value))
        case _:
            return str(value)


class _Parser:
    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0

    def steps(self) -> Iterator[Step]:
        while self._at < len(self._text):
            rest = self._text[self._at :]
            if rest.startswith("[?("):
                yield self._filter()
            elif rest.startswith(".."):
                self._at += 2
                yield _descend
                if self._at < len(self._text) and self._text[self._at] not in _ENDS:
                    yield self._field()
            else:
                step = self._simple(rest[0])
                if step is not None:
                    yield step

    def _simple(self, first: str) -> Step | None:
        if first in " @$":
            self._at += 1
            return None
        if first == "[":
            return self._array()
        if first in "\"'":
            return self._constant(self._quoted(first))
        if first == ".":
            self._at += 1
            return self._field()
        if first in "+-" or first.isdigit():
            return self._constant(self._number())
        if first == "_" or first.isalpha():
            return self._constant(self._word())
        raise PathError(f"unrecognized character in action: U+{ord(first):04X} '{first}'")

    @staticmethod
    def _constant(value: Any) -> Step:
        return lambda values: [value for _ in values]

    def _field(self) -> Step:
        start = self._at
        while self._at < len(self._text) and self._text[self._at] not in _ENDS:
            self._at += 2 if self._text[self._at] == "\\" else 1
        name = self._text[start : self._at]
        return _wildcard if name == "*" else _field(name.replace("\\", ""))

    def _word(self) -> bool:
        start = self._at
        while self._at < len(self._text) and self._text[self._at] not in _ENDS:
            self._at += 1
        word = self._text[start : self._at]
        if word not in ("true", "false"):
            raise PathError(f"unrecognized identifier {word}")
        return word == "true"

    def _number(self) -> int | float:
        found = re.compile(r"[+-]?[\d.]*").match(self._text, self._at)
        assert found is not None
        self._at = found.end()
        try:
            return int(found[0])
        except ValueError:
            pass
        try:
            return float(found[0])
        except ValueError:
            raise PathError(f"cannot parse number {found[0]}") from None

    def _quoted(self, mark: str) -> str:
        out: list[str] = []
        self._at += 1
        while self._at < len(self._text):
            char = self._text[self._at]
            self._at += 1
            if char == mark:
                return "".join(out)
            if char == "\\" and self._at < len(self._text):
                char = self._text[self._at]
                char = _ESCAPES.get(char, char)
                self._at += 1
            out.append(char)
        raise PathError("unterminated quoted string")

    def _array(self) -> Step:
        end = self._text.find("]", self._at)
        if end < 0:
            raise PathError("unterminated array")
        text = self._text[self._at + 1 : end]
        self._at = end + 1
        parts = text.split(",")
        if len(parts) > 1:
            return _union([parse(f"[{part.strip(' ')}]") for part in parts])
        quoted = _QUOTED.fullmatch(text)
        if quoted is not None:
            return partial(_find_each, parse(f".{quoted[1]}"))
        return _slice(":" if text == "*" else text)

    def _filter(self) -> Step:
        start = self._at = self._at + len("[?(")
        mark = ""
        while True:
            if self._at >= len(self._text):
                raise PathError("unterminated filter")
            char = self._text[self._at]
            self._at += 1
            if mark:
                if char == mark and self._text[self._at - 2] != "\\":
                    mark = ""
            elif char in "\"'":
                mark = char
            elif char == ")":
                break
        if self._text[self._at : self._at + 1] != "]":
            raise PathError("unclosed array expect ]")
        text = self._text[start : self._at - 1]
        self._at += 1
        compared = _FILTER.fullmatch(text)
        if compared is None:
            return _exists(parse(text))
        return _compare(parse(compared[1]), compared[2], parse(compared[3]))


def _find_each(path: JsonPath, values: list[Any]) -> list[Any]:
    return [found for value in values for found in path.find(value)]


def _field(name: str) -> Step:
    return lambda values: [v[name] for v in values if isinstance(v, dict) and name in v]


def _contents(value: Any) -> Iterable[Any]:
    if isinstance(value, dict):
        return (value[key] for key in sorted(value))
    return value if isinstance(value, list) else ()


def _wildcard(values: list[Any]) -> list[Any]:
    return [inner for value in values for inner in _contents(value)]


def _descend(values: list[Any]) -> list[Any]:
    found: list[Any] = []
    for value in values:
        inner = list(_contents(value))
        if inner:
            found += [value, *_descend(inner)]
    return found


def _union(paths: list[JsonPath]) -> Step:
    return lambda values: [found for path in paths for found in _find_each(path, values)]


def _slice(text: str) -> Step:
    found = _SLICE.fullmatch(text)
    if found is None:
        raise PathError(f"invalid array index {text}")
    first, last, step = (None if p is None or p in ("", ":") else int(p.lstrip(":")) for p in found.groups())
    single = found[2] is None

    def take(values: list[Any]) -> list[Any]:
        out: list[Any] = []
        for value in values:
            if value is None:
                continue
            if not isinstance(value, list):
                raise PathError(f"{type(value).__name__} is not array or slice")
            out += _taken(value, first or 0, last, step or 1, single=single)
        return out

    return take


def _taken(value: list[Any], first: int, last: int | None, step: int, *, single: bool) -> list[Any]:
    size = len(value)
    low = first + size if first < 0 else first
    high = low + 1 if single else size if last is None else last + size if last < 0 else last
    if low == high:
        return []
    if not 0 <= low < size:
        raise PathError(f"array index out of bounds: index {low}, length {size}")
    if not 0 <= high <= size:
        raise PathError(f"array index out of bounds: index {high - 1}, length {size}")
    if low > high:
        raise PathError(f"starting index {low} is greater than ending index {high}")
    if step <= 0:
        raise PathError("step must be > 0")
    return value[low:high:step]


def _items(values: list[Any]) -> Iterator[Any]:
    for value in values:
        if not isinstance(value, list):
            raise PathError(f"{to_text(value)} is not array or slice and cannot be filtered")
        yield from value


def _exists(path: JsonPath) -> Step:
    return lambda values: [item for item in _items(values) if path.find(item)]


def _compare(left: JsonPath, sign: str, right: JsonPath) -> Step:
    if sign not in ("==", "!=", *_COMPARE):
        raise PathError(f"unrecognized filter operator {sign}")

    def passes(item: Any) -> bool:
        lefts, rights = left.find(item), right.find(item)
        if not lefts or not rights:
            return False
        if len(lefts) > 1 or len(rights) > 1:
            raise PathError("can only compare one element at a time")
        if sign in ("==", "!="):
            return (lefts[0] == rights[0]) is (sign == "==")
        try:
            return _COMPARE[sign](lefts[0], rights[0])
        except TypeError:
            raise PathError("incompatible types for comparison") from None

    return lambda values: [item for item in _items(values) if passes(item)]

"""JSON as Go's decoder reads it: member order and duplicates kept, number texts kept, Go's words for broken syntax.

Only documents that the fast path cannot take come here.
"""

from __future__ import annotations

import json
import re
from typing import Any, Final, NoReturn

from dray.api.errors import BadRequest

#: What is said about a document that is nested more deeply than anybody would.
TOO_DEEP: Final = "exceeded max depth"
_LONE: Final = re.compile("[\ud800-\udfff]")
_NUMBER: Final = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
_STRING: Final = re.compile(r'"(?:[^"\\\x00-\x1f]|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*"')
_SPACE: Final = re.compile(r"[ \t\r\n]*")


class Members(list[tuple[str, Any]]):
    """A JSON object as its members in document order, duplicates included."""

    __slots__ = ()


class Number(float):
    """A number with a fraction or an exponent, and how it was written."""

    text: str

    def __new__(cls, text: str) -> Number:
        number = super().__new__(cls, text)
        number.text = text
        return number


def parse(data: bytes) -> Any:
    """The document with objects as ``Members``; BadRequest in Go's words when it is not JSON."""
    text = data.decode("utf-8", "replace")
    try:
        return _decoder(text)
    except RecursionError:
        raise BadRequest(TOO_DEEP) from None
    except ValueError:
        raise BadRequest(syntax_error(text)) from None


def _decoder(text: str) -> Any:
    document = json.loads(
        text, object_pairs_hook=Members, parse_float=Number, parse_constant=_refuse, parse_int=_int
    )
    # Go replaces halves of surrogate pairs, which Python would keep and later refuse to encode.
    return _repair(document) if "\\u" in text and re.search(r"\\u[dD][89a-fA-F]", text) else document


def _int(text: str) -> int | Number:
    return int(text) if len(text) < 400 else Number(text)


def _refuse(text: str) -> NoReturn:
    raise ValueError(text)


def _repair(value: Any) -> Any:
    if isinstance(value, str):
        return _LONE.sub("\ufffd", value)
    if isinstance(value, Members):
        return Members((_LONE.sub("\ufffd", k), _repair(v)) for k, v in value)
    if isinstance(value, list):
        return [_repair(v) for v in value]
    return value


def plain(value: Any) -> Any:
    """The same document in plain dicts, lists and numbers; the last of several duplicates wins."""
    if isinstance(value, Members):
        return {k: plain(v) for k, v in value}
    if isinstance(value, list):
        return [plain(v) for v in value]
    if isinstance(value, Number):
        return float(value)
    return value


def duplicates(value: Any) -> list[str]:
    """``duplicate field "a.b"`` for each member that occurs twice, in document order."""
    found: dict[str, None] = {}
    _find_duplicates(value, "", found)
    return list(found)[:100]


def _find_duplicates(value: Any, path: str, found: dict[str, None]) -> None:
    if isinstance(value, Members):
        seen: set[str] = set()
        for key, item in value:
            at = f"{path}.{key}" if path else key
            if key in seen:
                found.setdefault(f"duplicate field {json.dumps(at, ensure_ascii=False)}")
            seen.add(key)
            _find_duplicates(item, at, found)
    elif isinstance(value, list):
        for i, item in enumerate(value):
            _find_duplicates(item, f"{path}[{i}]", found)


def syntax_error(text: str) -> str:
    """What Go's scanner says about the first thing that is wrong with a document."""
    try:
        at = _Scanner(text).document()
    except _Unexpected as e:
        return e.words
    except RecursionError:
        return TOO_DEEP
    return f"invalid character {_char(text[at])} after top-level value" if at < len(text) else "invalid JSON"


class _Unexpected(Exception):
    def __init__(self, words: str) -> None:
        self.words = words


class _Scanner:
    """A recursive scanner that stops at the first wrong character."""

    def __init__(self, text: str) -> None:
        self.text = text

    def document(self) -> int:
        return self._space(self._value(self._space(0)))

    def _space(self, at: int) -> int:
        match = _SPACE.match(self.text, at)
        return match.end() if match else at

    def _unexpected(self, at: int, context: str) -> _Unexpected:
        if at >= len(self.text):
            return _Unexpected("unexpected end of JSON input")
        return _Unexpected(f"invalid character {_char(self.text[at])} {context}")

    def _value(self, at: int) -> int:
        match self.text[at : at + 1]:
            case "{":
                return self._object(at + 1)
            case "[":
                return self._array(at + 1)
            case '"':
                return self._string(at)
            case "t":
                return self._literal(at, "true")
            case "f":
                return self._literal(at, "false")
            case "n":
                return self._literal(at, "null")
            case c if c and c in "-0123456789":
                return self._number(at)
        raise self._unexpected(at, "looking for beginning of value")

    def _object(self, at: int) -> int:
        at = self._space(at)
        if self.text[at : at + 1] == "}":
            return at + 1
        while True:
            if self.text[at : at + 1] != '"':
                raise self._unexpected(at, "looking for beginning of object key string")
            at = self._space(self._string(at))
            if self.text[at : at + 1] != ":":
                raise self._unexpected(at, "after object key")
            at = self._space(self._value(self._space(at + 1)))
            if self.text[at : at + 1] == "}":
                return at + 1
            if self.text[at : at + 1] != ",":
                raise self._unexpected(at, "after object key:value pair")
            at = self._space(at + 1)

    def _array(self, at: int) -> int:
        at = self._space(at)
        if self.text[at : at + 1] == "]":
            return at + 1
        while True:
            at = self._space(self._value(at))
            if self.text[at : at + 1] == "]":
                return at + 1
            if self.text[at : at + 1] != ",":
                raise self._unexpected(at, "after array element")
            at = self._space(at + 1)

    def _string(self, at: int) -> int:
        if (match := _STRING.match(self.text, at)) is not None:
            return match.end()
        at += 1
        while True:
            c = self.text[at : at + 1]
            if c == "\\":
                at = self._escape(at + 1)
            elif not c or c < " ":
                raise self._unexpected(at, "in string literal")
            else:
                at += 1

    def _escape(self, at: int) -> int:
        c = self.text[at : at + 1]
        if c and c in '"\\/bfnrt':
            return at + 1
        if c != "u":
            raise self._unexpected(at, "in string escape code")
        for i in range(at + 1, at + 5):
            if self.text[i : i + 1] not in tuple("0123456789abcdefABCDEF"):
                raise self._unexpected(i, "in \\u hexadecimal character escape")
        return at + 5

    def _literal(self, at: int, word: str) -> int:
        for i, expected in enumerate(word):
            if self.text[at + i : at + i + 1] != expected:
                raise self._unexpected(at + i, f"in literal {word} (expecting '{expected}')")
        return at + len(word)

    def _number(self, at: int) -> int:
        if (match := _NUMBER.match(self.text, at)) is None:
            raise self._unexpected(at + 1, "in numeric literal")
        end = match.end()
        match self.text[end : end + 1]:
            case ".":
                raise self._unexpected(end + 1, "after decimal point in numeric literal")
            case "e" | "E":
                sign = self.text[end + 1 : end + 2] in ("+", "-")
                raise self._unexpected(end + 1 + sign, "in exponent of numeric literal")
        return end


def _char(c: str) -> str:
    if c == "'":
        return "'\\''"
    if c == '"':
        return "'\"'"
    if c.isprintable():
        return f"'{c}'"
    return "'" + json.dumps(c)[1:-1] + "'" if ord(c) > 0x7F else "'" + repr(c)[1:-1] + "'"

"""Literals: from a token to the value it stands for. What is no value says why in a ValueError."""

from __future__ import annotations

from typing import Final

from dray.cel.common.values import INT_MAX, INT_MIN, UINT_MAX, UInt, Value
from dray.cel.parser.lexer import bytes_value, string_value


def read(kind: str, word: str) -> Value:
    """The value of a literal that is one token."""
    match kind:
        case "NUM_UINT":
            return _uint(word)
        case "STRING":
            return string_value(word)
        case "BYTES":
            return bytes_value(word[1:])
    return _WORDS[kind]


def read_number(kind: str, word: str, *, negative: bool) -> int | float:
    """The value of a number that may have had a sign before it."""
    if kind == "NUM_INT":
        value = -_digits(word) if negative else _digits(word)
        if not INT_MIN <= value <= INT_MAX:
            raise ValueError("invalid int literal")
        return value
    number = float(word)
    if number == float("inf"):
        raise ValueError("invalid double literal")
    return -number if negative else number


def _uint(word: str) -> UInt:
    value = _digits(word[:-1])
    if value > UINT_MAX:
        raise ValueError("invalid uint literal")
    return UInt(value)


def _digits(word: str) -> int:
    # Python refuses decimal strings of thousands of digits; they are beyond 64 bits in any case.
    if len(word) > 1000:
        return 1 << 65
    return int(word, 16) if word.startswith("0x") else int(word)


_WORDS: Final[dict[str, Value]] = {"true": True, "false": False, "null": None}
KINDS: Final = frozenset({"NUM_UINT", "STRING", "BYTES", *_WORDS})
NUMBERS: Final = frozenset({"NUM_INT", "NUM_FLOAT"})

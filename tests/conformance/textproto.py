"""Reads protobuf's text format into plain Python, as far as the CEL specification's tests use it."""

from __future__ import annotations

import re
from typing import Any

_TOKEN = re.compile(
    r"""(?P<skip>[\s,;]+|\#[^\n]*)
      | (?P<string>"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')
      | (?P<number>-?(?:0[xX][0-9a-fA-F]+|[0-9]*\.?[0-9]+(?:[eE][+-]?[0-9]+)?\.?)[uUfF]?)
      | (?P<word>-?[A-Za-z_][A-Za-z0-9_.]*)
      | (?P<any>\[[A-Za-z0-9_./]+\])
      | (?P<mark>[{}<>:\[\]])""",
    re.VERBOSE,
)
_ESCAPE = re.compile(
    rb"\\(?:([0-7]{1,3})|[xX]([0-9a-fA-F]{1,2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|(.))", re.DOTALL
)
_SIMPLE = {b"n": b"\n", b"t": b"\t", b"r": b"\r", b"a": b"\a", b"b": b"\b", b"f": b"\f", b"v": b"\v"}

Message = dict[str, list[Any]]
"""Every field by name, with all its values. Strings are bytes: whether they are text, the field knows."""


def parse(text: str) -> Message:
    tokens: list[tuple[str, str]] = []
    position = 0
    while position < len(text):
        found = _TOKEN.match(text, position)
        assert found is not None, text[position : position + 40]
        if found.lastgroup != "skip":
            tokens.append((found.lastgroup or "", found.group()))
        position = found.end()
    message, end = _fields(tokens, 0)
    assert end == len(tokens)
    return message


def _fields(tokens: list[tuple[str, str]], position: int) -> tuple[Message, int]:
    message: Message = {}
    while position < len(tokens) and tokens[position][1] not in ("}", ">"):
        name = tokens[position][1]
        position += 1
        if tokens[position][1] == ":":
            position += 1
        if tokens[position] == ("mark", "["):
            position += 1
            while tokens[position][1] != "]":
                value, position = _value(tokens, position)
                message.setdefault(name, []).append(value)
            position += 1
        else:
            value, position = _value(tokens, position)
            message.setdefault(name, []).append(value)
    return message, position


def _value(tokens: list[tuple[str, str]], position: int) -> tuple[Any, int]:
    kind, word = tokens[position]
    if word in ("{", "<"):
        message, position = _fields(tokens, position + 1)
        return message, position + 1
    if kind == "string":
        text = b""
        while position < len(tokens) and tokens[position][0] == "string":
            text += _unescape(tokens[position][1])
            position += 1
        return text, position
    return word, position + 1


def _unescape(literal: str) -> bytes:
    def replace(found: re.Match[bytes]) -> bytes:
        octal, hexadecimal, short, long, simple = found.groups()
        if octal:
            return bytes([int(octal, 8) & 0xFF])
        if hexadecimal:
            return bytes([int(hexadecimal, 16)])
        if short or long:
            return chr(int(short or long, 16)).encode()
        return _SIMPLE.get(simple, simple)

    return _ESCAPE.sub(replace, literal[1:-1].encode())

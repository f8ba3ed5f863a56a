"""Text to tokens, and string literals to what they stand for."""

from __future__ import annotations

import re
from typing import Final

# The escape sequences the grammar knows; a backslash before anything else is not a string at all.
_ESCAPE: Final = r"\\(?:[abfnrtv\"'\\?`]|[0-3][0-7][0-7]|[xX][0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8})"
_STRING: Final = (
    rf'(?:"""(?:{_ESCAPE}|[^\\])*?"""'
    rf"|'''(?:{_ESCAPE}|[^\\])*?'''"
    rf'|"(?:{_ESCAPE}|[^\\"\n\r])*"'
    rf"|'(?:{_ESCAPE}|[^\\'\n\r])*'"
    r'|[rR]"""[\s\S]*?"""'
    r"|[rR]'''[\s\S]*?'''"
    r'|[rR]"[^"\n\r]*"'
    r"|[rR]'[^'\n\r]*')"
)
_TOKEN: Final = re.compile(
    rf"""
      (?P<skip>[\t \r\n\f]+|//[^\n]*)
    | (?P<BYTES>[bB]{_STRING})
    | (?P<STRING>{_STRING})
    | (?P<NUM_FLOAT>[0-9]+\.[0-9]+(?:[eE][+-]?[0-9]+)?|[0-9]+[eE][+-]?[0-9]+|\.[0-9]+(?:[eE][+-]?[0-9]+)?)
    | (?P<NUM_UINT>(?:0x[0-9a-fA-F]+|[0-9]+)[uU])
    | (?P<NUM_INT>0x[0-9a-fA-F]+|[0-9]+)
    | (?P<IDENTIFIER>[A-Za-z_][A-Za-z0-9_]*)
    | (?P<ESC_IDENTIFIER>`[A-Za-z0-9_./\ -]+`)
    | (?P<op>==|!=|<=|>=|&&|\|\||[<>\[\]{{}}().,\-!?:+*/%])
    """,
    re.VERBOSE,
)
_KEYWORDS: Final = frozenset({"in", "true", "false", "null"})

EOF: Final = "<EOF>"


class UnknownToken(Exception):
    """A character that starts no token."""

    def __init__(self, offset: int) -> None:
        self.offset = offset


Token = tuple[str, str, int]
"""Kind, text, offset. The kind of an operator or keyword is its text."""


def tokenize(text: str) -> list[Token]:
    tokens: list[Token] = []
    position = 0
    match = _TOKEN.match
    while position < len(text):
        found = match(text, position)
        if found is None:
            raise UnknownToken(position)
        kind, word = found.lastgroup, found.group()
        if kind != "skip":
            assert kind is not None
            if kind == "op" or (kind == "IDENTIFIER" and word in _KEYWORDS):
                kind = word
            tokens.append((kind, word, position))
        position = found.end()
    tokens.append((EOF, "<EOF>", len(text)))
    return tokens


_SIMPLE_ESCAPES: Final = {
    "a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v",
    "\\": "\\", "'": "'", '"': '"', "`": "`", "?": "?",
}  # fmt: skip
_ESCAPED: Final = re.compile(r"\\(?:([xX])(..)|u(....)|U(.{8})|([0-3][0-7]{2})|(.))", re.DOTALL)


def string_value(literal: str) -> str:
    """What a string literal stands for; ValueError if it names no valid code point."""
    body, raw = _body(literal)
    if raw or "\\" not in body:
        return body
    return _ESCAPED.sub(_unescape, body)


def bytes_value(literal: str) -> bytes:
    """What a bytes literal (without its prefix) stands for: escapes are bytes, other characters UTF-8."""
    body, raw = _body(literal)
    if raw or "\\" not in body:
        return body.encode()
    out = bytearray()
    position = 0
    for found in _ESCAPED.finditer(body):
        out += body[position : found.start()].encode()
        position = found.end()
        _, hexadecimal, short, long, octal, simple = found.groups()
        if short or long:
            raise ValueError("unable to unescape string")
        if hexadecimal:
            out.append(int(hexadecimal, 16))
        elif octal:
            out.append(int(octal, 8))
        else:
            out += _SIMPLE_ESCAPES[simple].encode()
    return bytes(out + body[position:].encode())


def _body(literal: str) -> tuple[str, bool]:
    literal = literal.replace("\r\n", "\n").replace("\r", "\n")
    raw = literal[0] in "rR"
    if raw:
        literal = literal[1:]
    quotes = 3 if literal[:3] in ("'''", '"""') and len(literal) >= 6 else 1
    return literal[quotes:-quotes], raw


def _unescape(found: re.Match[str]) -> str:
    _, hexadecimal, short, long, octal, simple = found.groups()
    if simple:
        return _SIMPLE_ESCAPES[simple]
    point = int(octal, 8) if octal else int(hexadecimal or short or long, 16)
    if point > 0x10FFFF or 0xD800 <= point <= 0xDFFF:
        raise ValueError("invalid unicode code point")
    return chr(point)

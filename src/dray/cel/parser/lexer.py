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


Token = tuple[str, str, int]
"""Kind, text, offset. The kind of an operator or keyword is its text."""


class UnknownToken(Exception):
    """Text that is no token, from ``offset`` up to ``end``; ``before`` holds the tokens found until then."""

    def __init__(self, offset: int, end: int, before: list[Token]) -> None:
        self.offset = offset
        self.end = end
        self.before = before


def tokenize(text: str) -> list[Token]:
    return tokenize_from(text, 0)


def tokenize_from(text: str, position: int) -> list[Token]:
    """The tokens from a position on, and the end."""
    tokens: list[Token] = []
    match = _TOKEN.match
    while position < len(text):
        found = match(text, position)
        if found is None:
            raise UnknownToken(position, _unknown_end(text, position), tokens)
        kind, word = found.lastgroup, found.group()
        if kind != "skip":
            assert kind is not None
            if kind == "op" or (kind == "IDENTIFIER" and word in _KEYWORDS):
                kind = word
            tokens.append((kind, word, position))
        position = found.end()
    tokens.append((EOF, "<EOF>", len(text)))
    return tokens


# What could have become a token up to the point where it could not: an operator half written, or a string that
# does not end or holds a bad escape.
_BEGUN: Final = re.compile(
    rf"""
      [&|=]
    | `[A-Za-z0-9_./\ -]*
    | [bB]?(?:[rR](?:\"\"\"[\s\S]*|'''[\s\S]*|"[^"\n\r]*|'[^'\n\r]*)
      |\"\"\"(?:{_ESCAPE}|[^\\])*|'''(?:{_ESCAPE}|[^\\])*
      |"(?:{_ESCAPE}|[^\\"\n\r])*|'(?:{_ESCAPE}|[^\\'\n\r])*)
      (?:\\(?:[xX][0-9a-fA-F]?|u[0-9a-fA-F]{{0,3}}|U[0-9a-fA-F]{{0,7}}|[0-3][0-7]?)?)?
    """,
    re.VERBOSE,
)


def _unknown_end(text: str, position: int) -> int:
    """Where a stretch that is no token ends: behind the character that made it so."""
    begun = _BEGUN.match(text, position)
    if begun is None:
        return position + 1
    return min(begun.end() + 1, len(text))


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

"""Simple paths into a schema, such as ``.spec.replicas`` or ``['a.b'].c``: what rules and selectors point at."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final, NamedTuple

from dray.api.groups.apiextensions.pruning import Schema, additional

_TOKENS: Final = re.compile(r"'(?:[^'\\]|\\.)*'|[.\[\]]|[^.\[\]']+|'", re.DOTALL)
_ESCAPES: Final = {
    "a": "\a",
    "b": "\b",
    "f": "\f",
    "n": "\n",
    "r": "\r",
    "t": "\t",
    "v": "\v",
    "'": "'",
    "\\": "\\",
}


class Target(NamedTuple):
    """What a path leads to."""

    names: tuple[str, ...]
    schema: Schema


def find_field(path: str, schema: Schema, *, brackets: bool = True) -> Target | str:
    """Follow a path through a schema; what is wrong with it if it leads nowhere."""
    tokens = iter(_TOKENS.findall(path))
    names: list[str] = []
    for token in tokens:
        if token not in (".", "["):
            return f"expected [ or . but got: {token}"
        if token == "[" and not brackets:
            return "array notation is not allowed"
        name = next(tokens, None)
        if name is None:
            return "unexpected end of JSON path"
        if token == "[":
            problem, name = _quoted(name, tokens)
            if problem:
                return problem
        known = schema.get("properties")
        if known:
            if name not in known:
                return "does not refer to a valid field"
            schema = known[name]
        else:
            more = additional(schema)
            if more is None:
                return "does not refer to a valid field"
            schema = more
        names.append(name)
    return Target(tuple(names), schema)


def _quoted(token: str, tokens: Iterator[str]) -> tuple[str, str]:
    if len(token) < 2 or token[0] != "'" or token[-1] != "'":
        return f"expected single quoted string but got {token}", ""
    wrong = next((e for e in re.findall(r"\\.", token[1:-1]) if e[1] not in _ESCAPES), None)
    if wrong is not None:
        return f"invalid string literal: invalid escape char {wrong}", ""
    end = next(tokens, None)
    if end is None:
        return "unexpected end of JSON path", ""
    if end != "]":
        return f"expected ] but got {end}", ""
    return "", re.sub(r"\\(.)", lambda m: _ESCAPES[m[1]], token[1:-1])

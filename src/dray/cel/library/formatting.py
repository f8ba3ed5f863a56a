"""``"%s has %d".format([…])``: the two dialects of cel-go's formatting."""

from __future__ import annotations

from dray.cel.values import Value


def format_locale(template: str, arguments: list[Value]) -> str:
    return template


def format_literal(template: str, arguments: list[Value]) -> str:
    return template

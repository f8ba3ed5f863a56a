"""Selectors of 1.30's structured parameters in today's words.

Then an expression saw the attributes of one instance by type, ``attributes.string["color"]``; now it sees a device with
attributes by domain, ``device.attributes["driver.example.com"].color``, and quantities among its capacity.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable

from dray.api.validation.expressions import RESERVED

_MAX_NAME = 32
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,31}\Z")
_TYPES = "quantity|bool|intslice|int|stringslice|string|version"
_LITERAL = r"""\"{3}.*?\"{3}|'{3}.*?'{3}|"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'"""
_PLAIN = r"""(?:"[^"\\]*"|'[^'\\]*')"""
#: An attribute, with the name beside it where that is written out, before any other string literal (passed over).
_TOKEN = re.compile(
    rf"(?:(?P<key>{_PLAIN})(?P<in>\s+in\s+)(?=attributes\s*\.))?(?<![\w.])attributes\s*\.\s*(?P<type>{_TYPES})\b"
    rf"(?:\s*\[\s*(?P<name>{_PLAIN})\s*\])?|[rRbB]{{0,2}}(?:{_LITERAL})",
    re.DOTALL,
)


def attribute_name(name: str) -> str:
    """The name an attribute has now. Then it was a DNS name, now it is an identifier of at most 32 characters."""
    if _NAME.match(name):
        return name
    changed = re.sub(r"[^A-Za-z0-9_]", "_", name)
    if not changed[:1].isalpha() and not changed.startswith("_"):
        changed = f"_{changed}"
    return changed[:_MAX_NAME]


def device_name(name: str) -> str:
    """Instances could have dots in their names, devices cannot."""
    return name.replace(".", "-")[:63].strip("-")


def driver_is(driver: str) -> str:
    return f"device.driver == {json.dumps(driver)}"


def translate(expression: str, driver: str, *, renamed: Callable[[str, str], None]) -> str:
    """The expression for devices of ``driver``. ``renamed`` hears of each attribute that has another name now."""
    domain = json.dumps(driver)

    def named(literal: str) -> str:
        old = literal[1:-1]
        new = attribute_name(old)
        if new != old:
            renamed(old, new)
        return new

    def one(match: re.Match[str]) -> str:
        if match["type"] is None:
            return match[0]
        where = "capacity" if match["type"] == "quantity" else "attributes"
        found = f"device.{where}[{domain}]"
        if match["key"]:
            found = f"{json.dumps(named(match['key']))}{match['in']}{found}"
        if match["name"]:
            name = named(match["name"])
            found += f"[{json.dumps(name)}]" if name in RESERVED else f".{name}"
        return found

    return _TOKEN.sub(one, expression)

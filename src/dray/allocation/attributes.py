"""Attribute values as constraints compare them: sets of typed values, one element for a scalar."""

from __future__ import annotations

from typing import Any

from dray.api.identity import Document

Values = frozenset[tuple[str, Any]]  # each value with its type; empty: of a type that is not known

_SCALARS = ("string", "int", "bool", "version")
_LISTS = (("ints", "int"), ("bools", "bool"), ("strings", "string"), ("versions", "version"))


def lookup_attribute(attributes: Document, name: str, driver: str, *, lists: bool) -> Values | None:
    """The values of a fully qualified attribute; None if the device does not have it."""
    if name not in attributes:
        domain, slash, name = name.partition("/")
        if not slash or domain != driver or name not in attributes:
            return None
    return attribute_values(attributes[name] or {}, lists=lists)


def attribute_values(value: Document, *, lists: bool) -> Values:
    """All elements of a list where lists count; otherwise a list is a value of unknown type."""
    if lists:
        for field, kind in _LISTS:
            if several := value.get(field):
                return frozenset((kind, one) for one in several)
    for kind in _SCALARS:
        if (one := value.get(kind)) is not None:
            return frozenset(((kind, one),))
    return frozenset()

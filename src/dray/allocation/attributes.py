"""Attribute values as constraints compare them: sets of typed values, one element for a scalar."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dray.api.types.resource import DeviceAttribute

Values = frozenset[tuple[str, Any]]  # each value with its type; empty: of a type that is not known

_LISTS: tuple[tuple[Literal["ints", "bools", "strings", "versions"], str], ...] = (
    ("ints", "int"),
    ("bools", "bool"),
    ("strings", "string"),
    ("versions", "version"),
)


def lookup_attribute(
    attributes: Mapping[str, DeviceAttribute], name: str, driver: str, *, lists: bool
) -> Values | None:
    """The values of a fully qualified attribute; None if the device does not have it."""
    if name not in attributes:
        domain, slash, name = name.partition("/")
        if not slash or domain != driver or name not in attributes:
            return None
    return attribute_values(attributes[name] or {}, lists=lists)


def attribute_values(value: DeviceAttribute, *, lists: bool) -> Values:
    """All elements of a list where lists count; otherwise a list is a value of unknown type."""
    if lists:
        for field, kind in _LISTS:
            if several := value.get(field):
                return frozenset((kind, one) for one in several)
    for kind in ("string", "int", "bool", "version"):
        if (one := value.get(kind)) is not None:
            return frozenset(((kind, one),))
    return frozenset()

"""Addresses that are taken, each named by itself, and by whom."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from dray.api.errors import qualified
from dray.api.scheme import printers
from dray.api.scheme.kinds import Column, Kind, Version
from dray.api.scheme.strategy import SPEC, Context, Strategy, immutable
from dray.api.validation import addresses, field, names
from dray.api.validation.field import FieldError, Path

if TYPE_CHECKING:
    from dray.api.types.networking import IPAddress, ParentReference

_PARENT: Final = SPEC.child("parentRef")


def _name_is_an_address(name: str, prefix: bool) -> Sequence[str]:
    return [problem.detail for problem in addresses.check_canonical_ip(name, Path("metadata"))]


def _check_parent(parent: ParentReference) -> list[FieldError]:
    group, found = parent.get("group", ""), list[FieldError]()
    if group:
        found += field.each_invalid(_PARENT.child("group"), group, names.dns1123_subdomain(group))
    for part in ("resource", "name"):
        if not (value := parent.get(part, "")):
            found.append(field.required(_PARENT.child(part)))
        else:
            found += field.each_invalid(_PARENT.child(part), value, names.path_segment(str(value)))
    if namespace := parent.get("namespace", ""):
        found += field.each_invalid(_PARENT.child("namespace"), namespace, names.path_segment(namespace))
    return found


class IPAddressStrategy(Strategy["IPAddress"]):
    check_name = staticmethod(_name_is_an_address)

    def validate(self, obj: IPAddress, ctx: Context) -> Sequence[FieldError]:
        parent = obj.get("spec", {}).get("parentRef")
        return [field.required(_PARENT)] if parent is None else _check_parent(parent)

    def validate_update(self, new: IPAddress, old: IPAddress, ctx: Context) -> Sequence[FieldError]:
        parent, before = (one.get("spec", {}).get("parentRef") for one in (new, old))
        return immutable(parent, before, _PARENT, type_name="networking/v1.ParentReference")


def _cells(obj: IPAddress, now: float) -> Sequence[object]:
    shown = "<none>"
    if (parent := obj.get("spec", {}).get("parentRef")) is not None:
        of = qualified(parent.get("resource", ""), parent.get("group", "")).lower()
        where = (of, parent.get("namespace", ""), parent.get("name", ""))
        shown = "/".join(part for part in where if part)
    return printers.name(obj), shown, printers.age(obj, now)


KIND = Kind(
    group="networking.k8s.io",
    kind="IPAddress",
    plural="ipaddresses",
    short_names=("ip",),
    namespaced=False,
    versions=(Version(name="v1", type="networking/v1.IPAddress"),),
    storage="v1",
    strategy=IPAddressStrategy(),
    # Upstream's rows have the age, and its columns do not.
    printer=printers.printer(
        (printers.NAME, Column("ParentRef", description="Who has taken the address.")), _cells
    ),
)

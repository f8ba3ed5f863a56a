"""Ranges of addresses for Services."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from dray.api.scheme import printers
from dray.api.scheme.kinds import Column, Kind, Version
from dray.api.scheme.strategy import SPEC, Context, StatusStrategy, SubdomainStrategy
from dray.api.validation import addresses, field
from dray.api.validation.field import FieldError
from dray.api.validation.objectmeta import IMMUTABLE

if TYPE_CHECKING:
    from dray.api.types.networking import ServiceCIDR

_CIDRS: Final = SPEC.child("cidrs")
_ONE_OF_EACH: Final = (
    "may specify no more than one IP for each IP family, i.e 192.168.0.0/24 and 2001:db8::/64"
)


def _ranges(obj: ServiceCIDR) -> list[str]:
    return list(obj.get("spec", {}).get("cidrs") or ())


class ServiceCIDRStrategy(SubdomainStrategy["ServiceCIDR"]):
    def prepare_create(self, obj: ServiceCIDR, ctx: Context) -> None:
        obj.pop("status", None)

    def prepare_update(self, new: ServiceCIDR, old: ServiceCIDR, ctx: Context) -> None:
        new.pop("status", None)
        if "status" in old:
            new["status"] = old["status"]

    def validate(self, obj: ServiceCIDR, ctx: Context) -> Sequence[FieldError]:
        ranges = _ranges(obj)
        if not ranges:
            return [field.required(_CIDRS, "at least one CIDR required")]
        if len(ranges) > 2:
            return [field.invalid(_CIDRS, {"CIDRs": ranges}, "may only hold up to 2 values")]
        found = [
            p for i, one in enumerate(ranges) for p in addresses.check_canonical_cidr(one, _CIDRS.index(i))
        ]
        families = [
            network.version for one in ranges if (network := addresses.parse_network(one)) is not None
        ]
        if len(families) == 2 and families[0] == families[1]:
            found.append(field.invalid(_CIDRS, ranges, _ONE_OF_EACH))
        return found

    def validate_update(self, new: ServiceCIDR, old: ServiceCIDR, ctx: Context) -> Sequence[FieldError]:
        """Ranges stay; a second one may be added, of the other family."""
        ranges, before = _ranges(new), _ranges(old)
        changed = [
            field.invalid(_CIDRS.index(i), one, IMMUTABLE)
            for i, (one, was) in enumerate(zip(ranges, before, strict=False))
            if one != was
        ]
        if len(ranges) == len(before):
            return changed
        if (len(before), len(ranges)) == (1, 2):
            return [*changed, *self.validate(new, ctx)]
        return [field.invalid(_CIDRS, ranges, IMMUTABLE)]


def _cells(obj: ServiceCIDR, now: float) -> Sequence[object]:
    return printers.name(obj), ",".join(_ranges(obj)), printers.age(obj, now)


KIND = Kind(
    group="networking.k8s.io",
    kind="ServiceCIDR",
    plural="servicecidrs",
    namespaced=False,
    versions=(Version(name="v1", type="networking/v1.ServiceCIDR"),),
    storage="v1",
    strategy=ServiceCIDRStrategy(),
    subresources={"status": StatusStrategy["ServiceCIDR"]()},
    printer=printers.printer(
        (
            printers.NAME,
            Column("CIDRs", description="The ranges from which Services have their addresses."),
            printers.AGE,
        ),
        _cells,
    ),
)

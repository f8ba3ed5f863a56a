"""discovery.k8s.io: the addresses behind services, in slices."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from dray.api.groups.core.endpoints import check_special
from dray.api.scheme import printers
from dray.api.scheme.kinds import Column, Kind, Version
from dray.api.scheme.strategy import Context, SubdomainStrategy, generation, immutable
from dray.api.validation import addresses, checks, field, names
from dray.api.validation.field import FieldError, Path

if TYPE_CHECKING:
    from dray.api.types.discovery import EndpointPort, EndpointSlice

_TYPES: Final = ("FQDN", "IPv4", "IPv6")
_PORTS: Final = Path("ports")
_ENDPOINTS: Final = Path("endpoints")
_SHOWN: Final = 3


def _default(obj: EndpointSlice) -> None:
    for port in obj.get("ports") or ():
        port.setdefault("name", "")
        port.setdefault("protocol", "TCP")


def _check_ports(ports: Sequence[EndpointPort]) -> list[FieldError]:
    if len(ports) > 20000:
        return [field.too_many(_PORTS, len(ports), 20000)]
    found: list[FieldError] = []
    seen: set[str] = set()
    for i, port in enumerate(ports):
        at, name = _PORTS.index(i), port.get("name") or ""
        if name:
            found += checks.dns_label(name, at.child("name"))
        if name in seen:
            found.append(field.duplicate(at.child("name"), name))
        seen.add(name)
        found += checks.one_of(port.get("protocol") or "", at.child("protocol"), checks.PROTOCOLS)
        if (protocol := port.get("appProtocol")) is not None:
            found += checks.qualified_name(protocol, at.child("appProtocol"))
    return found


def _check_address(address: str, kind: str, path: Path, index: int, ctx: Context) -> list[FieldError]:
    at = path.index(index)
    if kind == "FQDN":
        return checks.each(address, at, names.dns1123_subdomain(address.removesuffix(".")))
    strict = kind == "IPv6" or "StrictIPCIDRValidation" in ctx.gates
    if found := addresses.check_ip(address, at, strict=strict):
        return found
    parsed = addresses.parse(address)
    if parsed is not None and f"IPv{parsed.version}" != kind:
        found.append(field.invalid(path, address, f"must be an {kind} address"))
    return found + check_special(address, at)


def _check_endpoints(obj: EndpointSlice, ctx: Context) -> list[FieldError]:
    endpoints, kind = obj.get("endpoints") or (), obj.get("addressType", "")
    if len(endpoints) > 1000:
        return [field.too_many(_ENDPOINTS, len(endpoints), 1000)]
    found: list[FieldError] = []
    for i, endpoint in enumerate(endpoints):
        at, given = _ENDPOINTS.index(i), endpoint.get("addresses") or ()
        if not given:
            found.append(field.required(at.child("addresses"), "must contain at least 1 address"))
        elif len(given) > 100:
            found.append(field.too_many(at.child("addresses"), len(given), 100))
        if kind in _TYPES:
            for j, address in enumerate(given):
                found += _check_address(address, kind, at.child("addresses"), j, ctx)
        if (node := endpoint.get("nodeName")) is not None:
            found += checks.dns_subdomain(node, at.child("nodeName"))
        if (host := endpoint.get("hostname")) is not None:
            found += checks.dns_label(host, at.child("hostname"))
        found += _check_hints(endpoint.get("hints") or {}, at.child("hints"))
    return found


def _check_hints(hints: Mapping[str, Any], path: Path) -> list[FieldError]:
    found: list[FieldError] = []
    for part, check in (("forZones", names.label_value), ("forNodes", names.dns1123_subdomain)):
        entries, at = hints.get(part) or (), path.child(part)
        if len(entries) > 8:
            return [*found, field.too_many(at, len(entries), 8)]
        seen: set[str] = set()
        for i, entry in enumerate(entries):
            name, where = entry.get("name", ""), at.index(i).child("name")
            if name in seen:
                found.append(field.duplicate(where, name))
            seen.add(name)
            found += checks.each(name, where, check(name))
    return found


class EndpointSliceStrategy(SubdomainStrategy["EndpointSlice"]):
    def prepare_create(self, obj: EndpointSlice, ctx: Context) -> None:
        obj["metadata"]["generation"] = 1

    def prepare_update(self, new: EndpointSlice, old: EndpointSlice, ctx: Context) -> None:
        parts = ("endpoints", "ports", "addressType")
        changed = any(new.get(part) != old.get(part) for part in parts)
        changed |= new["metadata"].get("labels") != old["metadata"].get("labels")
        new["metadata"]["generation"] = generation(old) + changed

    def validate(self, obj: EndpointSlice, ctx: Context) -> Sequence[FieldError]:
        found = checks.one_of(obj.get("addressType", ""), Path("addressType"), _TYPES)
        return found + _check_ports(obj.get("ports") or ()) + _check_endpoints(obj, ctx)

    def validate_update(self, new: EndpointSlice, old: EndpointSlice, ctx: Context) -> Sequence[FieldError]:
        found = checks.one_of(new.get("addressType", ""), Path("addressType"), _TYPES)
        found += _check_ports(new.get("ports") or ())
        if new.get("endpoints") != old.get("endpoints"):
            found += _check_endpoints(new, ctx)
        types = new.get("addressType", ""), old.get("addressType", "")
        return [*found, *immutable(*types, Path("addressType"))]


def _list(shown: Sequence[str]) -> str:
    text = ",".join(shown[:_SHOWN])
    if len(shown) > _SHOWN:
        return f"{text} + {len(shown) - _SHOWN} more..."
    return text or "<unset>"


def _cells(obj: EndpointSlice, now: float) -> Sequence[object]:
    ports = [
        str(p["port"]) if p.get("port") is not None else p.get("name", "*") for p in obj.get("ports") or ()
    ]
    given = [address for e in obj.get("endpoints") or () for address in e.get("addresses") or ()]
    return printers.name(obj), obj.get("addressType", ""), _list(ports), _list(given), printers.age(obj, now)


def _from_v1beta1(obj: Any) -> Any:
    """Where an endpoint stands was one map, of which the zone and the node have fields of their own now."""
    endpoints = []
    for endpoint in obj.get("endpoints") or ():
        topology = dict(endpoint.get("topology") or {})
        found = {name: value for name, value in endpoint.items() if name != "topology"}
        if zone := topology.pop("topology.kubernetes.io/zone", ""):
            found["zone"] = zone
        if topology:
            found["deprecatedTopology"] = topology
        endpoints.append(found)
    return {**obj, "endpoints": endpoints}


ENDPOINT_SLICE = Kind(
    group="discovery.k8s.io",
    kind="EndpointSlice",
    plural="endpointslices",
    versions=(
        Version(name="v1", type="discovery/v1.EndpointSlice", default=_default),
        # Stored by upstream up to 1.32; no release here serves it.
        Version(
            name="v1beta1", type="discovery/v1beta1.EndpointSlice", default=_default, to_hub=_from_v1beta1
        ),
    ),
    storage="v1",
    strategy=EndpointSliceStrategy(),
    printer=printers.printer(
        (
            printers.NAME,
            Column("AddressType", description="What the addresses are."),
            Column("Ports", description="The first ports."),
            Column("Endpoints", description="The first addresses."),
            printers.AGE,
        ),
        _cells,
    ),
)
KINDS = (ENDPOINT_SLICE,)

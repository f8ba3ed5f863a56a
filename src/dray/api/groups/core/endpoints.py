"""Endpoints: the addresses behind a service, in the form that EndpointSlices have replaced."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from dray.api.quirks import APIQuirks
from dray.api.scheme import printers
from dray.api.scheme.kinds import Column, Kind, Version
from dray.api.scheme.strategy import Context, SubdomainStrategy
from dray.api.validation import addresses, checks, field, names
from dray.api.validation.field import FieldError, Path

if TYPE_CHECKING:
    from dray.api.types.core import EndpointAddress, EndpointPort, Endpoints

_SHOWN: Final = 3
_DEPRECATED: Final = "v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice"
_SUBSETS: Final = Path("subsets")


def _default(obj: Endpoints) -> None:
    for subset in obj.get("subsets") or ():
        for port in subset.get("ports") or ():
            port.setdefault("protocol", "TCP")


def check_special(value: str, path: Path) -> list[FieldError]:
    """Addresses that cannot be reached from elsewhere make no endpoints."""
    address = addresses.parse(value)
    if address is None:
        return [field.invalid(path, value, "must be a valid IP address")]
    if address.is_unspecified:
        return [field.invalid(path, value, f"may not be unspecified ({value})")]
    if address.is_loopback:
        words = "may not be in the loopback range (127.0.0.0/8, ::1/128)"
    elif address.is_link_local:
        words = "may not be in the link-local range (169.254.0.0/16, fe80::/10)"
    elif address.is_multicast and str(address).startswith(("224.0.0.", "ff02:")):
        words = "may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)"
    else:
        return []
    return [field.invalid(path, value, words)]


def _check_address(address: EndpointAddress, path: Path, ctx: Context) -> list[FieldError]:
    ip = address.get("ip", "")
    found = addresses.check_ip(ip, path.child("ip"), strict="StrictIPCIDRValidation" in ctx.gates)
    if address.get("hostname"):
        found += checks.dns_label(address["hostname"], path.child("hostname"))
    if (node := address.get("nodeName")) is not None:
        found += checks.each(node, path.child("nodeName"), names.dns1123_subdomain(node))
    return found + check_special(ip, path.child("ip"))


def check_port(port: EndpointPort, path: Path, *, named: bool) -> list[FieldError]:
    found: list[FieldError] = []
    name = port.get("name", "")
    if name:
        found += checks.dns_label(name, path.child("name"))
    elif named:
        found.append(field.required(path.child("name")))
    found += checks.port(port.get("port", 0), path.child("port"))
    found += checks.one_of(port.get("protocol", ""), path.child("protocol"), checks.PROTOCOLS)
    if (protocol := port.get("appProtocol")) is not None:
        found += checks.qualified_name(protocol, path.child("appProtocol"))
    return found


class EndpointsStrategy(SubdomainStrategy["Endpoints"]):
    rechecks_metadata = True
    create_on_update = True

    def validate(self, obj: Endpoints, ctx: Context) -> Sequence[FieldError]:
        found: list[FieldError] = []
        for i, subset in enumerate(obj.get("subsets") or ()):
            at = _SUBSETS.index(i)
            if not subset.get("addresses") and not subset.get("notReadyAddresses"):
                found.append(field.required(at, "must specify `addresses` or `notReadyAddresses`"))
            for part in ("addresses", "notReadyAddresses"):
                for j, address in enumerate(subset.get(part) or ()):
                    found += _check_address(address, at.child(part).index(j), ctx)
            ports = subset.get("ports") or ()
            for j, port in enumerate(ports):
                found += check_port(port, at.child("ports").index(j), named=len(ports) > 1)
        return found

    def validate_update(self, new: Endpoints, old: Endpoints, ctx: Context) -> Sequence[FieldError]:
        return () if new.get("subsets") == old.get("subsets") else self.validate(new, ctx)


def _addresses(obj: Endpoints) -> str:
    shown: list[str] = []
    for subset in obj.get("subsets") or ():
        ips = [address["ip"] for address in subset.get("addresses") or ()]
        ports = subset.get("ports") or ()
        shown += [_host_port(ip, port["port"]) for port in ports for ip in ips] if ports else ips
    if not obj.get("subsets"):
        return "<none>"
    text = ",".join(shown[:_SHOWN])
    return f"{text} + {len(shown) - _SHOWN} more..." if len(shown) > _SHOWN else text


def _host_port(ip: str, port: int) -> str:
    return f"[{ip}]:{port}" if ":" in ip else f"{ip}:{port}"


def kind(quirks: APIQuirks) -> Kind:
    deprecated = _DEPRECATED if quirks.deprecates_endpoints else ""
    version = Version(name="v1", type="core/v1.Endpoints", default=_default, deprecated=deprecated)
    return Kind(
        group="",
        kind="Endpoints",
        plural="endpoints",
        list_kind="EndpointsList",
        short_names=("ep",),
        prefix="services/endpoints",
        versions=(version,),
        storage="v1",
        strategy=EndpointsStrategy(),
        printer=printers.printer(
            (
                printers.NAME,
                Column("Endpoints", description="The first addresses and ports."),
                printers.AGE,
            ),
            lambda obj, now: (printers.name(obj), _addresses(obj), printers.age(obj, now)),
        ),
    )

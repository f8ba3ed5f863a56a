"""IP addresses and CIDR ranges as the older fields of the API accept them."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Sequence
from typing import Final

from dray.api.textcache import cache_texts
from dray.api.validation import field
from dray.api.validation.field import FieldError, Path

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Network = ipaddress.IPv4Network | ipaddress.IPv6Network

_BAD_IP: Final = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"
_BAD_CIDR: Final = "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)"


@cache_texts(maxsize=4096)  # those of a pod and its node are checked with every report of its status
def parse(value: str) -> Address | None:
    """An address, read as leniently as old clients need: zeros may lead."""
    if "%" in value:
        return None
    if "." in value:
        head, colon, tail = value.rpartition(":")
        value = head + colon + re.sub(r"(^|\.)0+(?=\d)", r"\1", tail)
    try:
        return ipaddress.ip_address(value)
    except ValueError:
        return None


def parse_network(value: str) -> Network | None:
    """A range, read leniently: zeros may lead, and bits beyond the prefix may be set."""
    text, slash, length = value.partition("/")
    address = parse(text)
    if address is None or not slash or not re.fullmatch(r"\d{1,4}", length):
        return None
    try:
        return ipaddress.ip_network(f"{address}/{int(length)}", strict=False)
    except ValueError:
        return None


def _mapped(address: Address) -> bool:
    return isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None


def check_ip(value: str, path: Path, *, strict: bool = True) -> list[FieldError]:
    address = parse(value)
    if address is None:
        return [field.invalid(path, value, _BAD_IP)]
    found = []
    if strict and not _well_formed(value):
        found.append(field.invalid(path, value, "must not have leading 0s"))
    elif strict and _mapped(address):
        found.append(field.invalid(path, value, "must not be an IPv4-mapped IPv6 address"))
    return found


def check_cidr(value: str, path: Path, *, strict: bool = True) -> list[FieldError]:
    network = parse_network(value)
    if network is None:
        return [field.invalid(path, value, _BAD_CIDR)]
    if not strict:
        return []
    text, _, length = value.partition("/")
    if not _well_formed(text) or length != str(int(length)):
        return [field.invalid(path, value, "must not have leading 0s in IP or prefix length")]
    if _mapped(ipaddress.ip_address(text)):
        return [field.invalid(path, value, "must not have an IPv4-mapped IPv6 address")]
    if ipaddress.ip_address(text) != network.network_address:
        return [field.invalid(path, value, "must not have bits set beyond the prefix length")]
    return []


def check_canonical_ip(value: str, path: Path) -> list[FieldError]:
    """An address as the newer fields want it, written in one way only."""
    return check_ip(value, path) or _canonical(value, str(parse(value)), path)


def check_canonical_cidr(value: str, path: Path) -> list[FieldError]:
    return check_cidr(value, path) or _canonical(value, str(parse_network(value)), path)


def _canonical(value: str, canonical: str, path: Path) -> list[FieldError]:
    if value == canonical:
        return []
    return [field.invalid(path, value, f"must be in canonical form ({field.quote(canonical)})")]


def _well_formed(value: str) -> bool:
    try:
        ipaddress.ip_address(value)
    except ValueError:
        return False
    return True


def warn_ip(value: str, path: Path) -> list[str]:
    """What to say about an accepted address that is not in its usual form."""
    address = parse(value)
    if address is None:
        return []
    if not _well_formed(value) or _mapped(address):
        shown = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else address
        return [f'{path}: non-standard IP address "{value}" is invalid: use "{shown}"']
    if address.version == 6 and str(address) != value:
        return [f'{path}: IPv6 address "{value}" should be in RFC 5952 canonical format ("{address}")']
    return []


def dual_stack(values: Sequence[str]) -> bool:
    """Whether ranges of both families are among the values."""
    return {network.version for value in values if (network := parse_network(value))} == {4, 6}

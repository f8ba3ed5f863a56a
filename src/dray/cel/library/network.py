"""IP addresses and CIDR ranges, read as Go's net/netip does it."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv6Address
from math import ceil
from typing import Final

from dray.api.validation.field import quote
from dray.cel.common import types as t
from dray.cel.common.decls import Library, overload
from dray.cel.errors import EvaluationError

IP_TYPE: Final = t.opaque("net.IP")
CIDR_TYPE: Final = t.opaque("net.CIDR")
_HEX: Final = frozenset("0123456789abcdefABCDEF")


class IP:
    """An address of either family."""

    __slots__ = ("address",)
    cel_type = IP_TYPE
    go_type = "cel.IP"

    def __init__(self, address: IPv4Address | IPv6Address) -> None:
        self.address = address

    def __eq__(self, other: object) -> bool:
        return isinstance(other, IP) and self.address == other.address

    def __hash__(self) -> int:
        return hash(self.address)

    def __str__(self) -> str:
        return str(self.address)

    def cel_size(self) -> int:
        return self.address.max_prefixlen // 8

    @property
    def is_link_local_multicast(self) -> bool:
        if isinstance(self.address, IPv4Address):
            return str(self.address).startswith("224.0.0.")
        return self.address.packed[0] == 0xFF and self.address.packed[1] & 0x0F == 0x02

    @property
    def is_global_unicast(self) -> bool:
        address = self.address
        if isinstance(address, IPv4Address) and (int(address) == 0 or int(address) == 0xFFFFFFFF):
            return False
        return not (
            address.is_unspecified
            or address.is_loopback
            or address.is_multicast
            or self.is_link_local_unicast
        )

    @property
    def is_link_local_unicast(self) -> bool:
        packed = self.address.packed
        if isinstance(self.address, IPv4Address):
            return packed[:2] == b"\xa9\xfe"
        return packed[0] == 0xFE and packed[1] & 0xC0 == 0x80


class CIDR:
    """An address and the number of its bits that name the network."""

    __slots__ = ("address", "bits")
    cel_type = CIDR_TYPE
    go_type = "cel.CIDR"

    def __init__(self, address: IPv4Address | IPv6Address, bits: int) -> None:
        self.address = address
        self.bits = bits

    def __eq__(self, other: object) -> bool:
        return isinstance(other, CIDR) and (self.address, self.bits) == (other.address, other.bits)

    def __hash__(self) -> int:
        return hash((self.address, self.bits))

    def __str__(self) -> str:
        return f"{self.address}/{self.bits}"

    def cel_size(self) -> int:
        return ceil(self.bits / 8)

    def network(self, bits: int) -> int:
        return int(self.address) >> (self.address.max_prefixlen - bits)

    def masked(self) -> CIDR:
        shift = self.address.max_prefixlen - self.bits
        return CIDR(type(self.address)(int(self.address) >> shift << shift), self.bits)

    def contains(self, address: IPv4Address | IPv6Address) -> bool:
        return type(address) is type(self.address) and CIDR(address, self.bits).network(
            self.bits
        ) == self.network(self.bits)


# Parsing


def parse_address(text: str) -> tuple[IPv4Address | IPv6Address, str]:
    """An address and its zone, if any; ValueError in Go's words."""
    for c in text:
        if c == ".":
            return _parse_v4(text, text), ""
        if c == ":":
            return _parse_v6(text)
        if c == "%":
            raise _refused(text, "missing IPv6 address")
    raise _refused(text, "unable to parse IP")


def _refused(text: str, message: str, at: str = "") -> ValueError:
    shown = f"ParseAddr({quote(text)}): {message}"
    return ValueError(f"{shown} (at {quote(at)})" if at else shown)


def _parse_v4(text: str, whole: str) -> IPv4Address:
    octets: list[int] = []
    value, digits = 0, 0
    for i, c in enumerate(text):
        if "0" <= c <= "9":
            if digits == 1 and value == 0:
                raise _refused(whole, "IPv4 field has octet with leading zero")
            value = value * 10 + int(c)
            digits += 1
            if value > 255:
                raise _refused(whole, "IPv4 field has value >255")
        elif c == ".":
            if i == 0 or i == len(text) - 1 or text[i - 1] == ".":
                raise _refused(whole, "IPv4 field must have at least one digit", text[i:])
            if len(octets) == 3:
                raise _refused(whole, "IPv4 address too long")
            octets.append(value)
            value = digits = 0
        else:
            raise _refused(whole, "unexpected character", text[i:])
    if len(octets) < 3:
        raise _refused(whole, "IPv4 address too short")
    return IPv4Address(bytes([*octets, value]))


def _parse_v6(whole: str) -> tuple[IPv6Address, str]:
    text, percent, zone = whole.partition("%")
    if percent and not zone:
        raise _refused(whole, "zone must be a non-empty string")
    groups: list[int] = []
    ellipsis = -1
    rest = text
    if rest.startswith("::"):
        ellipsis, rest = 0, rest[2:]
        if not rest:
            return IPv6Address(0), zone
    while len(groups) < 8:
        length = next((i for i, c in enumerate(rest) if c not in _HEX), len(rest))
        if length > 4:
            raise _refused(whole, "each group must have 4 or fewer digits", rest)
        if length == 0:
            raise _refused(whole, "each colon-separated field must have at least one digit", rest)
        if length < len(rest) and rest[length] == ".":
            if ellipsis < 0 and len(groups) != 6:
                raise _refused(
                    whole, "embedded IPv4 address must replace the final 2 fields of the address", rest
                )
            if len(groups) > 6:
                raise _refused(
                    whole, "too many hex fields to fit an embedded IPv4 at the end of the address", rest
                )
            packed = _parse_v4(rest, whole).packed
            groups += [packed[0] << 8 | packed[1], packed[2] << 8 | packed[3]]
            rest = ""
            break
        groups.append(int(rest[:length], 16))
        rest = rest[length:]
        if not rest:
            break
        if rest[0] != ":":
            raise _refused(whole, "unexpected character, want colon", rest)
        if len(rest) == 1:
            raise _refused(whole, "colon must be followed by more characters", rest)
        rest = rest[1:]
        if rest[0] == ":":
            if ellipsis >= 0:
                raise _refused(whole, "multiple :: in address", rest)
            ellipsis, rest = len(groups), rest[1:]
            if not rest:
                break
    if rest:
        raise _refused(whole, "trailing garbage after address", rest)
    if len(groups) < 8:
        if ellipsis < 0:
            raise _refused(whole, "address string too short")
        groups[ellipsis:ellipsis] = [0] * (8 - len(groups))
    elif ellipsis >= 0:
        raise _refused(whole, "the :: must expand to at least one field of zeros")
    return IPv6Address(b"".join(group.to_bytes(2, "big") for group in groups)), zone


def _is_mapped(address: IPv4Address | IPv6Address) -> bool:
    return isinstance(address, IPv6Address) and address.ipv4_mapped is not None


def to_ip(text: str) -> IP:
    try:
        address, zone = parse_address(text)
    except ValueError as wrong:
        raise EvaluationError(
            f"IP Address {quote(text)} parse error during conversion from string: {wrong}"
        ) from None
    if zone:
        raise EvaluationError(f"IP address {quote(text)} with zone value is not allowed")
    if _is_mapped(address):
        raise EvaluationError(f"IPv4-mapped IPv6 address {quote(text)} is not allowed")
    return IP(address)


def parse_cidr(text: str) -> CIDR:
    """A range; ValueError in Go's words."""
    head = f"netip.ParsePrefix({quote(text)}): "
    address_text, slash, bits_text = text.rpartition("/")
    if not slash:
        raise ValueError(f"{head}no '/'")
    try:
        address, zone = parse_address(address_text)
    except ValueError as wrong:
        raise ValueError(f"{head}{wrong}") from None
    if zone:
        raise ValueError(f"{head}IPv6 zones cannot be present in a prefix")
    if len(bits_text) > 1 and not "1" <= bits_text[0] <= "9":
        raise ValueError(f"{head}bad bits after slash: {quote(bits_text)}")
    if not (bits_text.isascii() and bits_text.isdigit()) or len(bits_text) > 10:
        raise ValueError(f"{head}bad bits after slash: {quote(bits_text)}")
    if int(bits_text) > address.max_prefixlen:
        raise ValueError(f"{head}prefix length out of range")
    return CIDR(address, int(bits_text))


def _checked_cidr(text: str) -> CIDR:
    try:
        cidr = parse_cidr(text)
    except ValueError as wrong:
        raise ValueError(f"network address parse error during conversion from string: {wrong}") from None
    if _is_mapped(cidr.address):
        raise ValueError(f"IPv4-mapped IPv6 address {quote(text)} is not allowed")
    return cidr


def to_cidr(text: str) -> CIDR:
    try:
        return _checked_cidr(text)
    except ValueError as wrong:
        raise EvaluationError(f"network address parse error during conversion from string: {wrong}") from None


# Functions


def _is_ip(text: str) -> bool:
    try:
        to_ip(text)
    except EvaluationError:
        return False
    return True


def _is_cidr(text: str) -> bool:
    try:
        to_cidr(text)
    except EvaluationError:
        return False
    return True


def _contains_cidr(outer: CIDR, inner: CIDR) -> bool:
    return (
        type(outer.address) is type(inner.address)
        and outer.bits <= inner.bits
        and outer.network(outer.bits) == inner.network(outer.bits)
    )


IP_LIBRARY: Final = Library(
    name="kubernetes.net.ip",
    types=(IP_TYPE,),
    overloads=(
        overload("ip", "string_to_ip", "(string) -> net.IP()", to_ip),
        overload("family", "ip_family", "net.IP().() -> int", lambda ip: ip.address.version),
        overload("ip.isCanonical", "ip_is_canonical", "(string) -> bool", lambda text: str(to_ip(text)) == text),
        overload("isUnspecified", "ip_is_unspecified", "net.IP().() -> bool", lambda ip: ip.address.is_unspecified),
        overload("isLoopback", "ip_is_loopback", "net.IP().() -> bool", lambda ip: ip.address.is_loopback),
        overload(
            "isLinkLocalMulticast",
            "ip_is_link_local_multicast",
            "net.IP().() -> bool",
            lambda ip: ip.is_link_local_multicast,
        ),
        overload(
            "isLinkLocalUnicast",
            "ip_is_link_local_unicast",
            "net.IP().() -> bool",
            lambda ip: ip.is_link_local_unicast,
        ),
        overload("isGlobalUnicast", "ip_is_global_unicast", "net.IP().() -> bool", lambda ip: ip.is_global_unicast),
        overload("isIP", "is_ip", "(string) -> bool", _is_ip),
        overload("string", "ip_to_string", "(net.IP()) -> string", str),
    ),
)  # fmt: skip

CIDR_LIBRARY: Final = Library(
    name="kubernetes.net.cidr",
    types=(CIDR_TYPE,),
    overloads=(
        overload("cidr", "string_to_cidr", "(string) -> net.CIDR()", to_cidr),
        overload(
            "containsIP",
            "cidr_contains_ip_string",
            "net.CIDR().(string) -> bool",
            lambda cidr, text: cidr.contains(to_ip(text).address),
        ),
        overload(
            "containsIP",
            "cidr_contains_ip_ip",
            "net.CIDR().(net.IP()) -> bool",
            lambda cidr, ip: cidr.contains(ip.address),
        ),
        overload(
            "containsCIDR",
            "cidr_contains_cidr_string",
            "net.CIDR().(string) -> bool",
            lambda cidr, text: _contains_cidr(cidr, to_cidr(text)),
        ),
        overload("containsCIDR", "cidr_contains_cidr", "net.CIDR().(net.CIDR()) -> bool", _contains_cidr),
        overload("ip", "cidr_ip", "net.CIDR().() -> net.IP()", lambda cidr: IP(cidr.address)),
        overload("prefixLength", "cidr_prefix_length", "net.CIDR().() -> int", lambda cidr: cidr.bits),
        overload("masked", "cidr_masked", "net.CIDR().() -> net.CIDR()", CIDR.masked),
        overload("isCIDR", "is_cidr", "(string) -> bool", _is_cidr),
        overload("string", "cidr_to_string", "(net.CIDR()) -> string", str),
    ),
)

"""String formats that schemas of custom resources may ask for. Unknown ones are ignored, with a warning."""

from __future__ import annotations

import base64
import binascii
import ipaddress
import re
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, Final
from urllib.parse import urlsplit

from dray.api.times import parse_duration

_HEX: Final = "[0-9a-f]"


def _uuid(version: str = _HEX, variant: str = _HEX) -> re.Pattern[str]:
    middle = f"{version}{_HEX}{{3}}-?{variant}{_HEX}{{3}}"
    return re.compile(rf"{_HEX}{{8}}-?{_HEX}{{4}}-?{middle}-?{_HEX}{{12}}", re.IGNORECASE)


_LETTER: Final = r"[^\W\d_]"
_LABEL: Final = r"(?:[^\W_]|[^\x00-\x7f])"
_HOST: Final = re.compile(
    rf"{_LABEL}(-?{_LABEL}{{0,62}})?|({_LABEL}((?:{_LABEL}|-){{0,61}}{_LABEL})?\.)+{_LETTER}{{2,63}}"
)
_PATTERNS: Final[Mapping[str, re.Pattern[str]]] = {
    "bsonobjectid": re.compile(r"[0-9a-fA-F]{24}"),
    "uuid": _uuid(),
    "uuid3": _uuid("3"),
    "uuid4": _uuid("4", "[89ab]"),
    "uuid5": _uuid("5", "[89ab]"),
    "ssn": re.compile(r"\d{3}[- ]?\d{2}[- ]?\d{4}"),
    "hexcolor": re.compile(r"#?([0-9a-fA-F]{3}|[0-9a-fA-F]{6})"),
    "rgbcolor": re.compile(
        r"rgb\(\s*(0|[1-9]\d?|1\d\d?|2[0-4]\d|25[0-5])\s*(,\s*(0|[1-9]\d?|1\d\d?|2[0-4]\d|25[0-5])\s*){2}\)"
    ),
    "mac": re.compile(r"[0-9a-fA-F]{2}([:-][0-9a-fA-F]{2}){5}|([0-9a-fA-F]{4}\.){2}[0-9a-fA-F]{4}"),
    "k8sshortname": re.compile(r"(?=.{1,63}$)[a-z0-9]([-a-z0-9]*[a-z0-9])?"),
    "k8slongname": re.compile(
        r"(?=.{1,253}$)[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*"
    ),
}
#: Twice as many as an address has at most. The parser recurses into every comment.
_EMAIL_CHARACTERS: Final = 640
_EMAIL_COMMENTS: Final = 10
_WORDED_DURATION: Final = re.compile(
    r"(-?\d+(\.\d+)?\s*(ns|nanos?|us|micros?|µs|ms|millis?|s|secs?|seconds?|m|mins?|minutes?|h|hours?|d|days?|w|weeks?))+"
)
_TIME: Final = re.compile(r"\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d([.,]\d+)?([Zz]|[+-]\d\d:?\d\d)?")


def _parses(parse: Callable[[str], object]) -> Callable[[str], bool]:
    def check(text: str) -> bool:
        try:
            parse(text)
        except ValueError:
            return False
        return True

    return check


def _without_leading_zeros(text: str) -> str:
    return ".".join(part.lstrip("0") or "0" for part in text.split(".")) if ":" not in text else text


def _is_cidr(text: str) -> bool:
    address, slash, size = text.partition("/")
    if not slash or not size.isdigit():
        return False
    return _parses(ipaddress.ip_interface)(f"{_without_leading_zeros(address)}/{size}")


def _is_ipv4(text: str) -> bool:
    return "." in text and _parses(ipaddress.ip_address)(_without_leading_zeros(text))


def _is_ipv6(text: str) -> bool:
    return ":" in text and "%" not in text and _parses(ipaddress.IPv6Address)(text)


def _is_uri(text: str) -> bool:
    if not text or any(c <= " " or c == "\x7f" for c in text):
        return False
    if text.startswith("/"):
        return True
    scheme, colon, _ = text.partition(":")
    return (
        bool(colon)
        and re.fullmatch(r"[A-Za-z][A-Za-z0-9+.-]*", scheme) is not None
        and _parses(urlsplit)(text)
    )


def _is_email(text: str) -> bool:
    if len(text) > _EMAIL_CHARACTERS or text.count("(") > _EMAIL_COMMENTS:
        return False
    from email.utils import parseaddr  # a megabyte that hardly any schema needs

    address = parseaddr(text)[1]
    local, at, domain = address.rpartition("@")
    return bool(at and local and domain) and " " not in domain


def _is_hostname(text: str) -> bool:
    long = len(text.encode()) > 255 or any(len(part.encode()) > 63 for part in text.split("."))
    return not long and _HOST.fullmatch(text) is not None


def _is_base64(text: str) -> bool:
    try:
        return bool(text) and base64.b64decode(text, validate=True) is not None
    except (binascii.Error, ValueError):
        return False


def _is_time(text: str) -> bool:
    if len(text) < 4:
        return False
    return _TIME.fullmatch(text) is not None and _parses(datetime.fromisoformat)(text[:19].upper())


def _is_duration(text: str) -> bool:
    return _parses(parse_duration)(text) or _WORDED_DURATION.fullmatch(text) is not None


def _is_isbn10(text: str) -> bool:
    digits = text.replace("-", "").replace(" ", "")
    if re.fullmatch(r"\d{9}[\dX]", digits) is None:
        return False
    return sum((i + 1) * (10 if c == "X" else int(c)) for i, c in enumerate(digits)) % 11 == 0


def _is_isbn13(text: str) -> bool:
    digits = text.replace("-", "").replace(" ", "")
    if re.fullmatch(r"\d{13}", digits) is None:
        return False
    return sum((3 if i % 2 else 1) * int(c) for i, c in enumerate(digits)) % 10 == 0


def _is_credit_card(text: str) -> bool:
    digits = re.sub(r"\D", "", text)
    kinds = r"4\d{12}(\d{3})?|5[1-5]\d{14}|6(011|5\d\d)\d{12}|3[47]\d{13}|3(0[0-5]|[68]\d)\d{11}|(2131|1800|35\d{3})\d{11}"
    if re.fullmatch(kinds, digits) is None:
        return False
    doubled = (int(c) * (1 + i % 2) for i, c in enumerate(reversed(digits)))
    return sum(d // 10 + d % 10 for d in doubled) % 10 == 0


_CHECKS: Final[Mapping[str, Callable[[str], bool]]] = {
    "uri": _is_uri,
    "email": _is_email,
    "hostname": _is_hostname,
    "ipv4": _is_ipv4,
    "ipv6": _is_ipv6,
    "cidr": _is_cidr,
    "isbn": lambda text: _is_isbn10(text) or _is_isbn13(text),
    "isbn10": _is_isbn10,
    "isbn13": _is_isbn13,
    "creditcard": _is_credit_card,
    "byte": _is_base64,
    "password": lambda text: True,
    "date": lambda text: (
        re.fullmatch(r"\d{4}-\d\d-\d\d", text) is not None and _parses(datetime.fromisoformat)(text)
    ),
    "duration": _is_duration,
    "datetime": _is_time,
}
_BY_TYPE: Final = {"integer": ("int32", "int64"), "number": ("float", "double")}


def recognized(schema: Mapping[str, Any]) -> bool:
    """Whether the format of a schema means anything to its type."""
    kind = "" if schema.get("x-kubernetes-int-or-string") else schema.get("type", "")
    if kind in ("", "string"):
        plain = schema["format"].replace("-", "")
        return plain in _CHECKS or plain in _PATTERNS
    return schema["format"] in _BY_TYPE.get(kind, ())


def fits(text: str, name: str) -> bool:
    """Whether a string is of a format; anything is of an unknown one."""
    plain = name.replace("-", "")
    pattern = _PATTERNS.get(plain)
    if pattern is not None:
        return pattern.fullmatch(text) is not None
    check = _CHECKS.get(plain)
    return check is None or check(text)

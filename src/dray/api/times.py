"""Times and durations as Kubernetes writes them: RFC 3339 with seconds or microseconds, and Go durations.

Parsing follows Go's ``time.Parse`` and ``time.ParseDuration``, down to the words of their errors: clients see them.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, timezone
from typing import Final

from dray.api.textcache import cache_texts

SECONDS: Final = "2006-01-02T15:04:05Z07:00"
MICROSECONDS: Final = "2006-01-02T15:04:05.000000Z07:00"

#: What Kubernetes itself writes; any other spelling has to be parsed and written anew.
CANONICAL: Final = (
    r"^[12][0-9]{3}-(0[1-9]|1[0-2])-(0[1-9]|1[0-9]|2[0-8])T([01][0-9]|2[0-3])(:[0-5][0-9]){2}Z$"
)
CANONICAL_MICRO: Final = CANONICAL.replace("Z$", r"\.[0-9]{6}Z$")

_ZERO: Final = datetime(1, 1, 1, tzinfo=UTC)
_DAYS: Final = (31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
_UNITS: Final = {
    "ns": 1, "us": 1_000, "µs": 1_000, "μs": 1_000, "ms": 1_000_000,
    "s": 1_000_000_000, "m": 60_000_000_000, "h": 3_600_000_000_000,
}  # fmt: skip
_MIN_DURATION: Final = -(1 << 63)
_MAX_DURATION: Final = (1 << 63) - 1
_AMOUNT: Final = re.compile(r"([0-9]*+)(?:\.([0-9]*+))?")
_UNIT: Final = re.compile(r"[^.0-9]++")
_LONGEST: Final = 1000  # Go reads longer ones, but nobody writes them in good faith
_DIGITS: Final = 18  # as many as certainly fit into 64 bits; Go reads no more of a fraction either


def format_time(moment: datetime) -> str:
    """``2024-05-01T12:00:00Z``; what is below a second is cut off."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ").zfill(20)


def format_micro_time(moment: datetime) -> str:
    """``2024-05-01T12:00:00.000000Z``"""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ").zfill(27)


def from_epoch(seconds: float) -> str:
    return format_time(datetime.fromtimestamp(seconds, UTC))


@cache_texts(
    maxsize=4096
)  # everybody who looks at an object that is being deleted asks when it has to be gone
def to_epoch(text: str) -> float:
    """Epoch seconds of a timestamp with seconds or fractions of them."""
    return parse_time(text).timestamp()


def canonical_time(text: str) -> str | None:
    """The timestamp as Kubernetes would write it back; None for Go's zero time, which is written as null."""
    moment = parse_time(text)
    return None if moment.replace(microsecond=0) == _ZERO and moment == _ZERO else format_time(moment)


def canonical_micro_time(text: str) -> str | None:
    moment = parse_time(text, layout=MICROSECONDS)
    return None if moment == _ZERO else format_micro_time(moment)


def parse_time(text: str, *, layout: str = SECONDS) -> datetime:
    """The moment an RFC 3339 timestamp names; ValueError in Go's words."""
    return _Parser(text, layout).parse()


class _Parser:
    """Walks a timestamp chunk by chunk, as Go walks the layout."""

    def __init__(self, text: str, layout: str) -> None:
        self.text = text
        self.rest = text
        self.layout = layout

    def parse(self) -> datetime:
        year = self._digits(4, "2006")
        self._literal("-")
        month = self._digits(2, "01", low=1, high=12, name="month")
        self._literal("-")
        day = self._digits(2, "02")
        self._literal("T")
        hour = self._digits(2, "15", high=23, name="hour")
        self._literal(":")
        minute = self._digits(2, "04", high=59, name="minute")
        self._literal(":")
        second = self._digits(2, "05", high=59, name="second")
        micro = self._fraction()
        zone = self._zone()
        if self.rest:
            raise ValueError(f"parsing time {_quote(self.text)}: extra text: {_quote(self.rest)}")
        leap = month == 2 and year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
        if not 1 <= day <= _DAYS[month - 1] + leap:
            raise self._out_of_range("day")
        try:
            moment = datetime(year, month, day, hour, minute, second, micro, tzinfo=zone)
            return moment.astimezone(UTC)
        except (ValueError, OverflowError):
            raise self._out_of_range("year") from None

    def _digits(
        self, count: int, chunk: str, *, low: int = 0, high: int | None = None, name: str = ""
    ) -> int:
        digits = self.rest[:count]
        if len(digits) < count or not (digits.isascii() and digits.isdigit()):
            raise self._cannot(chunk)
        number = int(digits)
        if high is not None and not low <= number <= high:
            raise self._out_of_range(name)
        self.rest = self.rest[count:]
        return number

    def _literal(self, mark: str) -> None:
        if not self.rest.startswith(mark):
            raise self._cannot(mark)
        self.rest = self.rest[1:]

    def _fraction(self) -> int:
        if self.layout == MICROSECONDS:
            match = re.match(r"[.,]([0-9]{6})", self.rest)
            if match is None:
                raise self._cannot(".000000")
        else:
            match = re.match(r"[.,]([0-9]+)", self.rest)
            if match is None:
                return 0
        self.rest = self.rest[match.end() :]
        return int(match[1][:6].ljust(6, "0"))

    def _zone(self) -> timezone:
        if self.rest.startswith("Z"):
            self.rest = self.rest[1:]
            return UTC
        match = re.match(r"([+-])([0-9]{2}):([0-9]{2})", self.rest)
        if match is None:
            raise self._cannot("Z07:00")
        hours, minutes = int(match[2]), int(match[3])
        if hours > 24:
            raise self._out_of_range("time zone offset hour")
        if minutes > 60:
            raise self._out_of_range("time zone offset minute")
        self.rest = self.rest[match.end() :]
        offset = timedelta(hours=hours, minutes=minutes)
        try:
            return timezone(-offset if match[1] == "-" else offset)
        except ValueError:
            raise self._out_of_range("time zone offset hour") from None

    def _cannot(self, chunk: str) -> ValueError:
        return ValueError(
            f'parsing time {_quote(self.text)} as "{self.layout}": cannot parse {_quote(self.rest)} as "{chunk}"'
        )

    def _out_of_range(self, what: str) -> ValueError:
        return ValueError(f"parsing time {_quote(self.text)}: {what} out of range")


def parse_duration(text: str) -> int:
    """Nanoseconds of a Go duration such as ``1h15m30.918s``; ValueError in Go's words."""
    body, sign = (text[1:], -1 if text[0] == "-" else 1) if text[:1] in ("-", "+") else (text, 1)
    if body == "0":
        return 0
    invalid = ValueError(f"time: invalid duration {_quote(text)}")
    if not body or len(body) > _LONGEST:
        raise invalid
    total = position = 0
    while position < len(body):
        amount = _AMOUNT.match(body, position)
        if amount is None or not (amount[1] or amount[2]):
            raise invalid
        whole = amount[1].lstrip("0")
        if len(whole) > _DIGITS + 1:
            raise invalid
        unit = _UNIT.match(body, amount.end())
        if unit is None:
            raise ValueError(f"time: missing unit in duration {_quote(text)}")
        if unit[0] not in _UNITS:
            raise ValueError(f"time: unknown unit {_quote(unit[0])} in duration {_quote(text)}")
        total += int(whole or "0") * _UNITS[unit[0]]
        if fraction := (amount[2] or "")[:_DIGITS]:
            total += int(
                int(fraction) * (_UNITS[unit[0]] / 10 ** len(fraction))
            )  # in floating point, as Go does
        position = unit.end()
        if total > (_MAX_DURATION if sign > 0 else -_MIN_DURATION):
            raise invalid
    return sign * total


def format_duration(nanoseconds: int) -> str:
    """A duration as Go prints it: ``1h0m0s``, ``1.5s``, ``100ms``, ``0s``."""
    if nanoseconds == 0:
        return "0s"
    sign, amount = ("-", -nanoseconds) if nanoseconds < 0 else ("", nanoseconds)
    if amount < 1_000_000_000:
        unit, size = next((u, s) for u, s in (("ms", 1_000_000), ("µs", 1_000), ("ns", 1)) if amount >= s)
        return f"{sign}{_decimal(amount, size)}{unit}"
    minutes, rest = divmod(amount, 60_000_000_000)
    hours, minutes = divmod(minutes, 60)
    text = f"{_decimal(rest, 1_000_000_000)}s"
    if hours:
        return f"{sign}{hours}h{minutes}m{text}"
    return f"{sign}{minutes}m{text}" if minutes else sign + text


def _decimal(amount: int, size: int) -> str:
    whole, rest = divmod(amount, size)
    if not rest:
        return str(whole)
    return f"{whole}.{str(rest).zfill(len(str(size)) - 1).rstrip('0')}"


def _quote(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'

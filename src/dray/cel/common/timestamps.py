"""Timestamps and durations: reading, printing and taking them apart, as Go's time package does it."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from decimal import Decimal
from typing import Final

from dray.api import times
from dray.api.golang.strconv import parse_int64, parse_problem
from dray.api.validation.field import quote
from dray.cel.common.operators import timestamp
from dray.cel.common.values import Duration, Timestamp
from dray.cel.errors import EvaluationError

_SECOND: Final = 10**9
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_RFC3339: Final = re.compile(
    r"([0-9]{4})-([0-9]{2})-([0-9]{2})T([0-9]{2}):([0-9]{2}):([0-9]{2})(?:[.,]([0-9]+))?(?:Z|([+-])([0-9]{2}):([0-9]{2}))"
)


def parse_timestamp(text: str) -> Timestamp | None:
    """A timestamp in RFC 3339, or None."""
    shape = _RFC3339.fullmatch(text)
    if shape is None:
        return None
    year, month, day, hour, minute, second = (int(part) for part in shape.groups()[:6])
    fraction, sign, zone_hours, zone_minutes = shape.groups()[6:]
    offset = 0
    if sign:
        if int(zone_hours) > 24 or int(zone_minutes) > 60:
            return None
        offset = (int(zone_hours) * 60 + int(zone_minutes)) * 60 * (-1 if sign == "-" else 1)
    if year == 0:
        # A year Go can parse but CEL's range does not reach.
        raise EvaluationError("timestamp overflow")
    try:
        moment = datetime(year, month, day, hour, minute, second, tzinfo=UTC)
    except ValueError:
        return None
    nanos = ((moment - _EPOCH) // timedelta(seconds=1) - offset) * _SECOND
    if fraction:
        nanos += int(fraction[:9].ljust(9, "0"))
    return timestamp(nanos, offset=offset)


def format_timestamp(value: Timestamp) -> str:
    """RFC 3339 with as many decimals as it takes, in the zone the timestamp was written in."""
    seconds, nanos = divmod(value.nanos, _SECOND)
    moment = _EPOCH + timedelta(seconds=seconds)
    if value.offset:
        try:
            moment += timedelta(seconds=value.offset)
        except OverflowError:
            value = Timestamp(value.nanos)
    text = f"{moment.year:04d}-{moment.month:02d}-{moment.day:02d}T{moment:%H:%M:%S}"
    if nanos:
        text += "." + f"{nanos:09d}".rstrip("0")
    if not value.offset:
        return text + "Z"
    minutes = abs(value.offset) // 60
    return f"{text}{'-' if value.offset < 0 else '+'}{minutes // 60:02d}:{minutes % 60:02d}"


def parse_duration(text: str) -> Duration | None:
    """A duration such as ``1h30m`` or ``-1.5s``, or None."""
    try:
        return Duration(times.parse_duration(text))
    except ValueError:
        return None


def format_duration(value: Duration) -> str:
    """Seconds with as many decimals as it takes: ``3600s``, ``0.5s``."""
    seconds = value.nanos // _SECOND if value.nanos >= 0 else -(-value.nanos // _SECOND)
    as_float = float(seconds) + (value.nanos - seconds * _SECOND) / 1e9
    return fixed(as_float) + "s"


def fixed(number: float) -> str:
    """Go's 'f' formatting with the fewest digits that say it all."""
    text = repr(number)
    if "e" not in text and "E" not in text:
        return text.removesuffix(".0")
    return f"{Decimal(text):f}"


def zone(name: str) -> tzinfo:
    """A time zone by name, or an offset such as ``-08:00``."""
    hours_text, colon, minutes_text = name.partition(":")
    if not colon:
        return _named_zone(name)
    hours, minutes = _atoi(hours_text), _atoi(minutes_text)
    offset = hours * 60 - minutes if name.startswith("-") else hours * 60 + minutes
    try:
        return timezone(timedelta(minutes=offset))
    except (ValueError, OverflowError):
        raise EvaluationError(f"unknown time zone {name}") from None


def _named_zone(name: str) -> tzinfo:
    if name in ("", "UTC"):
        return UTC
    from zoneinfo import ZoneInfo  # which hardly any expression needs

    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        raise EvaluationError(f"unknown time zone {name}") from None


def _atoi(text: str) -> int:
    number = parse_int64(text)
    if number is None:
        raise EvaluationError(f"strconv.Atoi: parsing {quote(text)}: {parse_problem(text)}")
    return number


def in_zone(value: Timestamp, where: tzinfo) -> datetime:
    """The calendar in a zone; what is below a microsecond is left out."""
    moment = _EPOCH + timedelta(seconds=value.nanos // _SECOND)
    try:
        return moment.astimezone(where)
    except OverflowError:
        return moment

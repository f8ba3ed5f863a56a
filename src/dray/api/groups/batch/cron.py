"""Cron schedules: five fields or a descriptor, and the times they stand for."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from dray.api import times
from dray.api.golang.strconv import parse_int64, parse_problem

_MONTHS: Final = {
    name: i
    for i, name in enumerate(
        ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"], 1
    )
}
_DAYS: Final = {name: i for i, name in enumerate(["sun", "mon", "tue", "wed", "thu", "fri", "sat"])}
#: Lowest and highest value of each field, and names that stand for values.
_BOUNDS: Final[tuple[tuple[int, int, dict[str, int]], ...]] = (
    (0, 59, {}),
    (0, 23, {}),
    (1, 31, {}),
    (1, 12, _MONTHS),
    (0, 6, _DAYS),
)
_DESCRIPTORS: Final = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
#: Nothing that can come at all comes later than this (29 February on a given weekday).
_HORIZON: Final = timedelta(days=366 * 29)


class ScheduleError(ValueError):
    """A schedule that cannot be read. The message is that of upstream's parser."""


@dataclass(frozen=True, slots=True)
class Schedule:
    """Minutes, hours, days, months and weekdays at which something is due; or a fixed interval."""

    fields: tuple[frozenset[int], ...] = ()
    any_day: bool = True  # the day of the month was left open
    any_weekday: bool = True
    every: float = 0.0

    @staticmethod
    def parse(text: str) -> Schedule:
        if not text:
            raise ScheduleError("empty spec string")
        if text.startswith("@every "):
            return Schedule(every=max(1.0, float(int(_seconds(text.removeprefix("@every "))))))
        if text.startswith("@"):
            if text not in _DESCRIPTORS:
                raise ScheduleError(f"unrecognized descriptor: {text}")
            text = _DESCRIPTORS[text]
        parts = text.split()
        if len(parts) != 5:
            listed = " ".join(parts)
            raise ScheduleError(f"expected exactly 5 fields, found {len(parts)}: [{listed}]")
        found = [_field(part, *bounds) for part, bounds in zip(parts, _BOUNDS, strict=True)]
        return Schedule(tuple(values for values, _ in found), any_day=found[2][1], any_weekday=found[4][1])

    def after(self, moment: datetime) -> datetime | None:
        """The first time after a moment; None if it never comes."""
        if self.every:
            return (moment + timedelta(seconds=self.every)).replace(microsecond=0)
        minutes, hours, _, months, _ = self.fields
        day = moment.replace(hour=0, minute=0, second=0, microsecond=0)
        end = day + _HORIZON
        while day <= end:
            if day.month not in months:
                day = (day.replace(day=1) + timedelta(days=32)).replace(day=1)
                continue
            if self._on(day):
                for hour in sorted(hours):
                    for minute in sorted(minutes):
                        due = day.replace(hour=hour, minute=minute)
                        if due > moment:
                            return due
            day += timedelta(days=1)
        return None

    def _on(self, day: datetime) -> bool:
        in_month = day.day in self.fields[2]
        in_week = day.isoweekday() % 7 in self.fields[4]
        # A restricted day of the month and a restricted weekday are alternatives.
        if self.any_day or self.any_weekday:
            return in_month and in_week
        return in_month or in_week


def _field(text: str, low: int, high: int, names: dict[str, int]) -> tuple[frozenset[int], bool]:
    values: set[int] = set()
    is_open = False
    for part in text.split(","):
        more, part_open = _range(part, low, high, names)
        values |= more
        is_open |= part_open
    return frozenset(values), is_open


def _range(text: str, low: int, high: int, names: dict[str, int]) -> tuple[set[int], bool]:
    span, *steps = text.split("/")
    ends = span.split("-")
    is_open = ends[0] in ("*", "?")
    if is_open:
        start, end = low, high
    else:
        start = end = _number(ends[0], names)
        if len(ends) == 2:
            end = _number(ends[1], names)
        elif len(ends) > 2:
            raise ScheduleError(f"too many hyphens: {text}")
    step = 1
    if len(steps) == 1:
        step = _integer(steps[0])
        if len(ends) == 1:
            end = high
        is_open &= step <= 1
    elif steps:
        raise ScheduleError(f"too many slashes: {text}")
    if start < low:
        raise ScheduleError(f"beginning of range ({start}) below minimum ({low}): {text}")
    if end > high:
        raise ScheduleError(f"end of range ({end}) above maximum ({high}): {text}")
    if start > end:
        raise ScheduleError(f"beginning of range ({start}) beyond end of range ({end}): {text}")
    if not step:
        raise ScheduleError(f"step of range should be a positive number: {text}")
    return set(range(start, end + 1, step)), is_open


def _number(text: str, names: dict[str, int]) -> int:
    named = names.get(text.lower())
    return _integer(text) if named is None else named


def _integer(text: str) -> int:
    number = parse_int64(text)
    if number is None:
        raise ScheduleError(
            f'failed to parse int from {text}: strconv.Atoi: parsing "{text}": {parse_problem(text)}'
        )
    if number < 0:
        raise ScheduleError(f"negative number ({number}) not allowed: {text}")
    return number


def _seconds(text: str) -> float:
    try:
        return times.parse_duration(text) / 1e9
    except ValueError as problem:
        raise ScheduleError(f"failed to parse duration @every {text}: {problem}") from None

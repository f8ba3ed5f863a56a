"""Times and durations as Go reads and writes them."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dray.api import times

moments = st.datetimes(datetime(1, 1, 2), datetime(9999, 12, 30), timezones=st.just(UTC))


@given(moments)
def test_times_survive_being_written_and_read(moment: datetime) -> None:
    assert times.parse_time(times.format_time(moment)) == moment.replace(microsecond=0)
    micro = times.format_micro_time(moment)
    assert times.parse_time(micro, layout=times.MICROSECONDS) == moment
    assert times.canonical_micro_time(micro) == micro


def test_times_are_written_in_utc_without_fractions() -> None:
    assert times.canonical_time("2024-02-29T23:30:00.999-01:30") == "2024-03-01T01:00:00Z"
    assert times.canonical_time("0001-01-01T00:00:00Z") is None
    assert times.from_epoch(0) == "1970-01-01T00:00:00Z"
    assert times.to_epoch("1970-01-01T00:00:01.5Z") == 1.5


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("noon", 'parsing time "noon" as "2006-01-02T15:04:05Z07:00": cannot parse "noon" as "2006"'),
        (
            "2024-01-01 00:00:00Z",
            'parsing time "2024-01-01 00:00:00Z" as "2006-01-02T15:04:05Z07:00": cannot parse " 00:00:00Z" as "T"',
        ),
        ("2024-13-01T00:00:00Z", 'parsing time "2024-13-01T00:00:00Z": month out of range'),
        ("2023-02-29T00:00:00Z", 'parsing time "2023-02-29T00:00:00Z": day out of range'),
        ("2024-01-01T25:00:00Z", 'parsing time "2024-01-01T25:00:00Z": hour out of range'),
        ("2024-01-01T00:00:00Zx", 'parsing time "2024-01-01T00:00:00Zx": extra text: "x"'),
        (
            "2024-01-01T00:00:00",
            'parsing time "2024-01-01T00:00:00" as "2006-01-02T15:04:05Z07:00": cannot parse "" as "Z07:00"',
        ),
    ],
)
def test_a_wrong_time_is_refused_in_the_words_of_go(text: str, words: str) -> None:
    with pytest.raises(ValueError, match=r".") as caught:
        times.parse_time(text)
    assert str(caught.value) == words


def test_microseconds_need_exactly_six_digits() -> None:
    with pytest.raises(ValueError, match=r'cannot parse "Z" as "\.000000"'):
        times.canonical_micro_time("2024-01-01T00:00:00Z")


@given(st.integers(-(2**62), 2**62))
def test_durations_survive_being_written_and_read(nanoseconds: int) -> None:
    assert times.parse_duration(times.format_duration(nanoseconds)) == nanoseconds


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("90m", "1h30m0s"),
        ("1.5s", "1.5s"),
        ("100ms", "100ms"),
        ("0", "0s"),
        ("-1h", "-1h0m0s"),
        ("1us", "1µs"),
        ("1m30s", "1m30s"),
        ("0." + "3" * 900 + "s", "333.333333ms"),
        ("-9223372036854775808ns", "-2562047h47m16.854775808s"),
    ],
)
def test_durations_are_written_as_go_writes_them(text: str, canonical: str) -> None:
    assert times.format_duration(times.parse_duration(text)) == canonical


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", 'time: invalid duration ""'),
        ("x", 'time: invalid duration "x"'),
        ("1", 'time: missing unit in duration "1"'),
        ("1y", 'time: unknown unit "y" in duration "1y"'),
        ("9999999999h", 'time: invalid duration "9999999999h"'),
        ("0s" * 2000, f'time: invalid duration "{"0s" * 2000}"'),
        ("9" * 5000 + "s", f'time: invalid duration "{"9" * 5000}s"'),
    ],
)
def test_a_wrong_duration_is_refused_in_the_words_of_go(text: str, words: str) -> None:
    with pytest.raises(ValueError, match=r".") as caught:
        times.parse_duration(text)
    assert str(caught.value) == words

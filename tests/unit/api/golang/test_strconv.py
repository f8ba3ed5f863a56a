"""Numbers in texts of any length."""

from __future__ import annotations

import pytest

from dray.api.golang.strconv import parse_int64, parse_problem


@pytest.mark.parametrize(
    ("text", "number"),
    [("0", 0), ("-7", -7), ("+12", 12), ("0" * 5000 + "3", 3), (str(2**63 - 1), 2**63 - 1), (str(-(2**63)), -(2**63))],
)  # fmt: skip
def test_whole_numbers_are_read_as_go_reads_them(text: str, number: int) -> None:
    assert parse_int64(text) == number


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "invalid syntax"), ("x", "invalid syntax"), ("²", "invalid syntax"), ("٣", "invalid syntax"), ("1_0", "invalid syntax"), (" 1", "invalid syntax"),
        ("--1", "invalid syntax"), (str(2**63), "value out of range"), ("9" * 5000, "value out of range"), ("-" + "9" * 5000, "value out of range"),
    ],
)  # fmt: skip
def test_what_is_no_number_is_refused_in_the_words_of_go(text: str, problem: str) -> None:
    assert parse_int64(text) is None
    assert parse_problem(text) == problem

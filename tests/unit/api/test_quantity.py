"""Quantities: parsing, printing, arithmetic and rounding as Go's resource.Quantity does them."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dray.api.quantity import Format, Quantity

FORMAT_WRONG = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
SUFFIXES = {"": 0, "n": -9, "u": -6, "m": -3, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("0", "0"), ("-0", "0"), ("0Ki", "0"), ("0.000", "0"), ("00", "0"), ("-", "0"), (".", "0"),
        ("1", "1"), ("+5", "+5"), ("0500m", "0500m"), ("5", "5"), ("1000", "1k"), ("1500", "1500"),
        ("0.5", "500m"), (".5", "500m"), ("1.5", "1500m"), ("100m", "100m"), ("1000m", "1"), ("0.0001", "100u"),
        ("80Gi", "80Gi"), ("1024Mi", "1Gi"), ("1024", "1024"), ("1.5Gi", "1536Mi"), ("8Ki", "8Ki"), ("512Ki", "512Ki"),
        ("0.5Ki", "512"), ("0.1Ki", "102400m"), ("1.1Ki", "1126400m"), ("100Ti", "100Ti"), ("8Ei", "9223372036854775807"),
        ("-1.5Gi", "-1536Mi"), ("2e3", "2e3"), ("2e4", "20e3"), ("2E6", "2E6"), ("1.5e3", "1500"), ("1e-3", "1e-3"),
        ("0.1n", "1n"), ("-0.1n", "-1n"), ("1e-400", "1e-9"), ("1234567890123456789", "1234567890123456789"),
        ("1000E", "1"), ("12345678901234567890", "12345678901234567890"), ("1.G", "1.G"),
    ],
)  # fmt: skip
def test_prints_canonically(text: str, canonical: str) -> None:
    assert str(Quantity.parse(text)) == canonical


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", FORMAT_WRONG), ("abc", FORMAT_WRONG), ("1 ", FORMAT_WRONG), ("1Gi1x", FORMAT_WRONG), ("1..2", FORMAT_WRONG),
        ("1g", FORMAT_WRONG), ("٣", FORMAT_WRONG),
        ("1GiB", FORMAT_WRONG), ("1Mi1", "unable to parse quantity's suffix"), ("1ki", "unable to parse quantity's suffix"),
        ("1e", "unable to parse quantity's suffix"), ("1-5", "unable to parse quantity's suffix"),
        (".e-20", "unable to parse numeric part of quantity"), ("-e-20", "unable to parse numeric part of quantity"),
        ("1e2000000000", "unable to parse quantity's suffix"),
    ],
)  # fmt: skip
def test_refuses_with_upstreams_words(text: str, message: str) -> None:
    with pytest.raises(ValueError) as refused:
        Quantity.parse(text)
    assert str(refused.value) == message


def test_amounts_are_equal_whatever_the_format() -> None:
    assert Quantity.parse("1Gi") == Quantity.parse("1073741824") == Quantity.parse("1073741824000m")
    assert len({Quantity.parse("1Ki"), Quantity.parse("1024"), Quantity.parse("1.024k")}) == 1
    assert Quantity.parse("1Gi") != "1Gi"


def test_value_rounds_up_and_overflows_as_upstream() -> None:
    assert Quantity.parse("1001m").value() == 2
    assert Quantity.parse("-1001m").value() == -2
    assert Quantity.parse("1.0001").milli_value() == 1001
    assert Quantity.parse("1e30").value() == 0
    assert Quantity.parse("1Ei").value() == 1 << 60


def test_an_integer_is_what_fits_int64_without_decimals() -> None:
    assert Quantity.parse("10k").as_int64() == (10000, True)
    assert Quantity.parse("1000m").as_int64() == (0, False)
    assert not Quantity.parse("100Ti").is_integer
    assert Quantity.parse("10Ti").is_integer
    assert not Quantity.parse("1e30").is_integer


def test_a_sum_with_zero_takes_the_other_format() -> None:
    assert str(Quantity() + Quantity.parse("2Gi")) == "2Gi"
    assert str(Quantity.parse("1Gi") + Quantity.parse("1G")) == "2073741824"
    assert str(Quantity.parse("1Gi") - Quantity.parse("512Mi")) == "512Mi"
    assert str(-Quantity.parse("1500m")) == "-1500m"
    assert (Quantity.parse("500m") + Quantity.parse("500m")).as_int64() == (0, False)


def test_a_sum_beyond_int64_stays_exact() -> None:
    top = Quantity.parse(str((1 << 63) - 1))
    assert str(top + Quantity.parse("1")) == "9223372036854775808"


def test_rounding_up_goes_away_from_zero() -> None:
    assert str(Quantity.parse("1.2").rounded_up()) == "2"
    assert str(Quantity.parse("-1.2").rounded_up()) == "-2"


def test_json_numbers_and_padded_strings_are_read() -> None:
    assert Quantity.from_json(5) == Quantity.parse("5")
    assert Quantity.from_json(1.5) == Quantity.parse("1500m")
    assert Quantity.from_json(" 1Gi ").format is Format.BINARY_SI


@given(
    st.integers(min_value=-(10**20), max_value=10**20),
    st.sampled_from(sorted(SUFFIXES)),
    st.integers(min_value=-(10**20), max_value=10**20),
    st.sampled_from(sorted(SUFFIXES)),
)
def test_order_and_arithmetic_agree_with_fractions(m: int, a: str, n: int, b: str) -> None:
    x, y = Quantity.parse(f"{m}{a}"), Quantity.parse(f"{n}{b}")
    p, q = Fraction(10) ** SUFFIXES[a] * m, Fraction(10) ** SUFFIXES[b] * n
    assert x.compare(y) == (p > q) - (p < q)
    assert (x < y, x <= y, x == y) == (p < q, p <= q, p == q)
    assert (x + y).compare(y + x) == 0
    assert (x - y).sign == (p > q) - (p < q)


@given(
    st.integers(min_value=0, max_value=10**18), st.sampled_from(["", "m", "k", "Ki", "Mi", "Gi", "e3", "e6"])
)
def test_printing_and_parsing_again_keeps_the_amount(number: int, suffix: str) -> None:
    quantity = Quantity.parse(f"{number}{suffix}")
    if abs(quantity.nano) < 10**30:
        assert Quantity.parse(str(quantity)) == quantity

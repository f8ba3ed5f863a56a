"""Resource quantities such as ``500m``, ``80Gi`` or ``2e3``: Go's resource.Quantity, exact and immutable.

Kubernetes keeps a quantity either as an int64 with a decimal scale or, where that does not fit, as a big
decimal. Which of the two it is shows (``as_int64``, ``value`` on overflow), so it is kept here as well. The
amount itself is always a whole number of nanos, which makes comparing and hashing plain integer work.
"""

from __future__ import annotations

import re
from enum import Enum
from typing import Final

from dray.api.textcache import cache_texts

_MAX: Final = (1 << 63) - 1
_MIN: Final = -(1 << 63)
_FORMAT_WRONG: Final = (
    "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
)
_NUMERIC: Final = "unable to parse numeric part of quantity"
_SUFFIX: Final = "unable to parse quantity's suffix"
# The repetitions give nothing back (``*+``): a long text that does not fit would be tried again for each of its digits.
_SHAPE: Final = re.compile(r"([+-]?)0*+([0-9]*+)(?:\.([0-9]*+))?([eEinumkKMGTP]*+[-+]?[0-9]*+)")

# Upstream computes with 10^exponent and hangs on absurd exponents; these are refused instead, and so are absurd numbers
# of digits, which Python does not convert at all beyond a few thousand.
_MAX_EXPONENT: Final = 1000
_MAX_DIGITS: Final = 1000


class Format(Enum):
    """How a quantity prints."""

    DECIMAL_SI = "DecimalSI"
    BINARY_SI = "BinarySI"
    DECIMAL_EXPONENT = "DecimalExponent"


_DECIMAL: Final = {
    "n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18,
}  # fmt: skip
_BINARY: Final = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_DECIMAL_SUFFIX: Final = {exponent: suffix for suffix, exponent in _DECIMAL.items()}
_BINARY_SUFFIX: Final = {exponent // 10: suffix for suffix, exponent in _BINARY.items()}


class Quantity:
    """An exact amount with the format it was written in. Equal amounts are equal whatever their format."""

    __slots__ = ("_big", "_mantissa", "_scale", "_text", "format", "nano")

    format: Format
    nano: int
    """The exact amount in billionths, for those who compute with plain integers."""

    def __init__(self, mantissa: int = 0, scale: int = 0, *, format: Format = Format.DECIMAL_SI) -> None:
        """``mantissa * 10**scale``; the scale is at least -9."""
        self._mantissa = mantissa
        self._scale = scale
        self.nano = mantissa * 10 ** (scale + 9)
        self._big = not _MIN <= mantissa <= _MAX
        self.format = format
        self._text: str | None = None

    @staticmethod
    def parse(text: str) -> Quantity:
        """The quantity a string stands for, or ValueError in upstream's words."""
        return _parse(text)

    @staticmethod
    def from_json(value: str | int | float) -> Quantity:
        """What a JSON document holds: a string (surrounding space is ignored) or a plain number."""
        return _parse(value.strip() if isinstance(value, str) else repr(value))

    @staticmethod
    def milli(value: int, *, format: Format = Format.DECIMAL_SI) -> Quantity:
        return Quantity(value, -3, format=format)

    def __str__(self) -> str:
        if self._text is None:
            self._text = self._canonical()
        return self._text

    def __repr__(self) -> str:
        return f"Quantity({str(self)!r})"

    def __hash__(self) -> int:
        return hash(self.nano)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Quantity) and self.nano == other.nano

    def __lt__(self, other: Quantity) -> bool:
        return self.nano < other.nano

    def __le__(self, other: Quantity) -> bool:
        return self.nano <= other.nano

    def __gt__(self, other: Quantity) -> bool:
        return self.nano > other.nano

    def __ge__(self, other: Quantity) -> bool:
        return self.nano >= other.nano

    def __bool__(self) -> bool:
        return self.nano != 0

    def compare(self, other: Quantity) -> int:
        """-1, 0 or 1."""
        return (self.nano > other.nano) - (self.nano < other.nano)

    @property
    def sign(self) -> int:
        return (self.nano > 0) - (self.nano < 0)

    def __neg__(self) -> Quantity:
        return _made(-self._mantissa, self._scale, format=self.format, big=self._big)

    def __add__(self, other: Quantity) -> Quantity:
        return self._plus(other, other._mantissa)

    def __sub__(self, other: Quantity) -> Quantity:
        return self._plus(other, -other._mantissa)

    def __mul__(self, factor: int) -> Quantity:
        return _made(self._mantissa * factor, self._scale, format=self.format, big=self._big)

    def _plus(self, other: Quantity, mantissa: int) -> Quantity:
        # A zero takes the other side's format, and an int64 sum that overflows goes on as a big decimal.
        format = self.format if self.nano else other.format
        big = self._big or other._big
        if not big:
            if mantissa == 0:
                return _made(self._mantissa, self._scale, format=format, big=False)
            if self._mantissa == 0:
                return _made(mantissa, other._scale, format=format, big=False)
        scale = min(self._scale, other._scale)
        left = self._mantissa * 10 ** (self._scale - scale)
        right = mantissa * 10 ** (other._scale - scale)
        return _made(left + right, scale, format=format, big=big or not (_fits(left) and _fits(right)))

    def value(self) -> int:
        """The amount as an int64, rounded up; beyond int64 it wraps or is zero, as upstream's does."""
        return self._scaled(0)

    def milli_value(self) -> int:
        return self._scaled(-3)

    def _scaled(self, scale: int) -> int:
        unit = 10 ** (scale + 9)
        quotient, remainder = divmod(abs(self.nano), unit)
        if self._big:
            # Upstream adds one after truncating, which for negative amounts rounds towards zero and past it.
            signed = -quotient if self.nano < 0 else quotient
            return _wrap(signed + (1 if remainder else 0))
        if remainder:
            quotient += 1
        result = -quotient if self.nano < 0 else quotient
        return result if _fits(result) else 0

    def as_int64(self) -> tuple[int, bool]:
        """The amount as an int64 if upstream can say so without rounding or decimals."""
        if self._big or self._scale < 0:
            return 0, False
        whole = self._mantissa * 10**self._scale
        return (whole, True) if _fits(whole) else (0, False)

    @property
    def is_integer(self) -> bool:
        return self.as_int64()[1]

    def as_float(self) -> float:
        """An approximation, as upstream's AsApproximateFloat64 makes it."""
        try:
            return float(self._mantissa) if self._scale == 0 else self._mantissa * 10.0**self._scale
        except OverflowError:
            return float("-inf") if self.nano < 0 else float("inf")

    def rounded_up(self, scale: int = 0) -> Quantity:
        """Rounded away from zero to a multiple of ``10**scale``."""
        unit = 10 ** (scale + 9)
        quotient, remainder = divmod(abs(self.nano), unit)
        if not remainder:
            return self
        quotient += 1
        return _made(-quotient if self.nano < 0 else quotient, scale, format=self.format, big=self._big)

    def reduced(self) -> Quantity:
        """The same amount with as few decimals as it needs."""
        mantissa, scale = self._mantissa, self._scale
        while scale < 0 and mantissa % 10 == 0:
            mantissa, scale = mantissa // 10, scale + 1
        return _made(mantissa, scale, format=self.format, big=not _fits(mantissa))

    def _canonical(self) -> str:
        if not self.nano:
            return "0"
        whole, fraction = divmod(self.nano, 10**9)
        if self.format is Format.BINARY_SI and not fraction and not -1024 < whole < 1024:
            times = 0
            while whole % 1024 == 0:
                whole, times = whole // 1024, times + 1
            return f"{whole}{_BINARY_SUFFIX.get(times, '')}"
        mantissa, exponent = self._mantissa, self._scale
        while mantissa % 10 == 0:
            mantissa, exponent = mantissa // 10, exponent + 1
        shift = exponent % 3
        mantissa, exponent = mantissa * 10**shift, exponent - shift
        if self.format is Format.DECIMAL_EXPONENT:
            return f"{mantissa}e{exponent}" if exponent else str(mantissa)
        # Beyond the largest suffix upstream prints none at all.
        return f"{mantissa}{_DECIMAL_SUFFIX.get(exponent, '')}"


def _made(mantissa: int, scale: int, *, format: Format, big: bool, text: str | None = None) -> Quantity:
    quantity = Quantity(mantissa, scale, format=format)
    quantity._big = big or quantity._big
    quantity._text = text
    return quantity


@cache_texts(65536)
def _parse(text: str) -> Quantity:
    if not text:
        raise ValueError(_FORMAT_WRONG)
    shape = _SHAPE.fullmatch(text)
    if shape is None:
        raise ValueError(_FORMAT_WRONG)
    sign, number, decimals, suffix = shape.groups()
    decimals = decimals or ""
    digits = (number or "0") + decimals
    if len(digits) > _MAX_DIGITS:
        raise ValueError(_NUMERIC)
    binary = _BINARY.get(suffix)
    if binary is not None:
        return _parse_binary(text, sign, digits, len(decimals), binary)
    if (exponent := _DECIMAL.get(suffix)) is not None:
        format = Format.DECIMAL_SI
    else:
        format, exponent = Format.DECIMAL_EXPONENT, _exponent(suffix)
    mantissa = -int(digits) if sign == "-" else int(digits)
    scale = exponent - len(decimals)
    if len(digits) <= 18 and scale >= -9:
        # Upstream keeps the text as written if it looks canonical, a leading sign or zeros included.
        kept = scale % 3 == 0 and not digits.endswith("000") and digits[0] != "0"
        return _made(mantissa, scale, format=format, big=False, text=text if kept else None)
    if not _has_digit(text, suffix):
        raise ValueError(_NUMERIC)
    return _big(mantissa, scale, format)


def _parse_binary(text: str, sign: str, digits: str, decimals: int, exponent: int) -> Quantity:
    number = int(digits)
    mantissa = (-number if sign == "-" else number) << exponent
    written = len(digits) - decimals
    if decimals == 0 and 15 - written - exponent * 3 // 10 - 1 >= 0 and _fits(mantissa):
        return _made(mantissa, 0, format=Format.BINARY_SI, big=False, text=text if number & 7 else None)
    if not _has_digit(text, text[-2:]):
        raise ValueError(_NUMERIC)
    ceiling = _MAX * 10**decimals
    if abs(mantissa) > ceiling:
        return _big(-_MAX if mantissa < 0 else _MAX, 0, Format.BINARY_SI)
    below_one = 0 < abs(mantissa) < 10**decimals
    return _big(mantissa, -decimals, Format.DECIMAL_SI if below_one else Format.BINARY_SI)


def _big(mantissa: int, scale: int, format: Format) -> Quantity:
    """A big decimal; what is below a nano is rounded away from zero, so that something stays something."""
    if scale < -9:
        excess = -9 - scale
        if excess > len(str(abs(mantissa))):
            quotient, remainder = 0, mantissa
        else:
            quotient, remainder = divmod(abs(mantissa), 10**excess)
        if remainder:
            quotient += 1
        mantissa, scale = -quotient if mantissa < 0 else quotient, -9
    return _made(mantissa, scale, format=format, big=True)


def _exponent(suffix: str) -> int:
    if len(suffix) > 1 and suffix[0] in "eE":
        try:
            exponent = int(suffix[1:])
        except ValueError:
            raise ValueError(_SUFFIX) from None
        if exponent <= _MAX_EXPONENT:
            return exponent
    raise ValueError(_SUFFIX)


def _has_digit(text: str, suffix: str) -> bool:
    return any(c.isdigit() for c in text[: len(text) - len(suffix)])


def _fits(value: int) -> bool:
    return _MIN <= value <= _MAX


def _wrap(value: int) -> int:
    return ((value + (1 << 63)) & ((1 << 64) - 1)) - (1 << 63)

"""Values as Go prints them inside upstream's messages."""

from __future__ import annotations

import math

from dray.cel.common.values import Optional, UInt, Value, is_list, is_map


def go_string(value: Value) -> str:
    """A value as Go's %v prints it in upstream's messages."""
    kind = type(value)
    if kind is str:
        text: str = value
        return text
    if kind is bool:
        return "true" if value else "false"
    if kind is int or kind is UInt:
        return str(int(value))
    if kind is float:
        return format_g(value)
    if value is None:
        return "NullValue"
    if kind is bytes:
        return "[" + " ".join(map(str, value)) + "]"
    if is_list(value):
        return "[" + ", ".join(map(go_string, value)) + "]"
    if is_map(value):
        return "{" + ", ".join(f"{go_string(k)}: {go_string(v)}" for k, v in value.items()) + "}"
    if kind is Optional:
        return f"optional({go_string(value.value)})" if value.present else "optional.none()"
    return str(value)


def format_g(number: float) -> str:
    """Go's %g / %v of a float64: the shortest digits, an exponent below -4 or from 21 on."""
    if number != number:
        return "NaN"
    if math.isinf(number):
        return "+Inf" if number > 0 else "-Inf"
    if number == 0:
        return "-0" if math.copysign(1, number) < 0 else "0"
    sign = "-" if number < 0 else ""
    mantissa, exponent_text = f"{abs(number)!r}".lower(), "0"
    if "e" in mantissa:
        mantissa, exponent_text = mantissa.split("e")
    whole, _, fraction = mantissa.partition(".")
    fraction = "" if fraction == "0" else fraction
    digits = (whole + fraction).lstrip("0")
    exponent = int(exponent_text) + len(whole) - 1
    if whole == "0":
        exponent = int(exponent_text) - (len(fraction) - len(fraction.lstrip("0"))) - 1
    digits = digits.rstrip("0") or "0"
    if exponent < -4 or exponent >= 21:
        tail = f".{digits[1:]}" if len(digits) > 1 else ""
        return f"{sign}{digits[0]}{tail}e{'-' if exponent < 0 else '+'}{abs(exponent):02d}"
    if exponent < 0:
        return f"{sign}0.{'0' * (-exponent - 1)}{digits}"
    if len(digits) <= exponent + 1:
        return sign + digits + "0" * (exponent + 1 - len(digits))
    return f"{sign}{digits[: exponent + 1]}.{digits[exponent + 1 :]}"

"""Resource quantities: ``quantity("80Gi").isGreaterThan(quantity("40Gi"))``."""

from __future__ import annotations

from typing import Final

from dray.api.quantity import Quantity
from dray.cel.common.decls import Library, overload
from dray.cel.common.values import QUANTITY
from dray.cel.errors import EvaluationError


def _parse(text: str) -> Quantity:
    try:
        return Quantity.parse(text)
    except ValueError as wrong:
        raise EvaluationError(str(wrong)) from None


def _is_quantity(text: str) -> bool:
    try:
        Quantity.parse(text)
    except ValueError:
        return False
    return True


def _as_integer(quantity: Quantity) -> int:
    value, exact = quantity.as_int64()
    if not exact:
        raise EvaluationError("cannot convert value to integer")
    return value


def _plus(a: Quantity, b: Quantity | int) -> Quantity:
    return a + (Quantity(b) if isinstance(b, int) else b)


def _minus(a: Quantity, b: Quantity | int) -> Quantity:
    return a - (Quantity(b) if isinstance(b, int) else b)


_Q: Final = "kubernetes.Quantity"

QUANTITIES: Final = Library(
    name="kubernetes.quantity",
    types=(QUANTITY,),
    overloads=(
        overload("quantity", "string_to_quantity", f"(string) -> {_Q}", _parse),
        overload("isQuantity", "is_quantity_string", "(string) -> bool", _is_quantity),
        overload("sign", "quantity_sign", f"({_Q}) -> int", lambda q: q.sign),
        overload("isGreaterThan", "quantity_is_greater_than", f"{_Q}.({_Q}) -> bool", Quantity.__gt__),
        overload("isLessThan", "quantity_is_less_than", f"{_Q}.({_Q}) -> bool", Quantity.__lt__),
        overload("compareTo", "quantity_compare_to", f"{_Q}.({_Q}) -> int", Quantity.compare),
        overload("asApproximateFloat", "quantity_get_float", f"{_Q}.() -> double", Quantity.as_float),
        overload("asInteger", "quantity_get_int", f"{_Q}.() -> int", _as_integer),
        overload("isInteger", "quantity_is_integer", f"{_Q}.() -> bool", lambda q: q.is_integer),
        overload("add", "quantity_add", f"{_Q}.({_Q}) -> {_Q}", _plus),
        overload("add", "quantity_add_int", f"{_Q}.(int) -> {_Q}", _plus),
        overload("sub", "quantity_sub", f"{_Q}.({_Q}) -> {_Q}", _minus),
        overload("sub", "quantity_sub_int", f"{_Q}.(int) -> {_Q}", _minus),
    ),
)

"""Consumable capacity: how much of a device one request may take, and in which steps."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, Final

from dray.api.groups.resource import limits
from dray.api.groups.resource.validation.checks import Errors
from dray.api.quantity import Quantity
from dray.api.release import Gates
from dray.api.validation import field
from dray.api.validation.field import Path

_ONE: Final = 10**9  # in nano
_MILLI: Final = 10**6
_LARGEST: Final = (1 << 63) - 1


def request_policy(capacity: str, policy: Mapping[str, Any], path: Path, gates: Gates, errs: Errors) -> None:
    """At most one of valid values and a range; either needs a default that satisfies it."""
    values, span = policy.get("validValues"), policy.get("validRange")
    if values and span is not None:
        both = 'cannot specify "validValues" and "validRange" at the same time'
        errs.append(field.forbidden(path, f"exactly one policy can be specified, {both}"))
        return
    if not values and span is None:
        return
    default, fractional = policy.get("default"), "DRAFractionalCapacityRange" in gates
    if default is None:
        given = "validValues" if values else "validRange"
        errs.append(field.required(path.child("default"), f"required when {given} is defined"))
    elif values:
        at = path.child("validValues")
        _valid_values(_parse(default), _parse(capacity), values, at, errs, fractional=fractional)
    else:
        at = path.child("validRange")
        _Range(_parse(default), _parse(capacity), span or {}, at, errs, fractional=fractional).validate()


def _parse(text: str) -> Quantity:
    return Quantity.parse(text)


def _valid_values(
    default: Quantity, top: Quantity, texts: Sequence[str], path: Path, errs: Errors, *, fractional: bool
) -> None:
    values = [_parse(text) for text in texts]
    for i, (value, following) in enumerate(pairwise(values)):
        if value > following:
            problem = "values must be sorted in ascending order"
            errs.append(field.invalid(path.index(i + 1), str(following), problem))
    found = False
    if len(values) > limits.VALID_VALUES:
        # Too long a list is not searched for the default either, so both problems are reported.
        errs.append(field.too_many(path, len(values), limits.VALID_VALUES))
    else:
        for i, value in enumerate(values):
            if value > top:
                problem = f"option is larger than capacity value: {top}"
                errs.append(field.invalid(path.index(i), str(value), problem))
            found |= value == default
        seen: set[int] = set()
        for i, value in enumerate(values):
            own = value.nano if fractional else value.value()
            if own in seen:
                errs.append(field.duplicate(path.index(i), str(value.value())))
            seen.add(own)
    if not found:
        problem = "default value is not valid according to the requestPolicy"
        errs.append(field.invalid(path, str(default), problem))


class _Range:
    def __init__(
        self,
        default: Quantity,
        top: Quantity,
        span: Mapping[str, Any],
        path: Path,
        errs: Errors,
        *,
        fractional: bool,
    ) -> None:
        self.default, self.top, self.path, self.errs = default, top, path, errs
        self.low, self.high, self.step = (
            None if span.get(name) is None else _parse(span[name]) for name in ("min", "max", "step")
        )
        #: Thousandths count where something in the range, or its default, is not a whole number.
        self.milli = fractional and any(amount.nano % _ONE for amount in self._amounts().values())

    def _amounts(self) -> dict[str, Quantity]:
        found = {"default": self.default, "min": self.low, "max": self.high, "step": self.step}
        return {name: amount for name, amount in found.items() if amount is not None}

    def validate(self) -> None:
        low, high = self.low, self.high
        if low is None:
            self.errs.append(field.required(self.path.child("min"), "required when validRange is defined"))
            return
        if low > self.top:
            self._report("min", low, f"min is larger than capacity value: {self.top}")
        if self.default < low:
            self._report(self._at("min"), self.default, f"default is less than min: {low}")
        if high is not None:
            if low > high:
                self._report("max", low, f"min is larger than max: {high}")
            if high > self.top:
                self._report("max", high, f"max is larger than capacity value: {self.top}")
            if self.default > high:
                self._report(self._at("max"), self.default, f"default is more than max: {high}")
        if self.milli and any([*self._too_fine()]):
            return
        if self.step is not None:
            self._steps(low, high, self.step)

    def _at(self, bound: str) -> str:
        """Where a default outside of the range is reported: older releases name the bound."""
        return "default" if self.errs.declared else bound

    def _too_fine(self) -> Iterator[str]:
        for name, amount in self._amounts().items():
            if amount.nano % _MILLI:
                self._report(name, amount, "value cannot be represented as a milli value")
                yield name

    def _too_large(self) -> Iterator[str]:
        for name, amount in self._amounts().items():
            if amount.sign < 0:
                self._report(name, amount, "must be greater than or equal to 0")
            elif amount.nano > _LARGEST * _ONE:
                self._report(name, amount, f"must not be larger than {_LARGEST}")
            else:
                continue
            yield name

    def _steps(self, low: Quantity, high: Quantity | None, step: Quantity) -> None:
        if step.sign <= 0:
            # 1.36 divides by zero here; 1.37 says this.
            self._report("step", step, "must be greater than zero")
            return
        if (one := low + step) > self.top:
            self._report("step", step, f"one step {one} is larger than capacity value: {self.top}")
        if self.errs.declared and not self.milli and any([*self._too_large()]):
            return
        for value in (self.default, high):
            if value is not None and self._uneven(value, low, step):
                problem = f"value is not a multiple of a given step ({step}) from ({low})"
                self._report("step", value, problem)

    def _uneven(self, value: Quantity, low: Quantity, step: Quantity) -> bool:
        if self.milli:
            return (value.nano - low.nano) % step.nano != 0
        return (value.value() - low.value()) % max(step.value(), 1) != 0

    def _report(self, child: str, value: Quantity, problem: str) -> None:
        self.errs.append(field.invalid(self.path.child(child), str(value), problem))

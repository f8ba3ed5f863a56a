"""Consumable capacity: how much of a device one request may take, and in which steps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

from dray.api.groups.resource import limits
from dray.api.groups.resource.validation.checks import Errors
from dray.api.quantity import Quantity
from dray.api.validation import field
from dray.api.validation.field import Path


def request_policy(capacity: str, policy: Mapping[str, Any], path: Path, errs: Errors) -> None:
    """At most one of valid values and a range; either needs a default that satisfies it."""
    values, span = policy.get("validValues"), policy.get("validRange")
    if values and span is not None:
        both = 'cannot specify "validValues" and "validRange" at the same time'
        errs.append(field.forbidden(path, f"exactly one policy can be specified, {both}"))
        return
    if not values and span is None:
        return
    default = policy.get("default")
    if default is None:
        given = "validValues" if values else "validRange"
        errs.append(field.required(path.child("default"), f"required when {given} is defined"))
    elif values:
        _valid_values(_parse(default), _parse(capacity), values, path.child("validValues"), errs)
    else:
        _Range(_parse(default), _parse(capacity), span or {}, path.child("validRange"), errs).validate()


def _parse(text: str) -> Quantity:
    return Quantity.parse(text)


def _valid_values(default: Quantity, top: Quantity, texts: Sequence[str], path: Path, errs: Errors) -> None:
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
            whole = value.value()
            if whole in seen:
                errs.append(field.duplicate(path.index(i), str(whole)))
            seen.add(whole)
    if not found:
        problem = "default value is not valid according to the requestPolicy"
        errs.append(field.invalid(path, str(default), problem))


class _Range:
    def __init__(
        self, default: Quantity, top: Quantity, span: Mapping[str, Any], path: Path, errs: Errors
    ) -> None:
        self.default, self.top, self.span, self.path, self.errs = default, top, span, path, errs

    def validate(self) -> None:
        if self.span.get("min") is None:
            self.errs.append(field.required(self.path.child("min"), "required when validRange is defined"))
            return
        low = _parse(self.span["min"])
        if low > self.top:
            self._report("min", low, f"min is larger than capacity value: {self.top}")
        if self.default < low:
            self._report("min", self.default, f"default is less than min: {low}")
        high = _parse(self.span["max"]) if self.span.get("max") is not None else None
        if high is not None:
            if low > high:
                self._report("max", low, f"min is larger than max: {high}")
            if high > self.top:
                self._report("max", high, f"max is larger than capacity value: {self.top}")
            if self.default > high:
                self._report("max", self.default, f"default is more than max: {high}")
        if self.span.get("step") is not None:
            self._steps(low, high, _parse(self.span["step"]))

    def _steps(self, low: Quantity, high: Quantity | None, step: Quantity) -> None:
        if step.sign <= 0:
            # 1.36 divides by zero here; 1.37 says this.
            self._report("step", step, "must be greater than zero")
            return
        if (one := low + step) > self.top:
            self._report("step", step, f"one step {one} is larger than capacity value: {self.top}")
        for value in (self.default, high):
            if value is not None and (value.value() - low.value()) % max(step.value(), 1):
                problem = f"value is not a multiple of a given step ({step}) from ({low})"
                self._report("step", value, problem)

    def _report(self, child: str, value: Quantity, problem: str) -> None:
        self.errs.append(field.invalid(self.path.child(child), str(value), problem))

"""Consumable capacity: what a request takes from a device that may be shared, by the device's request policy.

Amounts are compared in billionths; what ends up in a result keeps the quantity's own format.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dray.allocation.devices import Shape
from dray.allocation.features import Features
from dray.api.quantity import Format, Quantity

if TYPE_CHECKING:
    from dray.api.types.resource import CapacityRequestPolicy, CapacityRequestPolicyRange, DeviceCapacity

Wanted = Mapping[str, Quantity]
Consumed = Mapping[str, int]

_MAX_INT64 = (1 << 63) - 1


class CapacityOutOfRange(Exception):
    """A request that cannot be expressed in the arithmetic of a device's valid range."""


@dataclass(frozen=True, slots=True)
class ConsumedCapacity:
    """What one allocation takes from a device of one shape."""

    amounts: tuple[tuple[str, int, int], ...]  # capacity, amount, the device's limit
    quantities: dict[str, Quantity]

    def fits(self, consumed: Consumed, in_flight: Consumed) -> bool:
        return all(
            consumed.get(name, 0) + in_flight.get(name, 0) + amount <= limit
            for name, amount, limit in self.amounts
        )


NOTHING = ConsumedCapacity((), {})


def consumed_capacity(shape: Shape, wanted: Wanted, key: Any, features: Features) -> ConsumedCapacity | None:
    """What a request takes from a device of this shape; None if the shape does not offer that.

    ``key`` identifies what is wanted, so that each shape works it out once.
    """
    key = (key, features.capacity_rules)
    try:
        found: ConsumedCapacity | None = shape.consumed_capacities[key]
    except KeyError:
        found = shape.consumed_capacities[key] = _work_out(shape.capacity, wanted, features)
    return found


def _work_out(
    capacity: Mapping[str, DeviceCapacity], wanted: Wanted, features: Features
) -> ConsumedCapacity | None:
    if any(name not in capacity for name in wanted):
        return None
    quantities = {
        name: consumption(wanted.get(name), document, features) for name, document in capacity.items()
    }
    if features.refuses_negative_capacity:
        for name, quantity in quantities.items():
            if quantity.sign < 0:
                raise CapacityOutOfRange(f'capacity "{name}": capacity value is negative')
    amounts = []
    for name, document in capacity.items():
        if _violates(quantities[name], document.get("requestPolicy"), features):
            return None
        amounts.append((name, quantities[name].nano, Quantity.from_json(document["value"]).nano))
    return ConsumedCapacity(tuple(amounts), quantities)


def consumption(wanted: Quantity | None, capacity: DeviceCapacity, features: Features) -> Quantity:
    """The amount consumed of one capacity: the policy's default, or what is wanted rounded up to what is valid."""
    policy = capacity.get("requestPolicy") or {}
    if wanted is None:
        default = policy.get("default")
        return Quantity.from_json(capacity["value"] if default is None else default)
    valid_range = policy.get("validRange") or {}
    if valid_range.get("min") is not None:
        return _up_to_step(wanted, valid_range, features)
    for text in policy.get("validValues") or ():
        value = Quantity.from_json(text)
        if wanted <= value:
            return value
    return wanted


def _up_to_step(wanted: Quantity, valid_range: CapacityRequestPolicyRange, features: Features) -> Quantity:
    smallest = Quantity.from_json(valid_range["min"])
    if wanted < smallest:
        return smallest
    if valid_range.get("step") is None:
        return wanted
    step = Quantity.from_json(valid_range["step"])
    if features.exact_capacity_steps:
        return _up_to_step_exactly(wanted, smallest, step, valid_range, features)
    first, stride = smallest.value(), step.value()
    if stride == 0:
        return wanted
    steps = -((first - wanted.value()) // stride)
    return Quantity(first + stride * steps, format=Format.BINARY_SI)


def _up_to_step_exactly(
    wanted: Quantity,
    smallest: Quantity,
    step: Quantity,
    valid_range: CapacityRequestPolicyRange,
    features: Features,
) -> Quantity:
    """Fractions where they are allowed, the step's format, and no silent overflow."""
    milli = _in_milli(valid_range, features)
    unit = 10**6 if milli else 10**9
    amount = -(-wanted.nano // unit)
    if amount > _MAX_INT64:
        raise CapacityOutOfRange(_OUT_OF_RANGE)
    first, stride = -(-smallest.nano // unit), -(-step.nano // unit)
    if stride == 0:
        return wanted
    rounded = first - ((first - amount) // stride) * stride
    if rounded > _MAX_INT64:
        raise CapacityOutOfRange(_OUT_OF_RANGE)
    if milli and rounded % 1000:
        return Quantity.milli(rounded, format=step.format)
    return Quantity(rounded // 1000 if milli else rounded, format=step.format)


_OUT_OF_RANGE = "capacity request cannot be represented in the device's range arithmetic"


def _in_milli(valid_range: CapacityRequestPolicyRange, features: Features) -> bool:
    if not features.fractional_capacity:
        return False
    bounds = [
        Quantity.from_json(valid_range[name])
        for name in ("min", "max", "step")
        if valid_range.get(name) is not None
    ]
    fractional = any(bound.nano % 10**9 for bound in bounds)
    return fractional and all(
        bound.nano % 10**6 == 0 and bound.nano // 10**6 <= _MAX_INT64 for bound in bounds
    )


def _violates(amount: Quantity, policy: CapacityRequestPolicy | None, features: Features) -> bool:
    if not policy:
        return False
    default = policy.get("default")
    if default is not None and amount == Quantity.from_json(default):
        return False
    valid_range = policy.get("validRange")
    if valid_range is not None:
        return _outside(amount, valid_range, features)
    values = policy.get("validValues") or ()
    return bool(values) and all(Quantity.from_json(value) != amount for value in values)


def _outside(amount: Quantity, valid_range: CapacityRequestPolicyRange, features: Features) -> bool:
    largest, step = valid_range.get("max"), valid_range.get("step")
    if largest is not None and amount > Quantity.from_json(largest):
        return True
    if step is None:
        return False
    smallest = Quantity.from_json(valid_range.get("min") or "0")
    if features.exact_capacity_steps and _in_milli(valid_range, features):
        offset, stride = amount.nano - smallest.nano, Quantity.from_json(step).nano
    else:
        offset, stride = amount.value() - smallest.value(), Quantity.from_json(step).value()
    return stride != 0 and offset % stride != 0

"""What a pool's status says about partitions and about devices that several claims share. Pure.

Partitions are counted by type: how many there are, and how many of a type could be allocated now if nothing else were.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from dray.api.quantity import Quantity

if TYPE_CHECKING:
    from dray.api.types.resource import CounterSet, Device, DeviceCounterConsumption, ResourceSliceSpec
    from dray.api.types.resource_v1alpha3 import (
        PartitionTypeStatus,
        ShareableCapacityStatus,
        ShareableSummaryStatus,
    )

_MOST: Final = 32
_TYPE_MISSING: Final = "PartitionTypeMissing:"
_COST_MISMATCH: Final = "PartitionCostMismatch:"

Counters = dict[tuple[str, str], Quantity]  # by counter set and counter


@dataclass(slots=True)
class PoolDevices:
    """The devices of a pool's newest generation, and what of them is in use."""

    devices: list[tuple[Device, str]] = field(
        default_factory=list
    )  # with the attribute that names their type
    counter_sets: list[CounterSet] = field(default_factory=list)
    consumed: dict[str, Quantity] = field(default_factory=dict)  # capacity of shared devices

    def add(self, spec: ResourceSliceSpec) -> None:
        attribute = spec.get("partitionTypeAttribute") or ""
        self.devices += [(device, attribute) for device in spec.get("devices") or ()]
        self.counter_sets += spec.get("sharedCounters") or ()

    def consume(self, amounts: Mapping[str, str]) -> None:
        for name, amount in amounts.items():
            self.consumed[name] = self.consumed.get(name, Quantity()) + Quantity.from_json(amount)


@dataclass(frozen=True, slots=True)
class Summaries:
    partitions: list[PartitionTypeStatus] = field(default_factory=list)
    shareable: ShareableSummaryStatus | None = None
    error: str = ""


def summarize(
    driver: str, name: str, pool: PoolDevices, taken: set[str], *, default_attribute: str
) -> Summaries:
    """``default_attribute``: names the type of partitions in a pool that does not say."""
    declared = any(attribute for _, attribute in pool.devices)
    devices = [
        (device, attribute or ("" if declared else default_attribute)) for device, attribute in pool.devices
    ]
    error = ""
    partitions: list[PartitionTypeStatus] = []
    if any(attribute for _, attribute in devices):
        if not pool.counter_sets:
            error = f"{_TYPE_MISSING} pool {driver}/{name} declares partitionTypeAttribute but publishes no sharedCounters"
        else:
            try:
                partitions = _partitions(driver, name, devices, pool.counter_sets, taken)
            except ValueError as problem:
                error = str(problem)
    return Summaries(partitions, _shareable(pool, taken), error)


def _partitions(
    driver: str,
    name: str,
    devices: Sequence[tuple[Device, str]],
    counter_sets: Iterable[CounterSet],
    taken: set[str],
) -> list[PartitionTypeStatus]:
    groups: dict[tuple[str, str], list[Device]] = {}
    for device, attribute in devices:
        if not device.get("consumesCounters") or not attribute:
            continue
        kind = _type_of(driver, device, attribute)
        if kind is None:
            raise ValueError(
                f'{_TYPE_MISSING} device "{device["name"]}" in pool {driver}/{name} does not carry partition type '
                f'attribute "{attribute}"'
            )
        group = groups.setdefault((attribute, kind), [])
        if group and _cost(group[0]) != _cost(device):
            raise ValueError(
                f'{_COST_MISMATCH} devices of partition type "{kind}" in pool {driver}/{name} consume different counters'
            )
        group.append(device)
    if len(groups) > _MOST:
        raise ValueError(
            f"PartitionSummaryOverCap: pool {driver}/{name} has {len(groups)} partition types, exceeding the maximum "
            f"of {_MOST}"
        )
    free = {
        (one["name"], counter): Quantity.from_json(value["value"])
        for one in counter_sets
        for counter, value in one["counters"].items()
    }
    for device, _ in devices:
        if device["name"] in taken:
            free = _after(device, free)
    return [
        {
            "attribute": attribute,
            "type": kind,
            "total": len(group),
            "allocatable": _allocatable([d for d in group if d["name"] not in taken], free),
        }
        for (attribute, kind), group in sorted(groups.items())
    ]


def _type_of(driver: str, device: Device, attribute: str) -> str | None:
    attributes = device.get("attributes") or {}
    found = attributes.get(attribute) or attributes.get(attribute.removeprefix(f"{driver}/"))
    return found.get("string") if found is not None else None


def _cost(device: Device) -> list[tuple[str, str, str]]:
    return sorted(
        (one["counterSet"], name, str(Quantity.from_json(counter["value"])))
        for one in device.get("consumesCounters") or ()
        for name, counter in one["counters"].items()
    )


def _consumed(listed: Iterable[DeviceCounterConsumption]) -> Iterable[tuple[tuple[str, str], Quantity]]:
    for one in listed:
        for name, counter in one["counters"].items():
            yield (one["counterSet"], name), Quantity.from_json(counter["value"])


def _after(device: Device, free: Counters) -> Counters:
    left = dict(free)
    for key, amount in _consumed(device.get("consumesCounters") or ()):
        if key in left:
            left[key] = left[key] - amount
    return left


def _allocatable(devices: Iterable[Device], free: Counters) -> int:
    count = 0
    for device in devices:
        needs = list(_consumed(device.get("consumesCounters") or ()))
        if all(key in free and free[key] >= amount for key, amount in needs):
            count += 1
            free = _after(device, free)
    return count


def _shareable(pool: PoolDevices, taken: set[str]) -> ShareableSummaryStatus | None:
    shared = [device for device, _ in pool.devices if device.get("allowMultipleAllocations")]
    if not shared:
        return None
    totals: dict[str, Quantity] = {}
    for device in shared:
        for name, capacity in (device.get("capacity") or {}).items():
            amount = Quantity.from_json(capacity["value"])
            totals[name] = totals[name] + amount if name in totals else amount
    listed: list[ShareableCapacityStatus] = []
    for name, total in sorted(totals.items()):
        consumed = pool.consumed.get(name, Quantity())
        left = total - consumed if total > consumed else Quantity()
        listed.append({"name": name, "total": str(total), "consumed": str(consumed), "available": str(left)})
    partly = sum(device["name"] in taken for device in shared)
    return {
        "fullyAvailableDevices": len(shared) - partly,
        "partiallyAvailableDevices": partly,
        "capacity": listed[:_MOST],
    }

"""Which devices and nodes are equivalent for a pod's claims, so that one of them is evaluated for all.

A cluster of thousands of nodes has a handful of different ones. Two nodes are equivalent if their devices, taken as a
whole, agree in everything that selectors, constraints, taints, capacity and counters of these claims can see, and in
what is allocated of them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from dray.allocation import Features, Usage, counters
from dray.allocation.attributes import lookup_attribute
from dray.allocation.devices import Device
from dray.allocation.pools import Pool
from dray.allocation.search.state import Claim
from dray.allocation.selectors import Expression, Fingerprint
from dray.allocation.usage import PoolUsage
from dray.cel import CompileError

if TYPE_CHECKING:
    from dray.api.types.core import Node

_encode = msgspec.json.Encoder().encode


class EquivalentDevices(NamedTuple):
    """One device, and how many devices look the same to some selectors."""

    device: Device
    times: int


class DeviceGroups:
    """Devices grouped by all that expressions see of them."""

    def __init__(self, expressions: Iterable[Expression], features: Features) -> None:
        self._fingerprint = Fingerprint([e.reads for e in expressions], lists=features.list_attributes)
        self._counts: Counter[Hashable] = Counter()
        self._first: dict[Hashable, Device] = {}

    def add(self, device: Device) -> Hashable:
        """Count a device; returns a key that is equal for devices that look the same."""
        key = self._fingerprint(device.id.driver, device.document)
        if key is None:
            key = device.shape
        self._counts[key] += 1
        if key not in self._first:
            self._first[key] = device
        return key

    def groups(self) -> list[EquivalentDevices]:
        return [EquivalentDevices(device, self._counts[key]) for key, device in self._first.items()]


class NodeEquivalence:
    """Equivalence of devices, pools and nodes for some claims."""

    def __init__(self, claims: Sequence[Claim], features: Features) -> None:
        requests = [one for claim in claims for several in claim.demand.requests for one in several]
        self._expressions: tuple[Expression, ...] = tuple(
            dict.fromkeys(selector.expression for request in requests for selector in request.selectors)
        )
        self.groups = DeviceGroups(self._expressions, features)
        self._verdicts: dict[Hashable, tuple[bool | str, ...]] = {}
        self._compared = tuple(
            dict.fromkeys((c.attribute, c.lists) for claim in claims for c in claim.demand.constraints)
        )
        #: derived attributes may come from anything a device has
        self._derived = any(request.derived for request in requests)
        self._classes: dict[Hashable, int] = {}
        self._class_of: dict[Device, int] = {}

    def of(self, node: Node, pools: Sequence[Pool], usage: Usage, *, ordered: bool = False) -> Hashable:
        """Equal for equivalent nodes; with ``ordered``, only if their devices also come in the same order."""
        declared = (node.get("status") or {}).get("declaredFeatures") or ()
        return (*(self.of_pool(pool, usage, node, ordered=ordered) for pool in pools), *declared)

    def of_pool(
        self, pool: Pool, usage: Usage, node: Node | None = None, *, ordered: bool = False
    ) -> Hashable:
        if not pool.usable:
            return (
                pool.id.driver,
                pool.incomplete,
                pool.invalid,
                *map(self._equivalence_class, pool.withheld),
            )
        part = usage.of(pool.id)
        classes: list[Hashable]
        if part.taken or part.shares or part.consumed:
            classes = [self._used(device, part) for device in pool.devices]
        else:
            classes = [self._equivalence_class(device) for device in pool.devices]
        if node is not None and any(device.selection is not None for device in pool.devices):
            metadata = node.get("metadata") or {}
            name, labels = metadata.get("name") or "", metadata.get("labels") or {}
            classes = [
                (number, device.available_on.matches(name, labels))
                for number, device in zip(classes, pool.devices, strict=True)
            ]
        if not ordered:
            classes.sort(key=hash)
        left: Hashable = None
        if pool.counter_sets:
            available = counters.available(pool, usage)
            left = (tuple(available.left.items()), tuple(available.groups.items()))
        return (pool.id.driver, left, *classes)

    def _used(self, device: Device, part: PoolUsage) -> Hashable:
        name, number = device.name, self._equivalence_class(device)
        taken = name in part.taken
        if name not in part.shares and name not in part.consumed:
            return ~number if taken else number
        return (number, taken, name in part.shares, tuple(sorted(part.consumed.get(name, {}).items())))

    def _equivalence_class(self, device: Device) -> int:
        number = self._class_of.get(device)
        if number is None:
            number = self._classes.setdefault(self._seen(device), len(self._classes))
            self._class_of[device] = number
        return number

    def _seen(self, device: Device) -> Hashable:
        document = device.document
        key = self.groups.add(device)
        verdicts = self._verdicts.get(key)
        if verdicts is None:
            verdicts = self._verdicts[key] = tuple(
                evaluate_selector(one, device) for one in self._expressions
            )
        attributes = document.get("attributes") or {}
        return (
            verdicts,
            tuple(
                lookup_attribute(attributes, name, device.id.driver, lists=lists)
                for name, lists in self._compared
            ),
            device.shared,
            _encode((document.get("capacity"), document.get("consumesCounters"), device.binding_conditions)),
            # The time at which a taint was added makes no difference.
            tuple((t.get("key"), t.get("value"), t.get("effect")) for t in device.taints),
            device.shape if self._derived else None,
        )


def evaluate_selector(expression: Expression, device: Device) -> bool | str:
    """Whether a selector matches a device, or the error it ends with."""
    try:
        verdict = device.shape.verdict(expression)
    except CompileError as error:
        return str(error)
    return verdict if isinstance(verdict, bool) else str(verdict)

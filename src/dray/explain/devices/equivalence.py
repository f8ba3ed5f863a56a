"""Which devices and nodes look the same to a pod's claims, so that one of them can answer for all.

A cluster of thousands of nodes has a handful of kinds of them. Two nodes are alike if their devices, taken as a whole,
agree in everything that selectors, constraints, taints, capacity and counters of these claims can see, and in what is
taken of them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from typing import NamedTuple

import msgspec

from dray.allocation import Features, Usage, counters
from dray.allocation.attributes import lookup_attribute
from dray.allocation.devices import Device
from dray.allocation.pools import Pool
from dray.allocation.search.state import Claim
from dray.allocation.selectors import Expression, Fingerprint
from dray.allocation.usage import PoolUsage
from dray.cel import CompileError
from dray.explain.model.snapshot import Document

_encode = msgspec.json.Encoder().encode


class EquivalentDevices(NamedTuple):
    """So many devices that look the same to some selectors, and one of them."""

    device: Device
    times: int


class DeviceGroups:
    """Devices grouped by all that expressions see of them."""

    def __init__(self, expressions: Iterable[Expression], features: Features) -> None:
        self._fingerprint = Fingerprint(expressions, lists=features.list_attributes)
        self._counts: Counter[Hashable] = Counter()
        self._first: dict[Hashable, Device] = {}

    def add(self, device: Device) -> Hashable:
        """Equal for devices that look the same."""
        look = self._fingerprint(device.id.driver, device.document)
        if look is None:
            look = device.shape
        self._counts[look] += 1
        if look not in self._first:
            self._first[look] = device
        return look

    def groups(self) -> list[EquivalentDevices]:
        return [EquivalentDevices(device, self._counts[look]) for look, device in self._first.items()]


class NodeEquivalence:
    """What some claims can tell apart."""

    def __init__(self, claims: Sequence[Claim], features: Features) -> None:
        requests = [one for claim in claims for several in claim.demand.requests for one in several]
        self._expressions: tuple[Expression, ...] = tuple(
            dict.fromkeys(selector.expression for request in requests for selector in request.selectors)
        )
        self.looks = DeviceGroups(self._expressions, features)
        self._verdicts: dict[Hashable, tuple[bool | str, ...]] = {}
        self._compared = tuple(
            dict.fromkeys((c.attribute, c.lists) for claim in claims for c in claim.demand.constraints)
        )
        #: derived attributes may come from anything a device has
        self._derived = any(request.derived for request in requests)
        self._kinds: dict[Hashable, int] = {}
        self._kind_of: dict[Device, int] = {}

    def of(self, node: Document, pools: Sequence[Pool], usage: Usage, *, ordered: bool = False) -> Hashable:
        """Equal for nodes that are alike; with ``ordered``, only if their devices also come in the same order."""
        declared = (node.get("status") or {}).get("declaredFeatures") or ()
        return (*(self.of_pool(pool, usage, node, ordered=ordered) for pool in pools), *declared)

    def of_pool(
        self, pool: Pool, usage: Usage, node: Document | None = None, *, ordered: bool = False
    ) -> Hashable:
        if not pool.usable:
            return (pool.id.driver, pool.incomplete, pool.invalid, *map(self._kind, pool.withheld))
        part = usage.of(pool.id)
        kinds: list[Hashable]
        if part.taken or part.shares or part.consumed:
            kinds = [self._used(device, part) for device in pool.devices]
        else:
            kinds = [self._kind(device) for device in pool.devices]
        if node is not None and any(device.selection is not None for device in pool.devices):
            metadata = node.get("metadata") or {}
            name, labels = metadata.get("name") or "", metadata.get("labels") or {}
            kinds = [
                (kind, device.available_on.matches(name, labels))
                for kind, device in zip(kinds, pool.devices, strict=True)
            ]
        if not ordered:
            kinds.sort(key=hash)
        left: Hashable = None
        if pool.counter_sets:
            available = counters.available(pool, usage)
            left = (tuple(available.left.items()), tuple(available.groups.items()))
        return (pool.id.driver, left, *kinds)

    def _used(self, device: Device, part: PoolUsage) -> Hashable:
        name, kind = device.name, self._kind(device)
        taken = name in part.taken
        if name not in part.shares and name not in part.consumed:
            return ~kind if taken else kind
        return (kind, taken, name in part.shares, tuple(sorted(part.consumed.get(name, {}).items())))

    def _kind(self, device: Device) -> int:
        kind = self._kind_of.get(device)
        if kind is None:
            kind = self._kinds.setdefault(self._seen(device), len(self._kinds))
            self._kind_of[device] = kind
        return kind

    def _seen(self, device: Device) -> Hashable:
        document = device.document
        look = self.looks.add(device)
        verdicts = self._verdicts.get(look)
        if verdicts is None:
            verdicts = self._verdicts[look] = tuple(
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
            # When a taint came is of no importance.
            tuple((t.get("key"), t.get("value"), t.get("effect")) for t in device.taints),
            device.shape if self._derived else None,
        )


def evaluate_selector(expression: Expression, device: Device) -> bool | str:
    """What a selector says to a device: yes, no, or the error it ends with."""
    try:
        verdict = device.shape.verdict(expression)
    except CompileError as error:
        return str(error)
    return verdict if isinstance(verdict, bool) else str(verdict)

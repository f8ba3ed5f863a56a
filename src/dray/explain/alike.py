"""Which nodes look the same to a pod's claims, so that one of them can answer for all.

A cluster of thousands of nodes has a handful of kinds of them. Two nodes are alike if their devices, taken as a whole,
agree in everything that selectors, constraints, taints, capacity and counters of these claims can see, and in what is
taken of them.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import msgspec

from dray.allocation import Usage, counters
from dray.allocation.attributes import look_up
from dray.allocation.devices import Device
from dray.allocation.pools import Pool
from dray.allocation.selectors import Expression
from dray.allocation.state import Claim
from dray.allocation.usage import PoolUsage
from dray.cel import CompileError
from dray.explain.snapshot import Document

_encode = msgspec.json.Encoder().encode
_ALWAYS_SEEN = ("allowMultipleAllocations", "capacity", "consumesCounters", "bindingConditions")


class Likeness:
    """What some claims can tell apart."""

    def __init__(self, claims: Sequence[Claim]) -> None:
        requests = [one for claim in claims for several in claim.demand.requests for one in several]
        self._expressions: tuple[Expression, ...] = tuple(
            dict.fromkeys(selector.expression for request in requests for selector in request.selectors)
        )
        self._compared = tuple(
            dict.fromkeys((c.attribute, c.lists) for claim in claims for c in claim.demand.constraints)
        )
        #: derived attributes may come from anything a device has
        self._derived = any(request.derived for request in requests)
        self._verdicts: dict[Hashable, bool | str] = {}
        self._kinds: dict[Hashable, int] = {}
        self._kind_of: dict[Device, int] = {}

    def of(self, node: Document, pools: Sequence[Pool], usage: Usage, *, ordered: bool = False) -> Hashable:
        """Equal for nodes that are alike; with ``ordered``, only if their devices also come in the same order."""
        declared = (node.get("status") or {}).get("declaredFeatures")
        return (*(self.of_pool(pool, usage, node, ordered=ordered) for pool in pools), *(declared or ()))

    def of_pool(
        self, pool: Pool, usage: Usage, node: Document | None = None, *, ordered: bool = False
    ) -> Hashable:
        part = usage.of(pool.id)
        kinds: list[Hashable]
        if part.taken or part.shares or part.consumed:
            kinds = [self._used(device, part) for device in pool.devices or pool.withheld]
        else:
            kinds = [self._kind(device) for device in pool.devices or pool.withheld]
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
        return (pool.id.driver, pool.incomplete, pool.invalid, left, *kinds)

    def _used(self, device: Device, part: PoolUsage) -> Hashable:
        name = device.name
        if not part.touches(name):
            return self._kind(device)
        consumed = tuple(sorted(part.consumed.get(name, {}).items()))
        return (self._kind(device), name in part.taken, name in part.shares, consumed)

    def _kind(self, device: Device) -> int:
        kind = self._kind_of.get(device)
        if kind is None:
            kind = self._kinds.setdefault(self._look(device), len(self._kinds))
            self._kind_of[device] = kind
        return kind

    def _look(self, device: Device) -> Hashable:
        document, driver = device.document, device.id.driver
        attributes = document.get("attributes") or {}
        seen: list[Hashable] = [self._verdict(one, device) for one in self._expressions]
        seen += [look_up(attributes, name, driver, lists=lists) for name, lists in self._compared]
        seen.append(_encode([document.get(name) for name in _ALWAYS_SEEN]))
        # When a taint came is of no importance.
        seen += [(t.get("key"), t.get("value"), t.get("effect")) for t in device.taints]
        if self._derived:
            seen.append(device.shape)
        return tuple(seen)

    def _verdict(self, expression: Expression, device: Device) -> bool | str:
        glance = expression.glance(device.id.driver, device.document)
        if glance is None:
            return _ask(expression, device)
        key = (expression, glance)
        verdict = self._verdicts.get(key)
        if verdict is None:
            verdict = self._verdicts[key] = _ask(expression, device)
        return verdict


def _ask(expression: Expression, device: Device) -> bool | str:
    try:
        verdict = device.shape.verdict(expression)
    except CompileError as error:
        return str(error)
    return verdict if isinstance(verdict, bool) else str(verdict)

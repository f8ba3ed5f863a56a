"""Evictions from tainted devices in virtual time: the rules are those of the device taint eviction controller.

A NoExecute taint counts from the virtual moment at which its rule or slice is there, whatever time the document has.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from dray.api.times import from_epoch
from dray.controllers.devicetainteviction.eviction import (
    NO_EXECUTE,
    Pool,
    PoolID,
    allocation_results,
    claim_eviction,
)

if TYPE_CHECKING:
    from dray.api.types.resource import (
        Device,
        DeviceRequestAllocationResult,
        DeviceTaint,
        DeviceTaintRule,
        ResourceSlice,
    )
    from dray.simulate.components import Components
    from dray.simulate.pods import Pods


class TaintEviction:
    """Which pods have to leave their devices, and when."""

    def __init__(self, components: Components, pods: Pods) -> None:
        self._clock = components.clock
        self._cluster = components.cluster
        self._pods = pods
        self._pools: dict[PoolID, Pool] = {}  # those that have or had a tainted device
        self._pool_of: dict[str, PoolID] = {}  # by name of the slice
        self._rules: dict[str, DeviceTaintRule] = {}  # those that evict
        #: since when a driver's taint counts; by slice, device and what the taint says
        self._since: dict[tuple[str, str, str, str], str] = {}
        self._due: list[tuple[float, str]] = []  # (when, uid)

    @property
    def next_due(self) -> float | None:
        return self._due[0][0] if self._due else None

    @property
    def active(self) -> bool:
        """Whether there is, or was, a taint that evicts."""
        return bool(self._pools or self._rules)

    # -- taints -------------------------------------------------------------------------------------------------------

    def set_slice(self, one: ResourceSlice) -> None:
        spec, name = one["spec"], one["metadata"]["name"]
        pool_id = PoolID(spec["driver"], spec["pool"]["name"])
        devices = spec.get("devices") or ()
        pool = self._pools.get(pool_id)
        if pool is None:
            if not any(taint["effect"] == NO_EXECUTE for d in devices for taint in d.get("taints") or ()):
                return
            pool = self._pools[pool_id] = Pool()
        self._pool_of[name] = pool_id
        timed = [self._timed(name, device) for device in devices]
        if pool.set({**one, "spec": {**spec, "devices": timed}}):
            self.check_all()

    def _timed(self, slice_name: str, device: Device) -> Device:
        taints = device.get("taints")
        if not taints:
            return device
        now = from_epoch(self._clock.now)
        timed: list[DeviceTaint] = []
        for taint in taints:
            key = (slice_name, device["name"], taint["key"], taint.get("value") or "")
            timed.append({**taint, "timeAdded": self._since.setdefault(key, now)})
        return {**device, "taints": timed}

    def remove_slice(self, name: str) -> None:
        pool_id = self._pool_of.pop(name, None)
        if pool_id is not None:
            self._since = {key: time for key, time in self._since.items() if key[0] != name}
            self._pools[pool_id].remove(name)

    def set_rule(self, rule: DeviceTaintRule) -> None:
        name, spec = rule["metadata"]["name"], rule["spec"]
        if spec["taint"]["effect"] != NO_EXECUTE:
            self._rules.pop(name, None)
            return
        taint: DeviceTaint = {**spec["taint"], "timeAdded": from_epoch(self._clock.now)}
        self._rules[name] = {
            **rule,
            "metadata": {"uid": name, **rule["metadata"]},
            "spec": {**spec, "taint": taint},
        }
        self.check_all()

    def remove_rule(self, name: str) -> None:
        self._rules.pop(name, None)

    # -- pods ---------------------------------------------------------------------------------------------------------

    def bound(self, uid: str) -> None:
        """The pod has got its devices. Some of them may be tainted, and its claims may tolerate that for a time."""
        when = self._when(uid) if self.active else None
        if when is not None:
            heapq.heappush(self._due, (max(when, self._clock.now), uid))

    def would_evict(self, results: Iterable[DeviceRequestAllocationResult]) -> bool:
        """Whether a pod with these devices would have to leave them at once."""
        found = claim_eviction(results, self._pools, self._rules.values())
        return found is not None and found.when <= self._clock.now

    def pop_due(self) -> Iterator[str]:
        """The uids of pods that have to go now."""
        now = self._clock.now
        while self._due and self._due[0][0] <= now:
            _, uid = heapq.heappop(self._due)
            # Meanwhile the taint may be gone, or the pod.
            when = self._when(uid)
            if when is not None and when <= now:
                yield uid

    def check_all(self) -> None:
        """The taints are others: look at every pod that runs."""
        for node in self._cluster:
            for uid in node.pods:
                self.bound(uid)

    def _when(self, uid: str) -> float | None:
        times = [
            found.when
            for claim in self._pods.claims_of(uid)
            if (found := claim_eviction(allocation_results(claim), self._pools, self._rules.values()))
        ]
        return min(times, default=None)

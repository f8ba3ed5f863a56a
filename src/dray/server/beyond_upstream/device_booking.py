"""Device booking: an allocation that takes a device which another claim has to itself is refused.

A scheduler avoids such allocations as far as it can see. Two schedulers, or one that was killed during a write and its
successor, cannot see each other's writes in flight; every write passes through the API server. A scheduler adds the
claim's finalizer before it allocates, as upstream's does; an allocation of a claim without the finalizer is not
checked. An API server that emulates a release leaves all of this to the schedulers, as upstream does.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TYPE_CHECKING, Final

from dray.api import claims, errors
from dray.api.identity import DeviceID
from dray.server.storage.watchcache import Change, WatchCache

if TYPE_CHECKING:
    from dray.api.types.resource import AllocationResult, ResourceClaim


_NOTHING_RESERVED: Final = nullcontext()


class DeviceBookings:
    """Which claim has which device. Read off the stored claims, and off those that are being written right now."""

    def __init__(self, stored: WatchCache) -> None:
        self._holders: dict[DeviceID, str] = {}  # device → key of the claim that has it
        self._reserved: dict[DeviceID, str] = {}
        for document in stored.documents.values():
            self._count(document.key, frozenset(), exclusive_devices(_allocation(document.hub)))
        stored.subscribe(self._changed)

    def begin_write(self, new: ResourceClaim, old: ResourceClaim | None) -> AbstractContextManager[None]:
        """Refuse devices that another claim has; reserve the others for ``new`` until the block ends."""
        allocation = _allocation(new)
        if not allocation or (old is not None and _allocation(old) == allocation):
            return _NOTHING_RESERVED
        metadata = new["metadata"]
        if claims.FINALIZER not in (metadata.get("finalizers") or ()):
            return _NOTHING_RESERVED
        key = f"{metadata.get('namespace', '')}/{metadata.get('name', '')}"
        wanted = exclusive_devices(allocation)
        for device in wanted:
            holder = self._holders.get(device) or self._reserved.get(device)
            if holder is not None and holder != key:
                problem = f"device {device} is allocated to claim {holder}"
                raise errors.conflict("resourceclaims", "resource.k8s.io", metadata.get("name", ""), problem)
        return self._reserve(wanted, key)

    @contextmanager
    def _reserve(self, wanted: frozenset[DeviceID], key: str) -> Iterator[None]:
        mine = {device: key for device in wanted if device not in self._reserved}
        self._reserved |= mine
        try:
            yield
        finally:
            for device in mine:
                del self._reserved[device]

    def _changed(self, change: Change) -> None:
        was: ResourceClaim = change.before.hub if change.before is not None else {}
        now: ResourceClaim = change.after.hub if change.after is not None else {}
        allocated_before, allocated = _allocation(was), _allocation(now)
        if allocated_before is allocated:
            return
        before, after = exclusive_devices(allocated_before), exclusive_devices(allocated)
        if before or after:
            document = change.after or change.before
            assert document is not None
            self._count(document.key, before, after)

    def _count(self, key: str, before: frozenset[DeviceID], after: frozenset[DeviceID]) -> None:
        for device in before - after:
            if self._holders.get(device) == key:
                del self._holders[device]
        for device in after - before:
            self._holders[device] = key


def exclusive_devices(allocation: AllocationResult | None) -> frozenset[DeviceID]:
    """The devices that are allocated to one claim alone: neither shares of devices nor those it may only look at."""
    if not allocation:
        return frozenset()
    results = (allocation.get("devices") or {}).get("results") or ()
    return frozenset(
        DeviceID(r["driver"], r["pool"], r["device"])
        for r in results
        if r.get("shareID") is None and not r.get("adminAccess")
    )


def _allocation(claim: ResourceClaim) -> AllocationResult | None:
    return (claim.get("status") or {}).get("allocation")

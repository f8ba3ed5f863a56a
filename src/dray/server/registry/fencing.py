"""Fencing: a write of a component that no longer leads is refused.

A leader that was stopped for a while goes on with what it had in hand before it learns that another one leads. It says
with each write by which Lease it leads. The store has a record of each change of a Lease's holder, written in the
transaction of that change, and a fenced write is conditional on that record: a server that has not heard of the new leader
yet is no way round it. Renewals of a Lease leave the record alone. Upstream has no such thing, and other API servers
ignore the header.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from dray.api import errors
from dray.server.registry.resources import Resources
from dray.server.storage.keycache import KeyCache
from dray.server.storage.watchcache import WatchCache
from dray.store.interface import KeyValue, Operation, Put, Store, Unchanged

if TYPE_CHECKING:
    from dray.api.types.coordination import Lease

PREFIX: Final = "/dray/leaders/"
#: ``NAMESPACE/NAME=IDENTITY``: the Lease by which the caller leads, and as whom.
HEADER: Final = "dray-leader"
#: Each node has a lease that never changes hands.
_NODE_LEASES: Final = "kube-node-lease/"


class Leaders:
    """Writes the records, and makes the conditions of fenced writes."""

    def __init__(self, leases: WatchCache, store: Store) -> None:
        self._leases = leases
        self._store = store
        self._records = KeyCache(store, PREFIX)

    def operations(
        self, key: str, old: Lease | None, new: Lease | None, *, fresh: bool
    ) -> Sequence[Operation]:
        """A Lease that gets another holder, or goes, has its record changed."""
        if old is None or key.startswith(_NODE_LEASES):
            return ()
        if new is not None and _holder(new) == _holder(old):
            return ()
        at = PREFIX + key
        return (Put(at, _holder(new).encode(), self._records.revision(at)),)

    def learn(self, key: str, current: KeyValue | None) -> None:
        self._records.learn(key, current)

    async def condition(self, claimed: str) -> Unchanged:
        """What must hold for a write of somebody who leads by ``claimed``, the header's value.

        Lease and record are read at the same moment from caches of one feed, so the record is that of this holder.
        """
        lease, _, identity = claimed.partition("=")
        document = self._leases.get(lease)
        if document is None or _holder(document.hub) != identity:
            await self._store.wait_until_fresh()  # it may lead since a moment ago
            document = self._leases.get(lease)
            if document is None or _holder(document.hub) != identity:
                raise lost(claimed)
        return Unchanged(PREFIX + lease, self._records.revision(PREFIX + lease))

    async def install(self, resources: Resources) -> None:
        await self._records.load()
        resources.closers.append(self._records.close)


def lost(claimed: str) -> errors.StatusError:
    lease, _, identity = claimed.partition("=")
    return errors.conflict("leases", "coordination.k8s.io", lease, f"{identity} no longer leads")


def _holder(lease: Lease | None) -> str:
    return ((lease or {}).get("spec") or {}).get("holderIdentity") or ""


async def install(resources: Resources, store: Store) -> Leaders | None:
    """Keep records of who leads; None where there are no Leases."""
    leases = resources.resource("coordination.k8s.io", "leases")
    if leases is None:
        return None
    leaders = Leaders(leases.cache, store)
    await leaders.install(resources)
    leases.companions = leaders
    return leaders

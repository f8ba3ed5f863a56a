"""Leases for keys that expire. Many keys share one, as a lease a key would cost etcd more than the keys themselves."""

from __future__ import annotations

import math
import time
from typing import Final, NamedTuple

from dray.store.etcd_api import rpc_pb2 as rpc
from dray.store.etcd_api.connection import Connection

#: A lease takes keys for this part of their time to live, at most a minute; they live that much longer at worst.
REUSE_PART: Final = 0.05
REUSE_SECONDS: Final = 60.0
REUSE_KEYS: Final = 1000


class _Lease(NamedTuple):
    id: int
    ends: float
    keys: int


class LeaseManager:
    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._current: dict[float, _Lease] = {}

    async def get(self, ttl: float) -> int:
        """A lease that lasts at least ``ttl`` seconds from now."""
        lease = self._current.get(ttl)
        now = time.monotonic()
        if lease is None or lease.keys >= REUSE_KEYS or now + ttl > lease.ends:
            lasts = math.ceil(ttl + min(ttl * REUSE_PART, REUSE_SECONDS))
            granted = await self._connection.grant_lease(rpc.LeaseGrantRequest(TTL=lasts))
            lease = _Lease(granted.ID, now + lasts, 0)
        self._current[ttl] = lease._replace(keys=lease.keys + 1)
        return lease.id

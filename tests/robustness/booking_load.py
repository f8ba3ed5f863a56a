"""Clients that allocate devices without asking anybody, as schedulers do that know nothing of each other.

Of the schedulers of a run one leads, so by themselves they seldom want the same device. These want any device of a few at
random, whole ones, shares and partitions, and the API servers have to refuse what is taken.
"""

from __future__ import annotations

import asyncio
import random
import uuid
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from dray.api.claims import FINALIZER

from .load import Client

CLAIMS = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims"
_MERGE = "application/merge-patch+json"
#: How many devices a claim is tried on.
_TRIES = 5


@dataclass
class BookingLoad:
    connect: Callable[[random.Random], Client]
    driver: str
    pools: Sequence[str]
    devices: Sequence[str]
    shared: str  # the one of the devices that has shares
    outcomes: Counter[str] = field(default_factory=Counter)

    async def book(self, name: str, rng: random.Random) -> None:
        """One claim after the other: it gets a device if one is free, gives it back or is deleted with it, and goes."""
        client = self.connect(rng)
        for life in range(10**9):
            path = f"{CLAIMS}/{name}-{life}"
            requests = [{"name": "r", "exactly": {"deviceClassName": "gpu"}}]
            body = {
                "metadata": {"name": f"{name}-{life}", "finalizers": [FINALIZER]},
                "spec": {"devices": {"requests": requests}},
            }
            await client.insist("POST", CLAIMS, body)
            for _ in range(_TRIES):
                if await self._allocate(client, path, rng) != 409:
                    break
            await asyncio.sleep(rng.uniform(0, 0.4))
            if rng.random() < 0.7:
                freed = {"status": {"allocation": None}}
                await client.insist("PATCH", f"{path}/status", freed, content=_MERGE)
            await client.insist("PATCH", path, {"metadata": {"finalizers": None}}, content=_MERGE)
            await client.insist("DELETE", path)

    async def _allocate(self, client: Client, path: str, rng: random.Random) -> int:
        device = rng.choice(self.devices)
        result: dict[str, Any] = {
            "request": "r", "driver": self.driver, "pool": rng.choice(self.pools), "device": device,
        }  # fmt: skip
        if device == self.shared:
            share = str(uuid.UUID(int=rng.getrandbits(128), version=4))
            result |= {"shareID": share, "consumedCapacity": {"memory": "3Gi"}}
        body = {"status": {"allocation": {"devices": {"results": [result]}}}}
        status, _ = await client.request("PATCH", f"{path}/status", body, content=_MERGE)
        self.outcomes[{200: "taken", 409: "refused"}.get(status, "unknown")] += 1
        return status

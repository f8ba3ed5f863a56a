"""What no revision of any claim may show: a device in two allocations that both have it to themselves."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from dray.api.errors import Expired, ServiceUnavailable
from dray.client.client import Client
from dray.client.resources import RESOURCE_CLAIMS

Document = Mapping[str, Any]


class Device(NamedTuple):
    driver: str
    pool: str
    device: str


@dataclass
class History:
    """Follows the claims from the first revision on, and never passes over one."""

    violations: list[str] = field(default_factory=list)
    events: int = 0
    allocations: int = 0
    _held: dict[str, set[Device]] = field(default_factory=dict)  # claim uid → its devices
    _holder: dict[Device, tuple[str, str]] = field(default_factory=dict)  # device → claim uid and name

    async def follow(self, client: Client, version: str) -> None:
        """Watch from ``version`` until cancelled. A gap would prove nothing, so it is a violation too."""
        while True:
            try:
                async with client.watch(RESOURCE_CLAIMS, resource_version=version) as stream:
                    async for batch in stream:
                        for event in batch:
                            version = event.object["metadata"]["resourceVersion"]
                            if event.type != "BOOKMARK":
                                self.record(event.type, event.object)
            except ServiceUnavailable:
                await asyncio.sleep(0.5)  # and on from the same revision
            except Expired as gap:
                self.violations.append(f"the history has a gap after revision {version}: {gap}")
                return

    def record(self, kind: str, claim: Document) -> None:
        self.events += 1
        metadata = claim["metadata"]
        uid, name = metadata["uid"], f"{metadata['namespace']}/{metadata['name']}"
        now = set() if kind == "DELETED" else exclusive(claim)
        before = self._held.get(uid, set())
        for device in before - now:
            if self._holder.get(device, ("", ""))[0] == uid:
                del self._holder[device]
        for device in now - before:
            self.allocations += 1
            other = self._holder.get(device)
            if other is not None:
                self.violations.append(
                    f"{'/'.join(device)} was given to {name} at revision {metadata['resourceVersion']} "
                    f"while {other[1]} had it"
                )
            self._holder[device] = (uid, name)
        if now:
            self._held[uid] = now
        else:
            self._held.pop(uid, None)

    @property
    def held(self) -> int:
        """How many devices are in use now."""
        return len(self._holder)


def exclusive(claim: Document) -> set[Device]:
    """The devices that a claim has to itself."""
    results = (((claim.get("status") or {}).get("allocation") or {}).get("devices") or {}).get(
        "results"
    ) or ()
    return {
        Device(r["driver"], r["pool"], r["device"])
        for r in results
        if not r.get("adminAccess") and not r.get("shareID")
    }

"""What no revision may show: a device, a share or a counter that is given away more often than there is of it."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from dray.api.quantity import Quantity
from tests.chaos.history import Device, History, exclusive

Document = Mapping[str, Any]


class Amount(NamedTuple):
    """One capacity of a device, or one counter of a counter set."""

    owner: tuple[str, ...]
    name: str


class Bookings:
    """Follows the claims revision by revision, beside slices that stay as they are."""

    def __init__(self, slices: Iterable[Document]) -> None:
        self._devices = History()
        self._limits: dict[Amount, int] = {}
        self._counters: dict[
            Device, Counter[Amount]
        ] = {}  # device → what it takes of counters while it is in use
        self._users: defaultdict[Device, set[str]] = defaultdict(
            set
        )  # device → uids of claims that have a part of it
        self._spent: Counter[Amount] = Counter()
        self._claims: dict[str, tuple[Counter[Amount], set[Device]]] = {}
        self._violations: list[str] = []
        for each in slices:
            self._furnish(each["spec"])

    def _furnish(self, spec: Document) -> None:
        for counter_set in spec.get("sharedCounters") or ():
            owner = (spec["driver"], spec["pool"]["name"], counter_set["name"])
            for name, counter in counter_set["counters"].items():
                self._limits[Amount(owner, name)] = Quantity.parse(counter["value"]).nano
        for each in spec.get("devices") or ():
            device = Device(spec["driver"], spec["pool"]["name"], each["name"])
            for name, capacity in (each.get("capacity") or {}).items():
                self._limits[Amount(device, name)] = Quantity.parse(capacity["value"]).nano
            taken = self._counters[device] = Counter()
            for consumption in each.get("consumesCounters") or ():
                owner = (spec["driver"], spec["pool"]["name"], consumption["counterSet"])
                for name, counter in consumption["counters"].items():
                    taken[Amount(owner, name)] += Quantity.parse(counter["value"]).nano

    @property
    def violations(self) -> list[str]:
        return self._devices.violations + self._violations

    def record(self, kind: str, claim: Document) -> None:
        """One event of a watch on claims."""
        self._devices.record(kind, claim)
        metadata = claim["metadata"]
        where = f"by {metadata['namespace']}/{metadata['name']} at revision {metadata['resourceVersion']}"
        shares, devices = (Counter[Amount](), set[Device]()) if kind == "DELETED" else _taken(claim)
        old_shares, old_devices = self._claims.pop(metadata["uid"], (Counter(), set()))
        self._spent.subtract(old_shares)
        for device in old_devices - devices:
            self._users[device].discard(metadata["uid"])
            if not self._users[device]:
                self._spent.subtract(self._counters.get(device, Counter()))
        self._spent.update(shares)
        touched = set(shares)
        for device in devices - old_devices:
            if not self._users[device]:
                self._spent.update(self._counters.get(device, Counter()))
                touched |= self._counters.get(device, Counter()).keys()
            self._users[device].add(metadata["uid"])
        if devices:
            self._claims[metadata["uid"]] = shares, devices
        for amount in sorted(touched):
            if amount in self._limits and self._spent[amount] > self._limits[amount]:
                self._violations.append(f"{'/'.join((*amount.owner, amount.name))} was overdrawn {where}")
        for device in sorted(devices - old_devices):
            if device in exclusive(claim) and len(self._users[device]) > 1 and kind != "DELETED":
                self._violations.append(
                    f"{'/'.join(device)} was given whole while shares of it were in use, {where}"
                )


def _taken(claim: Document) -> tuple[Counter[Amount], set[Device]]:
    """The capacity that a claim has of shared devices, and all devices that it has anything of."""
    shares, devices = Counter[Amount](), set[Device]()
    allocation = (claim.get("status") or {}).get("allocation") or {}
    for result in (allocation.get("devices") or {}).get("results") or ():
        if result.get("adminAccess"):
            continue
        device = Device(result["driver"], result["pool"], result["device"])
        devices.add(device)
        for name, quantity in (result.get("consumedCapacity") or {}).items():
            shares[Amount(device, name)] += Quantity.parse(quantity).nano
    return shares, devices

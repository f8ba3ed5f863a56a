"""Allocators of cluster addresses and node ports for services.

An address or port is taken if a stored service has it, or if it is reserved for a service that is being written, so
that two concurrent requests never get the same. Several API servers on one store do not see each other's
reservations; there a record of each address and port is written in the transaction of the service that gets it.
"""

from __future__ import annotations

import ipaddress
import random
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from dray.api import errors
from dray.api.validation import field
from dray.api.validation.field import FieldError, Path
from dray.server.registry.resources import Resources
from dray.server.storage.keycache import KeyCache
from dray.server.storage.watchcache import WatchCache
from dray.store.interface import Delete, KeyValue, Operation, Put, Store

if TYPE_CHECKING:
    from dray.api.types.core import Service, ServiceSpec
    from dray.api.types.meta import ObjectMeta

PREFIX: Final = "/dray/services/"
SERVICE_CLUSTER_IP_RANGE: Final = ipaddress.IPv4Network("10.96.0.0/16")
#: The first address belongs to the ``kubernetes`` service.
KUBERNETES_SERVICE_IP: Final = str(SERVICE_CLUSTER_IP_RANGE[1])
SERVICE_NODE_PORT_RANGE: Final = range(30000, 32768)
_WITH_PORTS: Final = ("NodePort", "LoadBalancer")
_SPEC: Final = Path("spec")


async def install(resources: Resources, store: Store) -> None:
    """Let every write of a service allocate its addresses and ports."""
    services = resources.resource("", "services")
    if services is None:
        return
    services.begin_write = ServiceAllocators(services.cache).begin_write
    if store.shared:
        records = KeyCache(store, PREFIX)
        await records.load()
        resources.closers.append(records.close)
        services.companions = ServiceRecords(services.cache, records, store)


class ServiceRecords:
    """Which service got an address or port last. A record counts as long as that service has what it says."""

    def __init__(self, services: WatchCache, records: KeyCache, store: Store) -> None:
        self._services = services
        self._records = records
        self._store = store

    def operations(
        self, key: str, old: Service | None, new: Service | None, *, fresh: bool
    ) -> list[Operation]:
        before, after = _taken_by(old), _taken_by(new)
        operations: list[Operation] = []
        for what in sorted(after - before):
            at = f"{PREFIX}{what}"
            record = self._records.get(at)
            if record is not None and record.value.decode() != key and self._counts(record, what):
                name = key.rpartition("/")[2]
                problem = f"{what} was allocated to service {record.value.decode()} at the same time; please try again"
                raise errors.conflict("services", "", name, problem)
            operations.append(Put(at, key.encode(), 0 if record is None else record.mod_revision))
        for what in sorted(before - after):
            record = self._records.get(f"{PREFIX}{what}")
            if record is not None and record.value.decode() == key:
                operations.append(Delete(record.key, record.mod_revision))
        return operations

    def _counts(self, record: KeyValue, what: str) -> bool:
        if record.mod_revision > self._store.revision:
            return True  # its service has yet to arrive in the cache
        holder = self._services.get(record.value.decode())
        return holder is not None and what in _taken_by(holder.hub)

    def learn(self, key: str, current: KeyValue | None) -> None:
        self._records.learn(key, current)


def _taken_by(service: Service | None) -> set[str]:
    """Addresses and ports that belong to one service alone."""
    if service is None:
        return set()
    spec: ServiceSpec = service.get("spec") or {}
    addresses = {address for address in spec.get("clusterIPs") or () if address != "None"}
    return addresses | {str(port["nodePort"]) for port in spec.get("ports") or () if port.get("nodePort")}


class ServiceAllocators:
    """Fills in what a service leaves to the server, and refuses what another one has."""

    def __init__(self, services: WatchCache) -> None:
        self._services = services
        self._reserved: set[str | int] = set()

    @contextmanager
    def begin_write(self, new: Service, old: Service | None) -> Iterator[None]:
        """Give ``new`` its addresses and ports, and reserve them until the block ends."""
        mine: set[str | int] = set()
        problems = self._assign(new, mine)
        if problems:
            raise errors.invalid("Service", "", new["metadata"].get("name", ""), problems)
        self._reserved |= mine
        try:
            yield
        finally:
            self._reserved -= mine

    def _assign(self, new: Service, mine: set[str | int]) -> list[FieldError]:
        spec = new["spec"]
        if spec.get("type") == "ExternalName":
            return []
        taken = self._taken(new["metadata"])
        problems = self._address(spec, taken, mine)
        if spec.get("type") in _WITH_PORTS and spec.get("allocateLoadBalancerNodePorts", True):
            problems += self._ports(spec, taken, mine)
        return problems

    def _taken(self, meta: ObjectMeta) -> set[str | int]:
        own = f"{meta.get('namespace', '')}/{meta.get('name', '')}"
        taken: set[str | int] = set(self._reserved)
        for document in self._services:
            if document.key == own:
                continue
            service: Service = document.hub
            spec = service.get("spec", {})
            taken.update(spec.get("clusterIPs") or ())
            taken.update(p["nodePort"] for p in spec.get("ports") or () if p.get("nodePort"))
        return taken

    def _address(self, spec: ServiceSpec, taken: set[str | int], mine: set[str | int]) -> list[FieldError]:
        address = spec.get("clusterIP") or ""
        if not address:
            address = self._free_address(taken)
            if not address:
                words = "failed to allocate a serviceIP: range is full"
                return [field.internal(_SPEC.child("clusterIPs"), words)]
            spec["clusterIP"] = address
            spec["clusterIPs"] = [address]
        elif address != "None" and address in taken:
            words = f"failed to allocate IP {address}: provided IP is already allocated"
            return [field.invalid(_SPEC.child("clusterIPs"), spec.get("clusterIPs") or [address], words)]
        if address != "None":
            mine.add(address)
        spec.setdefault("ipFamilies", ["IPv6" if ":" in address else "IPv4"])
        spec.setdefault("ipFamilyPolicy", "SingleStack")
        return []

    def _free_address(self, taken: set[str | int]) -> str:
        # Random, as upstream does it, so that an address is not used again the moment it is free.
        last = SERVICE_CLUSTER_IP_RANGE.num_addresses - 2
        for _ in range(64):
            address = str(SERVICE_CLUSTER_IP_RANGE[random.randint(2, last)])
            if address not in taken:
                return address
        return next(
            (
                a
                for a in map(str, SERVICE_CLUSTER_IP_RANGE.hosts())
                if a != KUBERNETES_SERVICE_IP and a not in taken
            ),
            "",
        )

    def _ports(self, spec: ServiceSpec, taken: set[str | int], mine: set[str | int]) -> list[FieldError]:
        problems = []
        for i, port in enumerate(spec.get("ports") or ()):
            path = _SPEC.child("ports").index(i).child("nodePort")
            wanted = port.get("nodePort")
            if wanted:
                if wanted not in SERVICE_NODE_PORT_RANGE:
                    words = "provided port is not in the valid range. The range of valid ports is 30000-32767"
                    problems.append(field.invalid(path, wanted, words))
                elif wanted in taken:
                    problems.append(field.invalid(path, wanted, "provided port is already allocated"))
                else:
                    mine.add(wanted)
                continue
            free = [p for p in SERVICE_NODE_PORT_RANGE if p not in taken and p not in mine]
            if not free:
                problems.append(field.internal(path, "failed to allocate a nodePort: range is full"))
                continue
            port["nodePort"] = random.choice(free)
            mine.add(port["nodePort"])
        return problems

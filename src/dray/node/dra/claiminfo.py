"""What the node remembers about claims: which pods use them, whether they are prepared, and which devices came of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from dray.api.claims import base_request
from dray.api.identity import PoolDevice
from dray.node.dra.classic.handles import ResourceHandle

if TYPE_CHECKING:
    from dray.node.dra.checkpoint import Checkpoint


@dataclass(frozen=True, kw_only=True, slots=True)
class PreparedDevice:
    """A prepared device, as its driver described it. No requests means: all of them."""

    pool: str
    name: str
    requests: tuple[str, ...] = ()
    cdi_ids: tuple[str, ...] = ()
    share: str | None = None

    @property
    def id(self) -> PoolDevice:
        return PoolDevice(self.pool, self.name)


@dataclass(frozen=True, kw_only=True, slots=True)
class ClaimInfo:
    namespace: str
    name: str
    uid: str
    pods: frozenset[str] = frozenset()
    drivers: Mapping[str, tuple[PreparedDevice, ...]] = field(default_factory=dict)
    prepared: bool = False
    handles: tuple[
        ResourceHandle, ...
    ] = ()  # of classic claims: their drivers are told again when they unprepare
    class_name: str = ""  # of classic claims
    skips: Mapping[str, frozenset[str]] = field(default_factory=dict)  # calls that a driver does not get

    def drivers_to_call(self, operation: str) -> list[str]:
        return [driver for driver in self.drivers if operation not in self.skips.get(driver, ())]

    def with_pod(self, uid: str) -> ClaimInfo:
        return replace(self, pods=self.pods | {uid})

    def without_pod(self, uid: str) -> ClaimInfo:
        return replace(self, pods=self.pods - {uid})

    def with_devices(self, driver: str, devices: Iterable[PreparedDevice]) -> ClaimInfo:
        return replace(self, drivers={**self.drivers, driver: tuple(devices)})

    def devices_for(self, request: str) -> list[tuple[str, PreparedDevice]]:
        """The devices that serve a request, with their drivers; an empty request stands for all."""
        base = base_request(request)
        return [
            (driver, device)
            for driver, devices in self.drivers.items()
            for device in devices
            if not request or not device.requests or base in device.requests
        ]


class ClaimInfoCache:
    """The claims in use on this node, in memory and on disk."""

    def __init__(self, checkpoint: Checkpoint | None) -> None:
        self._checkpoint = checkpoint
        known = checkpoint.read() if checkpoint else ()
        self._claims = {(c.namespace, c.name): c for c in known}
        if checkpoint and not checkpoint.path.exists():
            self.save()

    def get(self, namespace: str, name: str) -> ClaimInfo | None:
        return self._claims.get((namespace, name))

    def put(self, info: ClaimInfo) -> None:
        self._claims[info.namespace, info.name] = info

    def remove(self, namespace: str, name: str) -> None:
        self._claims.pop((namespace, name), None)

    def all(self) -> list[ClaimInfo]:
        return list(self._claims.values())

    def used_by(self, pod_uid: str) -> list[ClaimInfo]:
        return [c for c in self._claims.values() if pod_uid in c.pods]

    def save(self, *, wait: bool = True) -> None:
        """To disk. What counts only until the machine is started anew need not ``wait`` for the disk."""
        if self._checkpoint:
            self._checkpoint.write(self._claims.values(), wait=wait)

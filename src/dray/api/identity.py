"""Names of things: an object, a pool, a device in it, a share of a device."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from dray.api.types import Object
    from dray.api.types.resource import AllocatedDeviceStatus, DeviceRequestAllocationResult, ResourceClaim


class ObjectKey(NamedTuple):
    """Which object of a resource. Cluster-scoped objects have an empty namespace."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}" if self.namespace else self.name


def object_key(obj: Object) -> ObjectKey:
    """The key of an object that may come from a manifest, and so lack what the server fills in."""
    metadata = obj.get("metadata") or {}
    return ObjectKey(metadata.get("namespace") or "", metadata.get("name") or "")


class PoolID(NamedTuple):
    driver: str
    pool: str

    def __str__(self) -> str:
        return f"{self.driver}/{self.pool}"


class DeviceID(NamedTuple):
    driver: str
    pool: str
    device: str

    def __str__(self) -> str:
        return f"{self.driver}/{self.pool}/{self.device}"

    @property
    def pool_id(self) -> PoolID:
        return PoolID(self.driver, self.pool)


class PoolDevice(NamedTuple):
    """A device among those of one driver."""

    pool: str
    device: str


class SharedDeviceID(NamedTuple):
    """A device, or one claim's share of it."""

    driver: str
    pool: str
    device: str
    share_id: str  # empty: the whole device


def device_id(result: DeviceRequestAllocationResult) -> DeviceID:
    return DeviceID(result["driver"], result["pool"], result["device"])


def shared_device_id(entry: DeviceRequestAllocationResult | AllocatedDeviceStatus) -> SharedDeviceID:
    """The device, or the share of it, that an allocation result or a device status is about."""
    return SharedDeviceID(
        entry.get("driver", ""), entry.get("pool", ""), entry.get("device", ""), entry.get("shareID") or ""
    )


def object_name(obj: ResourceClaim) -> str:
    """``namespace/name``, or the name alone for what has no namespace."""
    metadata = obj.get("metadata") or {}
    name = metadata.get("name") or ""
    namespace = metadata.get("namespace")
    return f"{namespace}/{name}" if namespace else name

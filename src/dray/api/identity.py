"""Names of things: a pool, a device in it, a share of a device."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from dray.api.types.resource import AllocatedDeviceStatus, DeviceRequestAllocationResult

Document = Mapping[str, Any]


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


def object_name(document: Document) -> str:
    """``namespace/name``, or the name alone for what has no namespace."""
    metadata = document.get("metadata") or {}
    name: str = metadata.get("name") or ""
    namespace = metadata.get("namespace")
    return f"{namespace}/{name}" if namespace else name

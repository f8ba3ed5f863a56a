"""The claims and slices of a cluster in v1's form, whatever version the server has."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

from dray.client.client import Client
from dray.client.discovery import Discovery
from dray.client.informers import Informer
from dray.client.resources import NODES, RESOURCE_CLAIMS, RESOURCE_SLICES
from dray.driver.model import ClaimRef

if TYPE_CHECKING:
    from dray.api.types.resource import AllocatedDeviceStatus, Device, ResourceClaim, ResourceSlice
    from dray.api.types.resource_v1beta1 import BasicDevice
    from dray.api.types.resource_v1beta1 import Device as FlatDevice

log = logging.getLogger(__name__)

T = TypeVar("T")

#: Seconds between two looks for an API that is not served yet.
_LOOK_SECONDS: Final = 5.0
#: Versions with structured parameters, the preferred one first.
VERSIONS = ("v1", "v1beta2", "v1beta1", "v1alpha3")
#: Versions in which requests are flat and a device's properties stand below ``basic``.
FLAT_VERSIONS = ("v1beta1", "v1alpha3")
_PLAIN_CAPACITY = "v1alpha3"  # quantities, where later versions have objects with a ``value``


class NoResourceApi(Exception):
    """The server does not serve what a driver needs."""


async def wait_for_api(driver: str, connect: Callable[[], Awaitable[T]]) -> T:
    """What ``connect`` returns once the server serves what the driver needs; the log says that the driver waits."""
    said = False
    while True:
        try:
            return await connect()
        except NoResourceApi as problem:
            if not said:
                log.warning("%s waits for its API: %s", driver, problem)
                said = True
        await asyncio.sleep(_LOOK_SECONDS)


class ResourceApi:
    """Claims and slices for a driver. Slices go in and out in v1's form; claims have the same status everywhere."""

    def __init__(self, client: Client, version: str) -> None:
        self.client = client
        self.version = version
        self._claims = RESOURCE_CLAIMS.at(version)
        self._slices = RESOURCE_SLICES.at(version)

    @classmethod
    async def connect(cls, client: Client) -> ResourceApi:
        served = await Discovery(client).first_served(RESOURCE_SLICES, VERSIONS)
        if served is None:
            raise NoResourceApi(
                f"the server has {RESOURCE_SLICES} in none of the versions {', '.join(VERSIONS)}; "
                "DynamicResourceAllocation or these versions are switched off"
            )
        return cls(client, served.version)

    async def claim(self, namespace: str, name: str) -> ResourceClaim:
        return await self.client.get(self._claims, namespace, name)

    async def node_uid(self, name: str) -> str:
        node = await self.client.get(NODES, "", name)
        return node["metadata"]["uid"]

    async def set_device_status(
        self, ref: ClaimRef, devices: Sequence[AllocatedDeviceStatus], *, manager: str
    ) -> None:
        """Says what is known about devices of a claim, by server-side apply: other drivers' entries stay."""
        body: ResourceClaim = {
            "metadata": {"name": ref.name, "uid": ref.uid},
            "status": {"devices": devices},
        }
        await self.client.apply(
            self._claims,
            ref.namespace,
            body,
            field_manager=manager,
            force=True,
            subresource="status",
        )

    def slice_informer(self, driver: str, node: str) -> Informer[ResourceSlice]:
        """The driver's slices; those of one node if one is given."""
        selector = f"spec.driver={driver},spec.nodeName={node}" if node else f"spec.driver={driver}"
        return Informer(self.client, self._slices, field_selector=selector)

    async def create_slice(self, document: ResourceSlice) -> ResourceSlice:
        return self.read(await self.client.create(self._slices, "", self._write(document)))

    async def update_slice(self, document: ResourceSlice) -> ResourceSlice:
        return self.read(await self.client.update(self._slices, "", self._write(document)))

    async def delete_slice(self, document: ResourceSlice) -> None:
        metadata = document["metadata"]
        await self.client.delete(
            self._slices,
            "",
            metadata["name"],
            uid=metadata["uid"],
            resource_version=metadata["resourceVersion"],
        )

    @property
    def flat(self) -> bool:
        """Whether the server has requests and devices in the form before v1beta2."""
        return self.version in FLAT_VERSIONS

    def read(self, document: ResourceSlice) -> ResourceSlice:
        """A slice as the server has it, in v1's form."""
        spec = document["spec"]
        if not self.flat or not spec.get("devices"):
            return document
        devices = [self._read_device(device) for device in cast("Sequence[FlatDevice]", spec["devices"])]
        return {**document, "spec": {**spec, "devices": devices}}

    def _read_device(self, device: FlatDevice) -> Device:
        read: Device = {**cast("Device", device.get("basic") or {}), "name": device["name"]}
        if self.version == _PLAIN_CAPACITY and (plain := cast("Mapping[str, str]", read.get("capacity"))):
            read["capacity"] = {name: {"value": value} for name, value in plain.items()}
        return read

    def _write(self, document: ResourceSlice) -> ResourceSlice:
        kept = {k: v for k, v in document.items() if k not in ("apiVersion", "kind")}
        document = cast("ResourceSlice", kept)
        spec = document["spec"]
        if not self.flat or not spec.get("devices"):
            return document
        devices = cast("Sequence[Device]", [self._write_device(device) for device in spec["devices"]])
        return {**document, "spec": {**spec, "devices": devices}}

    def _write_device(self, device: Device) -> FlatDevice:
        basic = cast("BasicDevice", {k: v for k, v in device.items() if k != "name"})
        if self.version == _PLAIN_CAPACITY and (capacity := device.get("capacity")):
            plain = {name: value["value"] for name, value in capacity.items()}
            basic["capacity"] = cast("Any", plain)
        return {"name": device["name"], "basic": basic}

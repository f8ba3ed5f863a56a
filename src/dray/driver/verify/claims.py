"""The claims that the checks make and remove again."""

from __future__ import annotations

import contextlib
import secrets
from typing import TYPE_CHECKING, Self, cast

from dray.api.errors import StatusError
from dray.api.identity import PoolDevice
from dray.client.resources import RESOURCE_CLAIMS
from dray.driver.model import ClaimRef
from dray.driver.resource_api import ResourceApi
from dray.driver.verify.report import Options

if TYPE_CHECKING:
    from dray.api.types.resource import DeviceRequest, DeviceRequestAllocationResult, ResourceClaimStatus
    from dray.api.types.resource_v1beta1 import DeviceRequest as FlatRequest


class Claims:
    """Claims made for the checks, and removed afterwards."""

    def __init__(self, api: ResourceApi, driver: str, options: Options) -> None:
        self._api = api
        self._driver = driver
        self._namespace = options.namespace
        self._resource = RESOURCE_CLAIMS.at(api.version)
        self._made: dict[PoolDevice, str] = {}  # the claim that has a device at the moment

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        for device in list(self._made):
            await self._release(device)

    async def _release(self, device: PoolDevice) -> None:
        """Removes the claim on a device: a server may refuse to allocate what another claim has."""
        name, client = self._made.pop(device, ""), self._api.client
        if not name:
            return
        with contextlib.suppress(StatusError):
            await client.patch_status(
                self._resource,
                self._namespace,
                name,
                {"status": {"allocation": None, "reservedFor": None, "devices": None}},
            )
            await client.delete(self._resource, self._namespace, name)

    async def make(self, device: PoolDevice) -> ClaimRef:
        """A claim that has this device and is reserved; one made for it before is removed."""
        await self._release(device)
        client, name = self._api.client, f"verify-{secrets.token_hex(4)}"
        flat: FlatRequest = {"name": "r", "deviceClassName": "verify"}
        nested: DeviceRequest = {"name": "r", "exactly": {"deviceClassName": "verify"}}
        request = cast("DeviceRequest", flat) if self._api.flat else nested
        made = await client.create(
            self._resource,
            self._namespace,
            {"metadata": {"name": name}, "spec": {"devices": {"requests": [request]}}},
        )
        self._made[device] = name
        result: DeviceRequestAllocationResult = {
            "request": "r",
            "driver": self._driver,
            "pool": device.pool,
            "device": device.device,
        }
        status: ResourceClaimStatus = {
            "allocation": {"devices": {"results": [result]}},
            # Not a pod: the claim controller would notice that there is none of this name.
            "reservedFor": [
                {"apiGroup": "dray.dev", "resource": "checks", "name": "verify", "uid": secrets.token_hex(8)}
            ],
        }
        await client.patch_status(self._resource, self._namespace, name, {"status": status})
        return ClaimRef(self._namespace, name, made["metadata"]["uid"])

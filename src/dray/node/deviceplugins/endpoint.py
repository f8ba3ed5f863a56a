"""One device plugin: the connection to it, and what it says about its devices."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from dray.kubelet_api.services import DEVICE_PLUGIN, stub
from dray.wire.unix import SocketPath

log = logging.getLogger(__name__)

CALL_TIMEOUT = 30.0
HEALTHY = "Healthy"


class PluginDevice(NamedTuple):
    healthy: bool
    numa_nodes: tuple[int, ...] = ()


class PluginError(Exception):
    """The plugin could not do what it was asked to; the text is for the pod's events."""


class DevicePluginEndpoint:
    """A plugin that has registered. ``follow`` runs until the plugin is gone."""

    def __init__(self, resource: str, socket: Path) -> None:
        self.resource = resource
        self.socket = socket
        self.devices: Mapping[str, PluginDevice] = {}
        self.prefers = False
        self.wants_start = False
        self.connected = False
        self._plugin: Any = None

    async def follow(self, changed: Callable[[], None]) -> None:
        """Listens to what the plugin says about its devices, for as long as it is there."""
        import grpc.aio

        messages = DEVICE_PLUGIN.module
        try:
            with SocketPath(self.socket) as address:
                async with grpc.aio.insecure_channel(address.grpc) as channel:
                    self._plugin = stub(DEVICE_PLUGIN, channel)
                    options = await self._plugin.GetDevicePluginOptions(
                        messages.Empty(), timeout=CALL_TIMEOUT
                    )
                    self.prefers = options.get_preferred_allocation_available
                    self.wants_start = options.pre_start_required
                    self.connected = True
                    async for answer in self._plugin.ListAndWatch(messages.Empty()):
                        self.took(answer)
                        changed()
        except (grpc.aio.AioRpcError, OSError, ValueError) as e:
            text = e.details() if isinstance(e, grpc.aio.AioRpcError) else e
            log.info("device plugin of %s: %s", self.resource, text)
        finally:
            self.connected = False
            # Nobody vouches for them any more; containers that have them go on.
            self.devices = {name: device._replace(healthy=False) for name, device in self.devices.items()}
            changed()

    def took(self, answer: Any) -> None:
        """What the plugin says its devices are now."""
        self.devices = {device.ID: _device(device) for device in answer.devices}

    async def preferred(self, free: set[str], must: set[str], count: int) -> tuple[str, ...]:
        """What the plugin would give; nothing if it has no opinion or none that can be heard."""
        if not self.prefers:
            return ()
        messages = DEVICE_PLUGIN.module
        request = messages.PreferredAllocationRequest(
            container_requests=[
                messages.ContainerPreferredAllocationRequest(
                    available_deviceIDs=sorted(free | must),
                    must_include_deviceIDs=sorted(must)[:count],
                    allocation_size=count,
                )
            ]
        )
        answer = await self._call("GetPreferredAllocation", request)
        return tuple(answer.container_responses[0].deviceIDs) if answer.container_responses else ()

    async def allocate(self, devices: list[str]) -> bytes:
        """Tells the plugin to make the devices ready for a container; its answer, encoded."""
        messages = DEVICE_PLUGIN.module
        request = messages.AllocateRequest(
            container_requests=[messages.ContainerAllocateRequest(devices_ids=devices)]
        )
        answer = await self._call("Allocate", request)
        if not answer.container_responses:
            raise PluginError(f"no containers returned in allocation response of {self.resource}")
        return bytes(answer.container_responses[0].SerializeToString())

    async def before_start(self, devices: tuple[str, ...]) -> None:
        if self.wants_start:
            await self._call(
                "PreStartContainer", DEVICE_PLUGIN.module.PreStartContainerRequest(devices_ids=devices)
            )

    async def _call(self, method: str, request: Any) -> Any:
        import grpc.aio

        if not self.connected:
            raise PluginError(f"the device plugin of {self.resource} is not there")
        try:
            return await getattr(self._plugin, method)(request, timeout=CALL_TIMEOUT)
        except grpc.aio.AioRpcError as e:
            raise PluginError(f"{method} of {self.resource}: {e.details()}") from e


def _device(message: Any) -> PluginDevice:
    return PluginDevice(message.health == HEALTHY, tuple(node.ID for node in message.topology.nodes))

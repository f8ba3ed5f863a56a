"""A device plugin as others write them: a gRPC service on a socket that registers with the node."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import grpc.aio

from dray.kubelet_api.services import DEVICE_PLUGIN, DEVICE_PLUGIN_REGISTRATION, handlers, stub
from dray.wire.unix import SocketPath

MESSAGES = DEVICE_PLUGIN.module


class DevicePlugin:
    """Devices with a health each. It prefers the last ones, and notes what it was asked for."""

    def __init__(self, resource: str, devices: Mapping[str, bool]) -> None:
        self.resource = resource
        self.devices = dict(devices)
        self.allocated: list[list[str]] = []
        self.started: list[list[str]] = []
        self._changed = asyncio.Event()

    def set_health(self, device: str, healthy: bool) -> None:
        self.devices[device] = healthy
        self._changed.set()

    async def GetDevicePluginOptions(self, request: Any, context: Any) -> Any:
        return MESSAGES.DevicePluginOptions(pre_start_required=True, get_preferred_allocation_available=True)

    async def ListAndWatch(self, request: Any, context: Any) -> AsyncIterator[Any]:
        while True:
            self._changed.clear()
            yield MESSAGES.ListAndWatchResponse(
                devices=[
                    MESSAGES.Device(
                        ID=name,
                        health="Healthy" if healthy else "Unhealthy",
                        topology=MESSAGES.TopologyInfo(nodes=[MESSAGES.NUMANode(ID=1)]),
                    )
                    for name, healthy in self.devices.items()
                ]
            )
            await self._changed.wait()

    async def GetPreferredAllocation(self, request: Any, context: Any) -> Any:
        [asked] = request.container_requests
        wanted = sorted(asked.available_deviceIDs, reverse=True)[: asked.allocation_size]
        return MESSAGES.PreferredAllocationResponse(
            container_responses=[MESSAGES.ContainerPreferredAllocationResponse(deviceIDs=wanted)]
        )

    async def Allocate(self, request: Any, context: Any) -> Any:
        [asked] = request.container_requests
        self.allocated.append(list(asked.devices_ids))
        return MESSAGES.AllocateResponse(
            container_responses=[
                MESSAGES.ContainerAllocateResponse(
                    envs={"DEVICES": ",".join(asked.devices_ids)},
                    devices=[
                        MESSAGES.DeviceSpec(
                            container_path="/dev/thing", host_path="/dev/null", permissions="rw"
                        )
                    ],
                )
            ]
        )

    async def PreStartContainer(self, request: Any, context: Any) -> Any:
        self.started.append(list(request.devices_ids))
        return MESSAGES.PreStartContainerResponse()


@asynccontextmanager
async def registered(plugin: DevicePlugin, directory: Path) -> AsyncIterator[None]:
    """The plugin serves in the node's directory and has registered there, for the length of the block."""
    name = plugin.resource.replace("/", "-") + ".sock"
    server = grpc.aio.server()
    server.add_generic_rpc_handlers((handlers(DEVICE_PLUGIN, plugin),))
    with SocketPath(directory / name) as own, SocketPath(directory / "kubelet.sock") as node:
        server.add_insecure_port(own.grpc)
        await server.start()
        try:
            async with grpc.aio.insecure_channel(node.grpc) as channel:
                request = MESSAGES.RegisterRequest(
                    version="v1beta1", endpoint=name, resource_name=plugin.resource
                )
                await stub(DEVICE_PLUGIN_REGISTRATION, channel).Register(request, timeout=10)
            yield
        finally:
            await server.stop(None)

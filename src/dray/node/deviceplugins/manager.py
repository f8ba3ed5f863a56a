"""The node's side of device plugins: they register here, and pods get devices from them before their containers start.

A plugin that is gone leaves its devices for a while, unhealthy; then its resource counts none. Plugins notice that the
agent was started again by its socket being new, and register again.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from dray.kubelet_api.services import DEVICE_PLUGIN, DEVICE_PLUGIN_REGISTRATION, handlers
from dray.node.container.roles import roles
from dray.node.deviceplugins.allocation import (
    Allocated,
    Allocations,
    DeviceKey,
    choose,
    is_plugin_resource,
    reusable,
    wanted,
)
from dray.node.deviceplugins.endpoint import DevicePluginEndpoint, PluginDevice, PluginError
from dray.runtimes.interface import DeviceNode, Edits, Mount
from dray.wire.unix import SocketPath

if TYPE_CHECKING:
    from dray.api.types.core import Container, Pod, ResourceStatus

log = logging.getLogger(__name__)

VERSION = "v1beta1"
#: Seconds after which the devices of a plugin that is gone are none any more.
GONE_AFTER = 300.0


class DeviceError(Exception):
    """A pod cannot have the devices that it asks for; the text is for the pod's status."""


class ContainerDevices(NamedTuple):
    """What plugins change about a container."""

    edits: Edits = Edits()
    cdi_devices: tuple[str, ...] = ()


class Devices(Protocol):
    """What a pod's worker does about devices of plugins."""

    async def allocate(self, pod: Pod) -> None: ...

    async def before_start(self, pod: Pod, container: str) -> None: ...

    def of_container(self, pod: Pod, container: str) -> ContainerDevices: ...

    def release(self, pod: Pod) -> None: ...


class NoDevicePlugins:
    """For nodes without sockets."""

    async def allocate(self, pod: Pod) -> None:
        return

    async def before_start(self, pod: Pod, container: str) -> None:
        return

    def of_container(self, pod: Pod, container: str) -> ContainerDevices:
        return ContainerDevices()

    def release(self, pod: Pod) -> None:
        return


class DeviceManager:
    """The device plugins of one node."""

    def __init__(
        self,
        directory: Path,
        *,
        changed: Callable[[], None] = lambda: None,
        locate: Callable[[str], str] = lambda path: path,
        gone_after: float = GONE_AFTER,
    ) -> None:
        """``changed`` is called when there are other devices, or their health is another; ``locate`` finds paths of the
        node's host on this machine."""
        self._directory = directory
        self._changed = changed
        self._locate = locate
        self._gone_after = gone_after
        self._allocations = Allocations.load(directory / "dray_allocations.json")
        # Those known from before have no devices until their plugins register again.
        self._endpoints = {
            resource: DevicePluginEndpoint(resource, Path()) for resource in self._allocations.resources
        }
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._forgetting: dict[str, asyncio.TimerHandle] = {}
        self._choosing = asyncio.Lock()
        self._server: Any = None
        self._address: SocketPath | None = None

    # Registration

    async def start(self) -> None:
        import grpc.aio

        self._directory.mkdir(parents=True, exist_ok=True)
        socket = self._directory / "kubelet.sock"
        socket.unlink(missing_ok=True)
        self._address = SocketPath(socket)
        self._server = grpc.aio.server()
        self._server.add_generic_rpc_handlers((handlers(DEVICE_PLUGIN_REGISTRATION, self),))
        self._server.add_insecure_port(self._address.grpc)
        await self._server.start()

    async def stop(self) -> None:
        for task in self._tasks.values():
            task.cancel()
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)
        for timer in self._forgetting.values():
            timer.cancel()
        if self._server is not None:
            await self._server.stop(None)
        if self._address is not None:
            self._address.close()

    async def Register(self, request: Any, context: Any) -> Any:
        import grpc

        try:
            self.add(request.resource_name, self._directory / Path(request.endpoint).name, [request.version])
        except ValueError as e:
            await context.abort(grpc.StatusCode.UNKNOWN, str(e))
        return DEVICE_PLUGIN.module.Empty()

    def add(self, resource: str, socket: Path, versions: Sequence[str]) -> None:
        """Takes a plugin in, in the place of another one of its resource; ValueError says why not."""
        if VERSION not in versions:
            asked = ", ".join(versions)
            raise ValueError(
                f'requested API version "{asked}" is not supported by kubelet. Supported version is "{VERSION}"'
            )
        if not is_plugin_resource(resource):
            raise ValueError(f'the ResourceName "{resource}" is invalid')
        if old := self._tasks.pop(resource, None):
            old.cancel()
        if timer := self._forgetting.pop(resource, None):
            timer.cancel()
        endpoint = self._endpoints[resource] = DevicePluginEndpoint(resource, socket)
        self._tasks[resource] = asyncio.create_task(
            self._follow(endpoint), name=f"device plugin of {resource}"
        )
        if resource not in self._allocations.resources:
            self._allocations.resources.add(resource)
            self._allocations.save()
        log.info("device plugin of %s registered at %s", resource, socket)

    async def remove(self, resource: str, socket: Path) -> None:
        """The plugin has withdrawn its registration."""
        endpoint = self._endpoints.get(resource)
        if endpoint is not None and endpoint.socket == socket and (task := self._tasks.pop(resource, None)):
            task.cancel()

    async def _follow(self, endpoint: DevicePluginEndpoint) -> None:
        def changed() -> None:
            if self._endpoints.get(endpoint.resource) is endpoint:
                self._changed()

        try:
            await endpoint.follow(changed)
        finally:
            if self._endpoints.get(endpoint.resource) is endpoint:
                loop = asyncio.get_running_loop()
                self._forgetting[endpoint.resource] = loop.call_later(
                    self._gone_after, self._forget, endpoint
                )

    def _forget(self, endpoint: DevicePluginEndpoint) -> None:
        if self._endpoints.get(endpoint.resource) is endpoint:
            endpoint.devices = {}
            self._changed()

    # What the node has

    def capacity(self) -> dict[str, str]:
        return {resource: str(len(endpoint.devices)) for resource, endpoint in self._endpoints.items()}

    def allocatable(self) -> dict[str, str]:
        return {
            resource: str(sum(device.healthy for device in endpoint.devices.values()))
            for resource, endpoint in self._endpoints.items()
        }

    def devices(self) -> dict[str, Mapping[str, PluginDevice]]:
        """All devices by resource."""
        return {resource: endpoint.devices for resource, endpoint in self._endpoints.items()}

    # What pods have

    async def allocate(self, pod: Pod) -> None:
        """Gives the containers of a pod their devices, unless they have them. DeviceError if there are not enough."""
        if not self._endpoints:
            return
        async with self._choosing:
            before = len(self._allocations.entries)
            for container in roles(pod).all:
                for resource, count in wanted(pod, container, self._endpoints):
                    await self._allocate(pod, container, resource, count)
            if len(self._allocations.entries) != before:
                await asyncio.to_thread(self._allocations.save)

    async def _allocate(self, pod: Pod, container: Container, resource: str, count: int) -> None:
        uid = pod["metadata"]["uid"]
        key = DeviceKey(uid, container["name"], resource)
        if key in self._allocations.entries:
            return
        endpoint = self._endpoints[resource]
        healthy = {name for name, device in endpoint.devices.items() if device.healthy}
        first = reusable(pod, container, resource, self._allocations.of_pod(uid)) & healthy
        free = healthy - self._allocations.in_use(resource)
        try:
            preferred = await endpoint.preferred(free, first, count) if len(first) < count else ()
            chosen = choose(count, first=first, free=free, preferred=preferred)
            if chosen is None:
                raise DeviceError(
                    f"Allocate failed due to requested number of devices unavailable for {resource}. "
                    f"Requested: {count}, Available: {len(free | first)}, which is unexpected"
                )
            response = await endpoint.allocate(chosen)
        except PluginError as e:
            raise DeviceError(f"Allocate failed due to {e}, which is unexpected") from e
        self._allocations.entries[key] = Allocated(tuple(chosen), response)

    async def before_start(self, pod: Pod, container: str) -> None:
        for key, given in self._allocations.of_pod(pod["metadata"]["uid"]).items():
            if key.container == container and (endpoint := self._endpoints.get(key.resource)):
                try:
                    await endpoint.before_start(given.devices)
                except PluginError as e:
                    raise DeviceError(str(e)) from e

    def of_container(self, pod: Pod, container: str) -> ContainerDevices:
        out = ContainerDevices()
        for key, given in self._allocations.of_pod(pod["metadata"]["uid"]).items():
            if key.container == container:
                answer = DEVICE_PLUGIN.module.ContainerAllocateResponse.FromString(given.response)
                out = merged(out, _edits(answer, self._locate))
        return out

    def given(self, pod: Pod, container: str) -> Sequence[tuple[str, tuple[str, ...]]]:
        """The devices that a container has, by resource."""
        return [
            (key.resource, given.devices)
            for key, given in self._allocations.of_pod(pod["metadata"]["uid"]).items()
            if key.container == container
        ]

    def health(self, pod: Pod, container: str) -> list[ResourceStatus]:
        """``allocatedResourcesStatus`` of a container, as far as devices of plugins are concerned."""
        out: list[ResourceStatus] = []
        for resource, devices in self.given(pod, container):
            known = self._endpoints[resource].devices if resource in self._endpoints else {}
            out.append(
                {
                    "name": resource,
                    "resources": [
                        {"resourceID": name, "health": _health(known.get(name))} for name in devices
                    ],
                }
            )
        return out

    def pods(self) -> set[str]:
        """The uids of pods that have devices."""
        return {key.pod_uid for key in self._allocations.entries}

    def release(self, pod: Pod) -> None:
        if self._allocations.release(pod["metadata"]["uid"]):
            self._allocations.save()

    def release_gone(self, uids: set[str]) -> None:
        """Takes back what pods have that are not among these."""
        released = [self._allocations.release(uid) for uid in self.pods() - uids]
        if any(released):
            self._allocations.save()


def merged(a: ContainerDevices, b: ContainerDevices) -> ContainerDevices:
    edits = Edits(
        env=a.edits.env + b.edits.env,
        mounts=a.edits.mounts + b.edits.mounts,
        devices=a.edits.devices + b.edits.devices,
        hooks=a.edits.hooks + b.edits.hooks,
        gids=a.edits.gids + b.edits.gids,
    )
    return ContainerDevices(edits, tuple(dict.fromkeys(a.cdi_devices + b.cdi_devices)))


def _edits(answer: Any, locate: Callable[[str], str]) -> ContainerDevices:
    return ContainerDevices(
        Edits(
            env=tuple(sorted(answer.envs.items())),
            mounts=tuple(
                Mount(source=locate(m.host_path), target=m.container_path, read_only=m.read_only)
                for m in answer.mounts
            ),
            devices=tuple(
                DeviceNode(
                    target=d.container_path, source=locate(d.host_path), permissions=d.permissions or "rwm"
                )
                for d in answer.devices
            ),
        ),
        tuple(device.name for device in answer.cdi_devices),
    )


def _health(device: PluginDevice | None) -> str:
    if device is None:
        return "Unknown"
    return "Healthy" if device.healthy else "Unhealthy"

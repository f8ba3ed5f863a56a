"""The PodResources service: monitoring agents ask here which pod has which devices."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from dray.api import pods
from dray.kubelet_api.services import POD_RESOURCES, handlers
from dray.node.container.roles import roles
from dray.node.deviceplugins.manager import DeviceManager
from dray.node.dra.manager import Manager
from dray.node.pod_workers import PodWorkers
from dray.wire.unix import SocketPath

if TYPE_CHECKING:
    from dray.api.types.core import Container, Pod


class PodResources:
    """PodResources v1 on the node's socket."""

    def __init__(
        self,
        workers: PodWorkers,
        claims: Manager,
        socket: Path,
        *,
        devices: DeviceManager | None = None,
        shows_claims: bool,
    ) -> None:
        """``devices`` are those of device plugins."""
        self._workers = workers
        self._claims = claims
        self._socket = socket
        self._devices = devices
        self._shows_claims = shows_claims
        self._messages = POD_RESOURCES.module
        self._server: Any = None
        self._address: SocketPath | None = None

    async def start(self) -> None:
        import grpc.aio

        path = self._socket
        path.parent.mkdir(parents=True, exist_ok=True)
        path.unlink(missing_ok=True)
        self._address = SocketPath(path)
        self._server = grpc.aio.server()
        self._server.add_generic_rpc_handlers((handlers(POD_RESOURCES, self),))
        self._server.add_insecure_port(self._address.grpc)
        await self._server.start()

    async def stop(self) -> None:
        if self._server is not None:
            await self._server.stop(None)
        if self._address is not None:
            self._address.close()

    async def List(self, request: Any, context: Any) -> Any:
        active = [w.pod for w in self._workers if not pods.is_terminal(w.pod)]
        return self._messages.ListPodResourcesResponse(pod_resources=[self._pod(p) for p in active])

    async def Get(self, request: Any, context: Any) -> Any:
        import grpc

        worker = self._workers.find(request.pod_namespace, request.pod_name)
        if worker is None:
            text = f"pod {request.pod_name} in namespace {request.pod_namespace} not found"
            await context.abort(grpc.StatusCode.UNKNOWN, text)
            return None
        return self._messages.GetPodResourcesResponse(pod_resources=self._pod(worker.pod))

    async def GetAllocatableResources(self, request: Any, context: Any) -> Any:
        found = self._devices.devices() if self._devices else {}
        return self._messages.AllocatableResourcesResponse(
            devices=[
                self._device(resource, name)
                for resource, devices in found.items()
                for name, device in devices.items()
                if device.healthy
            ]
        )

    def _device(self, resource: str, name: str) -> Any:
        """A device of a plugin, with the NUMA nodes that it is near."""
        messages = self._messages
        known = self._devices.devices().get(resource, {}).get(name) if self._devices else None
        shown = messages.ContainerDevices(resource_name=resource, device_ids=[name])
        if known and known.numa_nodes:
            shown.topology.nodes.extend(messages.NUMANode(ID=node) for node in known.numa_nodes)
        return shown

    def _pod(self, pod: Pod) -> Any:
        containers = roles(pod)
        metadata = pod["metadata"]
        return self._messages.PodResources(
            name=metadata["name"],
            namespace=metadata["namespace"],
            containers=[self._container(pod, c) for c in (*containers.sidecars, *containers.main)],
        )

    def _container(self, pod: Pod, spec: Container) -> Any:
        messages = self._messages
        resources = []
        shown = self._claims.container_devices(pod, spec) if self._shows_claims else ()
        for info, devices in shown:
            claim = messages.DynamicResource(
                class_name=info.class_name, claim_name=info.name, claim_namespace=info.namespace
            )
            for driver, device in devices:
                entry = claim.claim_resources.add(
                    cdi_devices=[messages.CDIDevice(name=i) for i in device.cdi_ids],
                    driver_name=driver,
                    pool_name=device.pool,
                    device_name=device.name,
                )
                if device.share:
                    entry.share_id = device.share
            resources.append(claim)
        given = self._devices.given(pod, spec["name"]) if self._devices else ()
        return messages.ContainerResources(
            name=spec["name"],
            devices=[self._device(resource, name) for resource, names in given for name in names],
            dynamic_resources=resources,
        )

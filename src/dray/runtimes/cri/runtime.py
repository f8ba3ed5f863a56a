"""Containers through the Container Runtime Interface: containerd or CRI-O, which resolve CDI devices themselves."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import math
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypedDict

from dray.kubelet_api.services import CRI_IMAGES, CRI_RUNTIME, stub
from dray.runtimes.cri import messages
from dray.runtimes.cri.streaming import SpdyPortConnection, SpdySession
from dray.runtimes.cri.subpaths import sub_path
from dray.runtimes.interface import (
    Capabilities,
    ContainerConfig,
    ContainerStatus,
    ExecResult,
    Listing,
    PortConnection,
    Resources,
    RuntimeFailure,
    SandboxConfig,
    SandboxStatus,
    Session,
    State,
    Usage,
)
from dray.runtimes.pleg import LifecycleEvents
from dray.wire.unix import SocketPath

log = logging.getLogger(__name__)

#: Seconds between looks at the containers, for what the runtime did not tell.
RELIST_PERIOD = 1.0
CALL_TIMEOUT = 120.0
_STATES = {0: State.CREATED, 1: State.RUNNING, 2: State.EXITED, 3: State.UNKNOWN}


class _VerboseConfig(TypedDict, total=False):
    log_directory: str


class _VerboseInfo(TypedDict, total=False):
    """What containerd says about a sandbox beyond the interface, as far as it is read here."""

    config: _VerboseConfig


class CriRuntime:
    """A CRI runtime behind a unix socket. Its images are its own business; containers outlive the agent."""

    name = "containerd"
    version = ""
    capabilities = Capabilities(resolves_cdi=True)

    def __init__(self, socket: Path) -> None:
        self._path = socket
        self._address: SocketPath | None = None
        self._channel: Any = None
        self._runtime: Any = None
        self._images: Any = None
        self._messages: Any = None
        self._has_network = False
        self._sandboxes: dict[str, Any] = {}
        self._states: dict[str, State] = {}
        self._sub_paths: dict[str, contextlib.ExitStack] = {}  # of containers that have not been started yet
        self._lifecycle_events = LifecycleEvents()
        self._watching: asyncio.Task[None] | None = None

    async def start(self) -> None:
        import grpc.aio

        self._messages = CRI_RUNTIME.module
        self._address = SocketPath(self._path)
        self._channel = grpc.aio.insecure_channel(self._address.grpc)
        self._runtime = stub(CRI_RUNTIME, self._channel)
        self._images = stub(CRI_IMAGES, self._channel)
        known = await self._call(self._runtime.Version, self._messages.VersionRequest())
        self.name, self.version = known.runtime_name, known.runtime_version
        status = await self._call(self._runtime.Status, self._messages.StatusRequest())
        self._has_network = any(c.type == "NetworkReady" and c.status for c in status.status.conditions)
        await self.list()
        self._watching = asyncio.create_task(self._watch(), name=f"containers of {self.name}")

    async def close(self, *, keep: bool) -> None:
        if self._watching:
            self._watching.cancel()
            await asyncio.gather(self._watching, return_exceptions=True)
        if self._channel is not None:
            await self._channel.close(None)
        if self._address:
            self._address.close()

    async def node_address(self, number: int) -> str:
        return ""

    async def list(self) -> Listing:
        m = self._messages
        only_ours = {messages.LABEL: "true"}
        sandboxes = await self._call(
            self._runtime.ListPodSandbox,
            m.ListPodSandboxRequest(filter=m.PodSandboxFilter(label_selector=only_ours)),
        )
        containers = await self._call(
            self._runtime.ListContainers,
            m.ListContainersRequest(filter=m.ContainerFilter(label_selector=only_ours)),
        )
        pods = {s.id: s.metadata.uid for s in sandboxes.items}
        statuses = []
        for c in containers.containers:
            with contextlib.suppress(RuntimeFailure):
                statuses.append(
                    await self._status(c.id, sandbox=c.pod_sandbox_id, pod_uid=pods.get(c.pod_sandbox_id, ""))
                )
        for status in statuses:
            self._states[status.id] = status.state
        listed = [
            SandboxStatus(
                id=s.id,
                pod_uid=s.metadata.uid,
                name=s.metadata.name,
                namespace=s.metadata.namespace,
                attempt=s.metadata.attempt,
                ready=s.state == m.SANDBOX_READY,
                ip=await self._sandbox_ip(s.id),
                labels=dict(s.labels),
            )
            for s in sandboxes.items
        ]
        return Listing(listed, statuses)

    def container_events(self) -> AsyncIterator[ContainerStatus]:
        return self._lifecycle_events.subscribe()

    async def run_sandbox(self, config: SandboxConfig) -> SandboxStatus:
        if not config.host_users:
            text = "this node gives pods no user namespaces (hostUsers: false); leave hostUsers out"
            raise RuntimeFailure("CreatePodSandboxError", text)
        config.log_directory.mkdir(parents=True, exist_ok=True)
        wanted = messages.sandbox_config(config, has_network=self._has_network)
        request = self._messages.RunPodSandboxRequest(config=wanted, runtime_handler=config.runtime_handler)
        answer = await self._call(self._runtime.RunPodSandbox, request)
        self._sandboxes[answer.pod_sandbox_id] = wanted
        ip = await self._sandbox_ip(answer.pod_sandbox_id)
        return SandboxStatus.of(config, id=answer.pod_sandbox_id, ip=ip)

    async def remove_sandbox(self, sandbox: str) -> None:
        m = self._messages
        self._sandboxes.pop(sandbox, None)
        await self._call(
            self._runtime.StopPodSandbox, m.StopPodSandboxRequest(pod_sandbox_id=sandbox), gone_is_fine=True
        )
        await self._call(
            self._runtime.RemovePodSandbox,
            m.RemovePodSandboxRequest(pod_sandbox_id=sandbox),
            gone_is_fine=True,
        )

    async def ensure_image(self, image: str, *, policy: str) -> str:
        m = self._messages
        spec = m.ImageSpec(image=image)
        if policy != "Always":
            status = await self._call(self._images.ImageStatus, m.ImageStatusRequest(image=spec))
            if status.HasField("image") and status.image.id:
                return str(status.image.id)
            if policy == "Never":
                raise RuntimeFailure(
                    "ErrImageNeverPull", f'Container image "{image}" is not present with pull policy of Never'
                )
        try:
            pulled = await self._call(self._images.PullImage, m.PullImageRequest(image=spec))
        except RuntimeFailure as e:
            raise RuntimeFailure("ErrImagePull", f'Failed to pull image "{image}": {e}') from e
        return str(pulled.image_ref)

    async def create_container(self, sandbox: str, config: ContainerConfig) -> ContainerStatus:
        m = self._messages
        pod = await self._config_of(sandbox)
        with contextlib.ExitStack() as until_started:
            sources = {x: until_started.enter_context(sub_path(x)) for x in config.mounts if x.sub_path}
            wanted = messages.container_config(config, pod, sources=sources)
            request = m.CreateContainerRequest(pod_sandbox_id=sandbox, config=wanted, sandbox_config=pod)
            answer = await self._call(self._runtime.CreateContainer, request, failure="CreateContainerError")
            self._sub_paths[answer.container_id] = until_started.pop_all()
        status = await self._status(answer.container_id, sandbox=sandbox, pod_uid=pod.metadata.uid)
        self._states[status.id] = status.state
        return status

    async def start_container(self, container: str) -> ContainerStatus:
        request = self._messages.StartContainerRequest(container_id=container)
        with self._sub_paths.pop(container, contextlib.ExitStack()):
            await self._call(self._runtime.StartContainer, request, failure="StartError")
        status = await self._status(container)
        self._announce(status)
        return status

    async def update_resources(self, container: str, resources: Resources) -> None:
        request = self._messages.UpdateContainerResourcesRequest(
            container_id=container, linux=messages.linux_resources(resources)
        )
        await self._call(self._runtime.UpdateContainerResources, request)

    async def usage(self) -> Mapping[str, Usage]:
        request = self._messages.ListContainerStatsRequest()
        found = await self._call(self._runtime.ListContainerStats, request)
        return {
            one.attributes.id: Usage(
                cpu_seconds=one.cpu.usage_core_nano_seconds.value / 1e9,
                memory=one.memory.working_set_bytes.value,
            )
            for one in found.stats
        }

    async def stop_container(self, container: str, *, grace: float) -> None:
        request = self._messages.StopContainerRequest(container_id=container, timeout=math.ceil(grace))
        await self._call(
            self._runtime.StopContainer, request, timeout=grace + CALL_TIMEOUT, gone_is_fine=True
        )
        with contextlib.suppress(RuntimeFailure):
            self._announce(await self._status(container))

    async def remove_container(self, container: str) -> None:
        self._states.pop(container, None)
        self._sub_paths.pop(container, contextlib.ExitStack()).close()
        request = self._messages.RemoveContainerRequest(container_id=container)
        await self._call(self._runtime.RemoveContainer, request, gone_is_fine=True)

    async def exec_sync(self, container: str, command: Sequence[str], *, timeout: float) -> ExecResult:
        request = self._messages.ExecSyncRequest(
            container_id=container, cmd=list(command), timeout=max(1, math.ceil(timeout))
        )
        async with asyncio.timeout(timeout):
            answer = await self._call(
                self._runtime.ExecSync, request, timeout=timeout + 5, failure="ExecError"
            )
        return ExecResult(answer.exit_code, answer.stdout, answer.stderr)

    async def exec(self, container: str, command: Sequence[str], *, tty: bool, stdin: bool) -> Session:
        request = self._messages.ExecRequest(
            container_id=container, cmd=list(command), tty=tty, stdin=stdin, stdout=True, stderr=not tty
        )
        answer = await self._call(self._runtime.Exec, request, failure="ExecError")
        return await SpdySession.open(answer.url, tty=tty, stdin=stdin)

    async def attach(self, container: str, *, tty: bool, stdin: bool) -> Session:
        request = self._messages.AttachRequest(
            container_id=container, tty=tty, stdin=stdin, stdout=True, stderr=not tty
        )
        answer = await self._call(self._runtime.Attach, request, failure="AttachError")
        return await SpdySession.open(answer.url, tty=tty, stdin=stdin)

    async def port_forward(self, sandbox: str, port: int) -> PortConnection:
        request = self._messages.PortForwardRequest(pod_sandbox_id=sandbox, port=[port])
        answer = await self._call(self._runtime.PortForward, request, failure="PortForwardError")
        return await SpdyPortConnection.open(answer.url, port)

    async def _config_of(self, sandbox: str) -> Any:
        """A sandbox's configuration, also after the agent was restarted."""
        if sandbox in self._sandboxes:
            return self._sandboxes[sandbox]
        m = self._messages
        found = await self._call(
            self._runtime.PodSandboxStatus, m.PodSandboxStatusRequest(pod_sandbox_id=sandbox, verbose=True)
        )
        info: _VerboseInfo = json.loads(found.info.get("info") or "{}")
        directory = (info.get("config") or {}).get("log_directory") or ""
        config = m.PodSandboxConfig(
            metadata=found.status.metadata,
            labels=found.status.labels,
            annotations=found.status.annotations,
            log_directory=directory,
            linux=m.LinuxPodSandboxConfig(
                security_context=m.LinuxSandboxSecurityContext(
                    namespace_options=found.status.linux.namespaces.options
                )
            ),
        )
        self._sandboxes[sandbox] = config
        return config

    async def _sandbox_ip(self, sandbox: str) -> str:
        request = self._messages.PodSandboxStatusRequest(pod_sandbox_id=sandbox)
        try:
            found = await self._call(self._runtime.PodSandboxStatus, request)
        except RuntimeFailure:
            return ""
        return str(found.status.network.ip)

    async def _status(self, container: str, *, sandbox: str = "", pod_uid: str = "") -> ContainerStatus:
        request = self._messages.ContainerStatusRequest(container_id=container)
        found = (await self._call(self._runtime.ContainerStatus, request)).status
        return ContainerStatus(
            id=found.id,
            sandbox=sandbox,
            pod_uid=pod_uid or found.labels.get("io.kubernetes.pod.uid", ""),
            name=found.metadata.name,
            attempt=found.metadata.attempt,
            state=_STATES.get(found.state, State.UNKNOWN),
            image=found.image.user_specified_image or found.image.image,
            image_id=found.image_ref,
            created_at=found.created_at / 1e9,
            started_at=found.started_at / 1e9,
            finished_at=found.finished_at / 1e9,
            exit_code=found.exit_code,
            reason=found.reason,
            message=found.message,
            log_path=Path(found.log_path),
        )

    # What the kubelet calls PLEG

    def _announce(self, status: ContainerStatus) -> None:
        if self._states.get(status.id) is status.state:
            return
        self._states[status.id] = status.state
        self._lifecycle_events.publish(status)

    async def _watch(self) -> None:
        """Follows the runtime's events where it has them, and lists containers now and then to find the rest."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._follow_events())
            while True:
                await asyncio.sleep(RELIST_PERIOD)
                with contextlib.suppress(RuntimeFailure):
                    await self._relist()

    async def _relist(self) -> None:
        m = self._messages
        found = await self._call(
            self._runtime.ListContainers,
            m.ListContainersRequest(filter=m.ContainerFilter(label_selector={messages.LABEL: "true"})),
        )
        for c in found.containers:
            if _STATES.get(c.state) is not self._states.get(c.id) and c.id in self._states:
                self._announce(await self._status(c.id))

    async def _follow_events(self) -> None:
        import grpc.aio

        stopped = self._messages.CONTAINER_STOPPED_EVENT
        while True:
            try:
                async for event in self._runtime.GetContainerEvents(self._messages.GetEventsRequest()):
                    if event.container_event_type == stopped and event.container_id in self._states:
                        with contextlib.suppress(RuntimeFailure):
                            self._announce(await self._status(event.container_id))
            except grpc.aio.AioRpcError as e:
                if e.code() is grpc.StatusCode.UNIMPLEMENTED:
                    return
                log.debug("events of %s: %s", self.name, e.details())
            await asyncio.sleep(RELIST_PERIOD)

    async def _call(
        self,
        method: Any,
        request: Any,
        *,
        timeout: float = CALL_TIMEOUT,
        failure: str = "RuntimeError",
        gone_is_fine: bool = False,
    ) -> Any:
        import grpc
        import grpc.aio

        try:
            return await method(request, timeout=timeout)
        except grpc.aio.AioRpcError as e:
            if gone_is_fine and e.code() is grpc.StatusCode.NOT_FOUND:
                return None
            if e.code() is grpc.StatusCode.DEADLINE_EXCEEDED:
                raise TimeoutError(e.details()) from e
            raise RuntimeFailure(failure, e.details() or e.code().name) from e

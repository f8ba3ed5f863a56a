"""The worker of one pod: it asks ``compute_pod_actions`` what is to be done, does it, and reports the status.

The worker decides nothing itself. It is the part that waits, calls the runtime and the drivers, and fails.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from dray.api import pods
from dray.api.errors import Conflict, NotFound, StatusError
from dray.client.client import Client
from dray.client.resources import PODS, RUNTIME_CLASSES
from dray.kubelet_api.failpoints import failpoint
from dray.node.admission import rejection, resize_obstacle
from dray.node.container import runtime_config
from dray.node.container.cdi import CdiCache, CdiError
from dray.node.container.dns import ClusterDNS
from dray.node.container.environment import ContainerConfigError
from dray.node.container.lifecycle_hooks import POST_START_TIMEOUT, run_hook
from dray.node.container.roles import roles, target_of
from dray.node.container.runtime_config import ContainerConfigs, runtime_resources
from dray.node.deviceplugins.manager import ContainerDevices, DeviceError, Devices, merged
from dray.node.dra.claims import ClaimError
from dray.node.dra.manager import Manager
from dray.node.hostpaths import HostPaths
from dray.node.metrics import Metrics, ProbeLabels
from dray.node.pod_actions import (
    DeletePod,
    Failure,
    KillPod,
    KnownContainer,
    PodState,
    SetUpPod,
    StartContainer,
    StopContainer,
    TearDownPod,
    compute_pod_actions,
    is_ending,
    is_starting,
    resized,
    restarts_to_resize,
    should_restart,
)
from dray.node.pod_events import PodEvents
from dray.node.pod_status import NodeFacts, pod_status
from dray.node.prober import Probes, ResultUpdate
from dray.node.recovery import RecoveredPod
from dray.node.services import Services
from dray.node.status_manager import ReportTimes, StatusManager
from dray.node.volume_manager import MountedVolumes, MountError, PodVolumes
from dray.runtimes.interface import (
    ContainerConfig,
    ContainerStatus,
    Runtime,
    RuntimeFailure,
    SandboxStatus,
    State,
)
from dray.runtimes.process.logfile import ROTATED_SUFFIX

if TYPE_CHECKING:
    from dray.api.types.core import Container, LifecycleHandler, Pod, PodStatus, ResourceStatus

log = logging.getLogger(__name__)

#: Seconds after which a resize is tried again for which the node had too little.
RESIZE_RETRY = 5.0


@dataclass(frozen=True, kw_only=True, slots=True)
class PodDependencies:
    """What the workers of one node's pods have in common. The agent builds it once."""

    client: Client
    report_times: ReportTimes
    runtime: Runtime
    clock: Callable[[], float]
    node: NodeFacts
    paths: HostPaths
    dns: ClusterDNS
    claims: Manager
    cdi: CdiCache
    services: Services
    devices: Devices
    metrics: Metrics
    volumes: PodVolumes
    configs: ContainerConfigs
    probes: Probes
    events: PodEvents
    #: What the node has for pods, now.
    allocatable: Callable[[], Mapping[str, str]]
    #: The health of the devices that a container of a pod uses.
    device_health: Callable[[Pod, Container], Sequence[ResourceStatus]]


class PodWorker:
    """Takes one pod through its life. ``run`` ends when nothing is left to do for it."""

    def __init__(
        self,
        dependencies: PodDependencies,
        pod: Pod,
        *,
        recovered: RecoveredPod | None = None,
        others: Callable[[], Iterable[Pod]] = tuple,
    ) -> None:
        """``others`` are the other pods that take resources of the node."""
        self._node = dependencies
        self._others = others
        self.pod = pod
        self.state = PodState()
        self.mounted_volumes: MountedVolumes | None = None
        self._wake = asyncio.Event()
        self._reporter = StatusManager(dependencies.client, dependencies.report_times)
        self._work: asyncio.Task[None] | None = None  # what is being done to get the pod going
        self._pre_stop_done: set[str] = set()  # containers whose preStop hook has been run
        self._probes: dict[str, asyncio.Task[None]] = {}
        self._stops: dict[str, asyncio.Task[None]] = {}
        if recovered:
            self.state = recovered.state()
        elif dependencies.runtime.capabilities.runs_programs and pods.phase(pod) == "Pending":
            self._admit()

    def _admit(self) -> None:
        if problem := rejection(self.pod, self._others(), self._node.allocatable()):
            self._event("Warning", problem.reason, problem.message)
            self.state = replace(self.state, killed=problem)

    # What others tell the worker

    def pod_changed(self, pod: Pod) -> None:
        was_ending = pods.deletion_deadline(self.pod)
        self.pod = pod
        if pods.deletion_deadline(pod) != was_ending:
            self._retry_now()
            self._interrupt()
        self._wake.set()

    def pod_removed(self) -> None:
        """The object is gone: its containers have no time left."""
        self.state = replace(self.state, removed=True)
        self._retry_now()
        self._interrupt()
        self._wake.set()

    def container_changed(self, status: ContainerStatus) -> None:
        known = self.state.container(status.name)
        if known.current is None or known.current.id != status.id or known.exited:
            return
        if status.state is State.EXITED:
            self._end_probe(status.name)
            self._ended(known, self._with_termination_message(status))
            self._wake.set()

    def _ended(self, known: KnownContainer, status: ContainerStatus) -> None:
        """An attempt to run a container is over, however far it came."""
        changed = replace(known, current=status, stopping=False, started=False, ready=False, unhealthy="")
        self.state = self.state.with_container(status.name, changed)
        if changed.backoff and should_restart(self.pod, status.name, self.state):
            text = f"Back-off restarting failed container {status.name} in pod {pods.full_name(self.pod)}"
            self._event("Warning", "BackOff", text)

    def _with_termination_message(self, status: ContainerStatus) -> ContainerStatus:
        spec = roles(self.pod).find(status.name)
        if spec is None:
            return status
        message = self._node.configs.termination_message(self.pod, spec, status)
        return status if message == status.message else replace(status, message=message)

    def health_changed(self) -> None:
        self._reporter.changed()

    def _retry_now(self) -> None:
        """Containers that are being stopped may have less time now, and what was to be tried later is tried now."""
        self.state = replace(self.state, retry_at=0.0)
        for name, known in self.state.containers.items():
            if known.stopping:
                self.state = self.state.with_container(name, replace(known, stopping=False))

    def _interrupt(self) -> None:
        """Nobody waits any more for what is being prepared, pulled or started. What came of it is torn down."""
        if self._work:
            self._work.cancel()

    # The life of the pod

    async def run(self) -> None:
        reporting = asyncio.create_task(
            self._reporter.run(
                self.pod,
                current=self._status_to_report,
                unsettled=lambda: is_starting(self.pod, self.state) or is_ending(self.pod, self.state),
            ),
            name=f"status of {pods.full_name(self.pod)}",
        )
        try:
            if self.state.set_up:
                await self._resume_containers()
            await self._sync_loop()
        finally:
            tasks = [reporting, *self._probes.values(), *self._stops.values()]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            self._node.metrics.forget_probes(self.pod["metadata"]["uid"])

    async def _sync_loop(self) -> None:
        while True:
            self._wake.clear()
            await self._resize()
            decision = compute_pod_actions(self.pod, self.state, now=self._node.clock())
            self._reporter.changed()
            for action in decision.actions:
                await self._perform(action)
            if decision.actions:
                continue
            if self.state.torn_down and self.state.removed:
                return
            timeout = None
            retry = self._node.clock() + RESIZE_RETRY if self.state.resize else None
            moments = [m for m in (decision.wake_at, self._refresh_at(), retry) if m is not None]
            if moments:
                timeout = max(min(moments) - self._node.clock(), 0.0)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(timeout):
                    await self._wake.wait()
            await self._refresh_volumes()

    async def _perform(self, action: object) -> None:
        match action:
            case SetUpPod():
                await self._interruptibly(self._set_up())
            case StartContainer(container=name, attempt=attempt):
                await self._interruptibly(self._start(name, attempt))
            case StopContainer(container=name, grace=grace, message=message):
                self._begin_stop(name, grace, message)
            case KillPod(reason=reason, message=message):
                self._event("Warning", reason, message)
                self.state = replace(self.state, killed=Failure(reason, message))
            case TearDownPod():
                await self._tear_down()
            case DeletePod():
                await self._delete()

    async def _interruptibly(self, work: Coroutine[Any, Any, None]) -> None:
        self._work = asyncio.create_task(work)
        try:
            await self._work
        except asyncio.CancelledError:
            current = asyncio.current_task()
            if current is None or current.cancelling():
                raise
        finally:
            self._work = None

    async def _set_up(self) -> None:
        try:
            await self._node.devices.allocate(self.pod)
            # Each waits for disks and drivers most of the time, and neither needs the other.
            both = (self._mount_volumes(), self._node.claims.prepare(self.pod))
            for problem in await asyncio.gather(*both, return_exceptions=True):
                if problem is not None:
                    raise problem
            failpoint("node.pod.prepared")
            sandbox = await self._open_sandbox()
        except DeviceError as e:
            rejected = Failure("UnexpectedAdmissionError", f"Pod was rejected: {e}")
            self._event("Warning", rejected.reason, rejected.message)
            self.state = replace(self.state, killed=rejected)
        except ClaimError as e:
            self._event(
                "Warning", "FailedPrepareDynamicResources", f"Failed to prepare dynamic resources: {e}"
            )
            self._failed("FailedPrepareDynamicResources", str(e))
        except MountError as e:
            self._event("Warning", "FailedMount", str(e))
            self._failed("FailedMount", str(e))
        except RuntimeFailure as e:
            self._event("Warning", "FailedCreatePodSandBox", f"Failed to create pod sandbox: {e}")
            self._failed(e.reason, str(e))
        else:
            failpoint("node.pod.sandbox")
            self.state = replace(self.state, set_up=True, sandbox=sandbox, failure=None, retry_at=0.0)

    async def _mount_volumes(self) -> None:
        self.mounted_volumes = await self._node.volumes.mount(self.pod, node=self._node.node.fields())

    async def _open_sandbox(self) -> SandboxStatus:
        node = self._node
        service = await node.services.api_server() if node.runtime.capabilities.forwards_api_service else None
        config = runtime_config.sandbox_config(
            self.pod,
            node.node,
            node.paths,
            resolver=runtime_config.host_resolver(node.runtime.capabilities),
            cluster_dns=node.dns,
            api_service=service,
            runtime_handler=await self._runtime_handler(),
        )
        opening = asyncio.ensure_future(self._node.runtime.run_sandbox(config))
        try:
            return await asyncio.shield(opening)
        except asyncio.CancelledError:
            # Whatever comes of it has to be torn down.
            with contextlib.suppress(RuntimeFailure):
                self.state = replace(self.state, sandbox=await opening)
            raise

    async def _runtime_handler(self) -> str:
        """What the pod's RuntimeClass wants the runtime to run it with."""
        name = self.pod["spec"].get("runtimeClassName")
        if not name:
            return ""
        try:
            return (await self._node.client.get(RUNTIME_CLASSES, "", name))["handler"]
        except StatusError as e:
            text = f'failed to get sandbox runtime for RuntimeClass "{name}": {e.message}'
            raise RuntimeFailure("CreatePodSandboxError", text) from e

    def _failed(self, reason: str, message: str) -> None:
        tries = self.state.failure.tries + 1 if self.state.failure else 1
        failure = Failure(reason, message, tries)
        self.state = replace(self.state, failure=failure, retry_at=self._node.clock() + failure.pause)

    async def _start(self, name: str, attempt: int) -> None:
        """One attempt to run a container."""
        runtime, known = self._node.runtime, self.state.container(name)
        spec = roles(self.pod).find(name)
        assert spec is not None and self.state.sandbox is not None
        if known.previous:
            await self._forget(known.previous)
        try:
            image = spec.get("image", "")
            policy = spec.get("imagePullPolicy") or "IfNotPresent"
            await runtime.ensure_image(image, policy=policy)
            self._event("Normal", "Pulled", f'Container image "{image}" already present on machine')
            config = await self._config(spec, attempt)
            created = await runtime.create_container(self.state.sandbox.id, config)
            self._event("Normal", "Created", "Container created")
        except (RuntimeFailure, CdiError, ContainerConfigError, MountError, StatusError, OSError) as e:
            reason = (
                "CreateContainerConfigError"
                if isinstance(e, ContainerConfigError | MountError | StatusError)
                else "CreateContainerError"
            )
            if isinstance(e, RuntimeFailure) and e.reason.startswith("ErrImage"):
                reason = e.reason
            self._cannot_start(name, known, reason, str(e))
            return
        try:
            await self._node.devices.before_start(self.pod, name)
        except DeviceError as e:
            await self._forget(created)
            self._cannot_start(name, known, "PreStartHookError", str(e))
            return
        fresh = KnownContainer(
            current=created,
            previous=known.current,
            backoff=known.next_backoff(),
            resources=spec.get("resources") or {},
        )
        self.state = self.state.with_container(name, fresh)
        try:
            started = await runtime.start_container(created.id)
        except RuntimeFailure as e:
            self._event("Warning", "Failed", f"Error: {e}")
            now = self._node.clock()
            ended = replace(
                created,
                state=State.EXITED,
                exit_code=128,
                reason="StartError",
                message=str(e),
                finished_at=now,
            )
            self._ended(fresh, ended)
            if attempt == 0 and not runtime.capabilities.uses_images:
                self._event("Warning", "ImageNotUsed", f"Container {name}: {_no_image(image)}")
            return
        self._event("Normal", "Started", "Container started")
        if attempt == 0 and not runtime.capabilities.uses_images and not spec.get("command"):
            text = f"Container {name} has no command, so it only sleeps: {_no_image(image)}"
            self._event("Normal", "ImageNotUsed", text)
        failpoint("node.container.started")
        self._started(name, started)

    def _started(self, name: str, status: ContainerStatus) -> None:
        known = self.state.container(name)
        spec: Container = roles(self.pod).find(name) or {"name": name}
        if known.exited:
            return  # it was quick
        started, ready = self._node.probes.initially(spec)
        self.state = self.state.with_container(
            name, replace(known, current=status, started=started, ready=ready)
        )
        if probing := self._start_probes(name, spec, status):
            self._probes[name] = probing
        if (spec.get("lifecycle") or {}).get("postStart"):
            self._stops[f"{name} postStart"] = asyncio.create_task(self._post_start(name, spec, status))

    def _start_probes(self, name: str, spec: Container, status: ContainerStatus) -> asyncio.Task[None] | None:
        def report(result: ResultUpdate) -> None:
            self._probed(name, status.id, result)

        def failed(kind: str, text: str) -> None:
            self._event("Warning", "Unhealthy", f"{kind.capitalize()} probe failed: {text}")

        def done(kind: str, result: str) -> None:
            metadata = self.pod["metadata"]
            uid = metadata["uid"]
            labels = ProbeLabels(
                kind.capitalize(), result, name, metadata["name"], metadata["namespace"], uid
            )
            self._node.metrics.probed(labels)

        return self._node.probes.start(
            status.id, spec, address=self._address(), report=report, failed=failed, done=done
        )

    def _address(self) -> str:
        """Where the pod is reached: its own address, or the node's where it shares its network."""
        own = self.state.sandbox.ip if self.state.sandbox else ""
        return own or self._node.node.host_ip

    async def _resize(self) -> None:
        """Gives running containers the resources that the pod asks for now, if the node has them."""
        changed = resized(self.pod, self.state)
        if not changed:
            if self.state.resize:
                self.state = replace(self.state, resize=None)
            return
        obstacle = resize_obstacle(self.pod, self._others(), self._node.allocatable())
        if obstacle != self.state.resize:
            self.state = replace(self.state, resize=obstacle)
            if obstacle:
                self._event("Warning", f"Resize{obstacle.reason}", obstacle.message)
        if obstacle:
            return
        for spec in changed:
            known = self.state.container(spec["name"])
            assert known.current is not None and known.resources is not None
            if restarts_to_resize(spec, known.resources):
                text = f"Container {spec['name']} resize requires restart"
                self.state = self.state.with_container(spec["name"], replace(known, unhealthy=text))
                continue
            try:
                await self._node.runtime.update_resources(known.current.id, runtime_resources(spec))
            except RuntimeFailure as e:
                self._event("Warning", "ResizeError", str(e))
                self.state = replace(self.state, resize=Failure("Error", str(e)))
                return
            resources = spec.get("resources") or {}
            known = self.state.container(spec["name"])
            self.state = self.state.with_container(spec["name"], replace(known, resources=resources))
            self._event("Normal", "ResizeCompleted", f"Container {spec['name']} has been resized")

    def _probed(self, name: str, container_id: str, result: ResultUpdate) -> None:
        known = self.state.container(name)
        if known.current is None or known.current.id != container_id or not known.running:
            return
        spec: Container = roles(self.pod).find(name) or {"name": name}
        if result.kind == "readiness":
            known = replace(known, ready=result.ok)
        elif result.kind == "startup" and result.ok:
            known = replace(known, started=True, ready=not spec.get("readinessProbe"))
        elif not result.ok:
            text = f"Container {name} failed {result.kind} probe, will be restarted"
            known = replace(known, unhealthy=text)
        self.state = self.state.with_container(name, known)
        self._wake.set()

    def _end_probe(self, name: str) -> None:
        if task := self._probes.pop(name, None):
            task.cancel()

    async def _config(self, spec: Container, attempt: int) -> ContainerConfig:
        node = self._node
        given = node.devices.of_container(self.pod, spec["name"])
        given = merged(given, ContainerDevices(cdi_devices=tuple(node.claims.cdi_devices(self.pod, spec))))
        cdi_devices = given.cdi_devices
        if cdi_devices and not node.runtime.capabilities.resolves_cdi:
            # Drivers' files may be slow to read.
            of_cdi = await asyncio.to_thread(node.cdi.resolve, cdi_devices)
            given = merged(given, ContainerDevices(of_cdi))
        edits = given.edits
        if self.mounted_volumes is None:
            await self._mount_volumes()
            assert self.mounted_volumes is not None
        return await node.configs.make(
            self.pod,
            spec,
            attempt=attempt,
            volumes=self.mounted_volumes,
            sandbox=self.state.sandbox,
            cdi_devices=cdi_devices,
            edits=edits,
            target=self._target_of(spec["name"]),
        )

    def _target_of(self, ephemeral: str) -> str:
        """The container that an ephemeral one looks into: it must be there to be looked into."""
        name = target_of(self.pod, ephemeral)
        if not name:
            return ""
        target = self.state.container(name).current
        if target is None or target.state is not State.RUNNING:
            raise ContainerConfigError(f'target container "{name}" is not running')
        return target.id

    def _cannot_start(self, name: str, known: KnownContainer, reason: str, message: str) -> None:
        self._event("Warning", "Failed", f"Error: {message}")
        tries = known.failure.tries + 1 if known.failure else 1
        failure = Failure(reason, message, tries)
        failed = replace(known, failure=failure, retry_at=self._node.clock() + failure.pause)
        self.state = self.state.with_container(name, failed)

    def _begin_stop(self, name: str, grace: float, message: str) -> None:
        """Stopping takes its time; meanwhile the pod can change its mind about how much."""
        known = self.state.container(name)
        if known.current is None:
            return
        if name not in self._stops or self._stops[name].done():
            self._event("Normal", "Killing", message)
        self.state = self.state.with_container(name, replace(known, stopping=True))
        if (old := self._stops.get(name)) and not old.done():
            old.cancel()
        self._stops[name] = asyncio.create_task(self._stop(name, known.current, grace))

    async def _stop(self, name: str, status: ContainerStatus, grace: float) -> None:
        spec: Container = roles(self.pod).find(name) or {"name": name}
        began = self._node.clock()
        hook = (spec.get("lifecycle") or {}).get("preStop")
        if hook and grace > 0 and status.state is State.RUNNING and status.id not in self._pre_stop_done:
            self._pre_stop_done.add(status.id)
            problem = await self._run_hook(spec, status, hook, timeout=grace)
            if problem:
                self._event("Warning", "FailedPreStopHook", f"PreStopHook failed: {problem}")
        left = max(grace - (self._node.clock() - began), 0.0)
        try:
            await self._node.runtime.stop_container(status.id, grace=left)
        except RuntimeFailure as e:
            log.warning("container %s of %s: %s", name, pods.full_name(self.pod), e)
            self._event("Warning", "FailedKillPod", f"error killing pod: {e}")
            await asyncio.sleep(1)
            known = self.state.container(name)
            self.state = self.state.with_container(name, replace(known, stopping=False))
            self._wake.set()
            return
        self._assume_ended(name, status)

    def _assume_ended(self, name: str, status: ContainerStatus) -> None:
        """The runtime usually tells how a container ended; if it has not, it has at least ended."""
        known = self.state.container(name)
        if known.current and known.current.id == status.id and known.alive:

            def settle() -> None:
                now = self.state.container(name)
                if now.current and now.current.id == status.id and now.alive:
                    ended = replace(
                        status,
                        state=State.EXITED,
                        exit_code=137,
                        reason="Error",
                        finished_at=self._node.clock(),
                    )
                    self.container_changed(ended)

            asyncio.get_running_loop().call_later(0.5, settle)

    async def _post_start(self, name: str, spec: Container, status: ContainerStatus) -> None:
        hook = spec["lifecycle"]["postStart"]
        if problem := await self._run_hook(spec, status, hook, timeout=POST_START_TIMEOUT):
            self._event("Warning", "FailedPostStartHook", f"PostStartHook failed: {problem}")
            known = self.state.container(name)
            self.state = self.state.with_container(name, replace(known, unhealthy="FailedPostStartHook"))
            self._wake.set()

    async def _run_hook(
        self, spec: Container, status: ContainerStatus, hook: LifecycleHandler, *, timeout: float
    ) -> str:
        runtime = self._node.runtime
        return await run_hook(runtime, status.id, spec, hook, address=self._address(), timeout=timeout)

    async def _tear_down(self) -> None:
        """Claims are unprepared after the last container has ended and before anybody is told that the pod has."""
        try:
            if self.state.sandbox:
                # Ended containers keep their place until here: their logs are of interest to the end.
                await self._node.runtime.remove_sandbox(self.state.sandbox.id)
            failpoint("node.pod.sandbox_removed")
            await self._node.claims.unprepare(self.pod)
        except (ClaimError, RuntimeFailure) as e:
            self._event("Warning", "FailedKillPod", f"error killing pod: {e}")
            self._failed("FailedKillPod", str(e))
            return
        self._node.devices.release(self.pod)
        await self._node.volumes.unmount(self.pod)
        self.state = replace(self.state, torn_down=True, failure=None, retry_at=0.0)
        if self.state.removed:
            self._node.configs.remove_logs(self.pod)

    async def _delete(self) -> None:
        try:
            await self._reporter.report(self.pod, self._status_to_report)
        except StatusError as e:
            log.info("last status of %s: %s", pods.full_name(self.pod), e)
        metadata = self.pod["metadata"]
        try:
            await self._node.client.delete(
                PODS, metadata["namespace"], metadata["name"], uid=metadata["uid"], grace_seconds=0
            )
        except (NotFound, Conflict):
            pass
        except StatusError as e:
            self._failed("FailedDelete", str(e))
            return
        self.state = replace(self.state, removed=True)
        self._node.configs.remove_logs(self.pod)

    async def _forget(self, status: ContainerStatus) -> None:
        with contextlib.suppress(RuntimeFailure):
            await self._node.runtime.remove_container(status.id)
        if status.log_path != Path():
            for file in (status.log_path, status.log_path.with_name(status.log_path.name + ROTATED_SUFFIX)):
                file.unlink(missing_ok=True)

    # After the agent has been restarted

    async def _resume_containers(self) -> None:
        """The containers have been running all the while: go on watching them."""
        for name, known in self.state.containers.items():
            if known.running and known.current:
                self._started(name, known.current)

    # Volumes whose content changes

    def _refresh_at(self) -> float | None:
        return self.mounted_volumes.refresh_at if self.mounted_volumes and not self.state.torn_down else None

    async def _refresh_volumes(self) -> None:
        moment = self._refresh_at()
        if moment is None or moment > self._node.clock():
            return
        try:
            await self._mount_volumes()
        except MountError as e:
            log.info("volumes of %s: %s", pods.full_name(self.pod), e)
            assert self.mounted_volumes is not None
            self.mounted_volumes = replace(self.mounted_volumes, refresh_at=self._node.clock() + 10)

    # Telling the cluster

    def _event(self, kind: Literal["Normal", "Warning"], reason: str, message: str) -> None:
        self._node.events.event(self.pod, kind, reason, message)

    def _status_to_report(self) -> PodStatus | None:
        """What there is to report: nothing of a pod that is gone, nor of one that was over before this agent came."""
        over_before = pods.is_terminal(self.pod) and not self.state.containers
        return None if self.state.removed or over_before else self.status()

    def status(self) -> PodStatus:
        return pod_status(
            {**self.pod, "status": self._reporter.newest_status(self.pod)},
            self.state,
            node=self._node.node,
            now=self._node.clock(),
            health=lambda spec: self._node.device_health(self.pod, spec),
        )


def _no_image(image: str) -> str:
    return (
        f'this node runs commands of its host, not image "{image}". '
        "Give a command that the host has, or start the node with --runtime cri:SOCKET to run images"
    )

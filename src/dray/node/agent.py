"""A node: its pods, its claims, its drivers, and what the one needs of the other."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import shutil
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from dray.api import claims
from dray.api.errors import NotFound, StatusError
from dray.api.groups.resource.classic import bridge
from dray.api.release import EffectiveVersion
from dray.backoff import Backoff
from dray.client.client import Client
from dray.client.events import EventRecorder
from dray.client.resources import CLASSIC_RESOURCE_CLAIMS, PODS, RESOURCE_CLAIMS, RESOURCE_SLICES
from dray.node import pods
from dray.node.container.cdi import CdiCache
from dray.node.container.runtime_config import NODE_LABEL
from dray.node.dra.claiminfo import ClaimInfoCache
from dray.node.dra.classic.noderesources import NodeResourcesController
from dray.node.dra.healthinfo import HealthInfoCache
from dray.node.dra.manager import RECONCILE_PERIOD, Manager
from dray.node.dra.plugin_manager import AssumedPlugins, DRAPluginManager, HealthReport, Plugins
from dray.node.dra.plugin_watcher import PluginWatcher
from dray.node.metrics import Metrics
from dray.node.mirror import MirrorPods, is_mirror
from dray.node.node_status import NodeRegistration
from dray.node.options import NodeOptions
from dray.node.pod_status import NodeFacts
from dray.node.pod_workers import PodWorker
from dray.node.podresources import PodResources
from dray.node.recovery import RecoveredPod
from dray.node.volume_manager import VolumeManager
from dray.runtimes.interface import ContainerStatus, Runtime, RuntimeFailure

if TYPE_CHECKING:
    from dray.api.types.core import Container, Pod, ResourceStatus
    from dray.api.types.resource import ResourceClaim
    from dray.api.types.resource_v1alpha2 import ResourceClaim as ClassicClaim

log = logging.getLogger(__name__)

#: Seconds between looks for reports of health that have become stale.
HEALTH_PERIOD = 5.0
_RETRY = Backoff(initial=1.0, factor=2.0, maximum=300.0, jitter=0.2)


@dataclass(frozen=True, slots=True)
class Shared:
    """What the nodes of one process have in common."""

    runtime: Runtime
    metrics: Metrics
    clock: Callable[[], float]
    version: str  # of the resource API
    release: EffectiveVersion  # of nodes that have none of their own
    classic_slices: bool = False  # slices of 1.30 are served


class Agent:
    """One node, with its own way to the API server."""

    def __init__(self, shared: Shared, options: NodeOptions, client: Client, recorder: EventRecorder) -> None:
        self.options = options
        release = options.release or shared.release
        self.client = client
        self.runtime = shared.runtime
        self.clock = shared.clock
        self.simulated = shared.runtime.name == "simulated"
        self.facts = NodeFacts(options.address, shared.runtime.name)
        self._recorder = recorder
        self._claims = RESOURCE_CLAIMS.at(shared.version)
        self._slices = RESOURCE_SLICES.at(shared.version)
        self._classic_slices: NodeResourcesController | None = None
        self._workers: dict[str, PodWorker] = {}
        self._running: dict[str, asyncio.Task[None]] = {}
        self._tasks: asyncio.TaskGroup | None = None
        self._driver_registered = asyncio.Event()
        self._pods_known = False
        self._orphans: set[str] = set()  # pods that are gone but whose containers may still run
        self.health = HealthInfoCache(shared.clock)
        self.registry: DRAPluginManager | None = None
        plugins: Plugins = AssumedPlugins()
        if options.drivers:
            options.paths.create()
            if shared.classic_slices:
                # The kubelet of 1.30 withdrew them at once; to wait is kinder to drivers that are restarted.
                withdraw_after = 0.0 if release.emulated else options.withdraw_after or 0.0
                self._classic_slices = NodeResourcesController(
                    client,
                    options.name,
                    node_uid=lambda: self.registration.uid,
                    withdraw_after=withdraw_after,
                )
            plugins = self.registry = DRAPluginManager(
                metrics=shared.metrics,
                release=release,
                withdraw=self._withdraw_slices if options.withdraw_after is not None else None,
                withdraw_after=options.withdraw_after or 0.0,
                on_health=self._health_reported,
                on_usable=lambda driver: self._retry_failed_pods(),
                on_resources=self._classic_slices.changed if self._classic_slices else None,
            )
        self.manager = Manager(
            claims=self._get_claim,
            state=ClaimInfoCache(options.paths.kubelet if options.drivers else None),
            plugins=plugins,
            metrics=shared.metrics,
            fixed_names=claims.has_fixed_names(release.release),
        )
        self.volumes = None if self.simulated else VolumeManager(client, options.paths, clock=shared.clock)
        self.cdi_cache = CdiCache(options.paths.cdi, locate=options.paths.locate)
        self.registration = NodeRegistration(
            client,
            options,
            runtime=f"{shared.runtime.name}://{shared.runtime.version}",
            clock=shared.clock,
        )
        self._mirrors = MirrorPods(
            client, options.control_plane, node=options.name, address=options.address, clock=shared.clock
        )

    # Running

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Its lease renewed and its drivers being found, for the length of the block."""
        async with asyncio.TaskGroup() as group:
            self._tasks = group
            tasks = [group.create_task(self.registration.run(), name=f"lease of {self.options.name}")]
            resources = None
            if self.options.control_plane:
                tasks.append(group.create_task(self._mirrors.run(self.registration.uid), name="mirror pods"))
            if self.registry:
                await self._expect_drivers()
                watcher = PluginWatcher(
                    self.options.paths.registry, self.registry, locate=self.options.paths.locate
                )
                tasks.append(group.create_task(watcher.run(), name=f"drivers of {self.options.name}"))
                tasks.append(group.create_task(self._reconcile(), name=f"claims of {self.options.name}"))
                tasks.append(group.create_task(self._age_health(), name=f"health on {self.options.name}"))
                if self._classic_slices:
                    tasks.append(group.create_task(self._classic_slices.run(), name="slices of 1.30"))
                if self.options.pod_resources:
                    resources = PodResources(self)
                    await resources.start()
            try:
                yield
            finally:
                if resources:
                    await resources.stop()
                for task in (*tasks, *self._running.values()):
                    task.cancel()
                if self.registry:
                    await self.registry.close()
                self._tasks = None

    def pods_known(self, recovered: Mapping[str, RecoveredPod]) -> None:
        """Called when all pods have been announced: what else there is belongs to pods that are gone."""
        self._pods_known = True
        self._driver_registered.set()
        for uid, left in recovered.items():
            mine = left.sandbox is not None and left.sandbox.labels.get(NODE_LABEL) == self.options.name
            if mine and uid not in self._workers and self._tasks:
                self._orphans.add(uid)
                self._tasks.create_task(self._remove_orphan(uid, left))

    async def _remove_orphan(self, uid: str, left: RecoveredPod) -> None:
        """First the containers; only then may the claims of the pod be unprepared."""
        assert left.sandbox is not None
        name = f"{left.sandbox.namespace}/{left.sandbox.name}"
        log.info("pod %s is gone; what is left of it is removed", name)
        pauses = _RETRY.pauses()
        while True:
            try:
                await self.runtime.remove_sandbox(left.sandbox.id)
                break
            except RuntimeFailure as e:
                log.warning("containers of pod %s cannot be removed yet: %s", name, e)
                await asyncio.sleep(next(pauses))
        self._orphans.discard(uid)
        await self._reconcile_now()

    # Pods

    def pod_added(self, pod: Pod, *, recovered: RecoveredPod | None = None) -> None:
        if is_mirror(pod):
            self._mirrors.changed(pod)
            return
        uid = pods.uid(pod)
        if uid in self._workers:
            self._workers[uid].pod_changed(pod)
            return
        nothing_left = recovered is None and not self.manager.holds_claims_of(uid)
        if pods.is_finished(pod) and pods.deletion_deadline(pod) is None and nothing_left:
            return
        worker = self._workers[uid] = PodWorker(self, pod, recovered=recovered)
        assert self._tasks is not None
        self._running[uid] = self._tasks.create_task(
            self._run(uid, worker), name=f"pod {pods.full_name(pod)}"
        )

    def pod_updated(self, pod: Pod) -> None:
        self.pod_added(pod)

    def pod_deleted(self, pod: Pod) -> None:
        if is_mirror(pod):
            self._mirrors.deleted(pod)
        elif worker := self._workers.get(pods.uid(pod)):
            worker.pod_removed()

    def container_changed(self, status: ContainerStatus) -> None:
        if worker := self._workers.get(status.pod_uid):
            worker.container_changed(status)

    async def _run(self, uid: str, worker: PodWorker) -> None:
        """One pod's trouble stays its own."""
        try:
            while True:
                try:
                    await worker.run()
                    return
                except Exception:
                    log.exception("pod %s", pods.full_name(worker.pod))
                    await asyncio.sleep(1)
        finally:
            self._workers.pop(uid, None)
            self._running.pop(uid, None)

    @property
    def workers(self) -> Mapping[str, PodWorker]:
        return self._workers

    def find(self, namespace: str, name: str) -> PodWorker | None:
        for worker in self._workers.values():
            metadata = worker.pod["metadata"]
            if (metadata["namespace"], metadata["name"]) == (namespace, name):
                return worker
        return None

    # What workers need

    def node_fields(self) -> dict[str, str]:
        address = self.options.address
        return {
            "spec.nodeName": self.options.name,
            "status.hostIP": address,
            "status.hostIPs": address,
            "status.podIP": address,
            "status.podIPs": address,
        }

    def container_health(self, pod: Pod, spec: Container) -> list[ResourceStatus]:
        if "ResourceHealthStatus" not in self.options.gates or self.simulated:
            return []
        return self.health.container_status(pod, spec, self.manager)

    def pod_event(
        self,
        pod: Pod,
        kind: Literal["Normal", "Warning"],
        reason: str,
        message: str,
        *,
        container: str = "",
    ) -> None:
        if not self.simulated or kind == "Warning":
            self._recorder.event(PODS, pod, kind, reason, message)

    def remove_logs(self, pod: Pod) -> None:
        if not self.simulated:
            metadata = pod["metadata"]
            logs = self.options.paths.pod_logs(metadata["namespace"], metadata["name"], metadata["uid"])
            shutil.rmtree(logs, ignore_errors=True)

    async def _get_claim(self, namespace: str, name: str) -> ResourceClaim | ClassicClaim:
        claim = await self.client.get(self._claims, namespace, name)
        if bridge.is_classic(claim):  # today's versions show little of it
            return await self.client.get(CLASSIC_RESOURCE_CLAIMS, namespace, name)
        return claim

    # Drivers

    def _health_reported(self, driver: str, reports: Sequence[HealthReport] | None) -> None:
        self._health_changed(driver, self.health.update(driver, reports))

    def _health_changed(self, driver: str, devices: Iterable[tuple[str, str]]) -> None:
        for uid in self.manager.pods_using(driver, devices):
            if worker := self._workers.get(uid):
                worker.health_changed()

    async def _age_health(self) -> None:
        """What nobody has repeated in time is no longer known."""
        while True:
            await asyncio.sleep(HEALTH_PERIOD)
            for driver, devices in self.health.expire().items():
                self._health_changed(driver, devices)

    def _retry_failed_pods(self) -> None:
        """A driver has come: whoever waited for one need not wait out its pause."""
        self._driver_registered.set()
        for worker in self._workers.values():
            if worker.state.failure:
                worker.state = replace(worker.state, retry_at=0.0)
                worker.pod_changed(worker.pod)

    async def _expect_drivers(self) -> None:
        """Drivers with slices on this node get the usual time to register. The kubelet withdraws all slices at its
        start; to wait is kinder to drivers that merely outlived a restart of the agent."""
        if self.options.withdraw_after is None or self.registry is None:
            return
        with contextlib.suppress(StatusError):
            selector = f"spec.nodeName={self.options.name}"
            for found in (await self.client.list(self._slices, field_selector=selector)).items:
                self.registry.expect(found["spec"]["driver"])

    async def _withdraw_slices(self, driver: str) -> None:
        pauses = _RETRY.pauses()
        selector = f"spec.driver={driver},spec.nodeName={self.options.name}"
        while True:
            try:
                await self.client.delete_collection(self._slices, field_selector=selector)
                return
            except NotFound:
                return
            except StatusError as e:
                log.info("slices of %s cannot be withdrawn yet: %s", driver, e)
            await asyncio.sleep(next(pauses))

    async def _reconcile(self) -> None:
        """Every minute, and when a driver has come that leftovers may have waited for."""
        while True:
            self._driver_registered.clear()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(RECONCILE_PERIOD):
                    await self._driver_registered.wait()
            if self._pods_known:
                await self._reconcile_now()

    async def _reconcile_now(self) -> None:
        await self.manager.reconcile({*self._workers, *self._orphans})

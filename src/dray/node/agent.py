"""The agent of one node: it builds the parts that care for pods, claims and drivers, and connects them."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from dray.api import pods
from dray.api.groups.resource.classic import bridge
from dray.api.identity import PoolDevice
from dray.api.release import EffectiveVersion
from dray.client.client import Client
from dray.client.events import EventRecorder
from dray.client.resources import CLASSIC_RESOURCE_CLAIMS, RESOURCE_CLAIMS, RESOURCE_SLICES
from dray.node.container.cdi import CdiCache
from dray.node.container.runtime_config import BareConfigs, HostConfigs
from dray.node.deviceplugins.manager import DeviceManager, NoDevicePlugins
from dray.node.dra.checkpoint import Checkpoint
from dray.node.dra.claiminfo import ClaimInfoCache
from dray.node.dra.classic.noderesources import NodeResourcesController
from dray.node.dra.healthinfo import HealthInfoCache
from dray.node.dra.manager import RECONCILE_PERIOD, Manager
from dray.node.dra.plugin import AssumedPlugins, HealthReport, Plugins
from dray.node.dra.plugin_manager import DRAPluginManager
from dray.node.dra.plugin_watcher import PluginWatcher
from dray.node.dra.slice_withdrawal import SliceWithdrawal
from dray.node.metrics import Metrics
from dray.node.mirror import MirrorPods
from dray.node.node_status import DeviceCounts, NodeRegistration
from dray.node.options import NodeOptions
from dray.node.pod_events import PodEvents
from dray.node.pod_status import NodeFacts
from dray.node.pod_worker import PodDependencies
from dray.node.pod_workers import PodWorkers
from dray.node.podresources import PodResources
from dray.node.prober import NoProbes, ProberManager
from dray.node.quirks import Quirks
from dray.node.recovery import RecoveredPod
from dray.node.services import NoServices, ServiceLister, Services
from dray.node.status_manager import ReportTimes
from dray.node.volume_manager import NoVolumes, VolumeManager
from dray.runtimes.interface import Runtime

if TYPE_CHECKING:
    from dray.api.types.core import Container, Pod, ResourceStatus
    from dray.api.types.resource import ResourceClaim
    from dray.api.types.resource_v1alpha2 import ResourceClaim as ClassicClaim


@dataclass(frozen=True, slots=True)
class Shared:
    """What the nodes of one process have in common."""

    runtime: Runtime
    metrics: Metrics
    clock: Callable[[], float]
    version: str  # of the resource API
    release: EffectiveVersion  # of nodes that have none of their own
    git_version: str = EffectiveVersion().git_version  # reported by nodes that have none of their own
    classic_slices: bool = False  # slices of 1.30 are served
    services: ServiceLister | None = None  # None where no programs run


class Agent:
    """One node, with its own way to the API server: it builds the parts of the node and lets them run."""

    def __init__(
        self,
        shared: Shared,
        options: NodeOptions,
        client: Client,
        recorder: EventRecorder,
        *,
        pod_ended: Callable[[str], None] = lambda uid: None,
    ) -> None:
        """``pod_ended`` is called with the uid of a pod of which nothing is left on the node."""
        self.options = options
        self.runtime = shared.runtime
        self.client = self._client = client
        self._claims = RESOURCE_CLAIMS.at(shared.version)
        self._quirks = quirks = Quirks.of(options.release or shared.release, options.gates)
        self._driver_registered = asyncio.Event()
        self._pods_known = False
        self._health = HealthInfoCache(shared.clock)
        self._slices = SliceWithdrawal(client, RESOURCE_SLICES.at(shared.version), options.name)
        self._classic_slices: NodeResourcesController | None = None
        self._plugin_manager: DRAPluginManager | None = None
        plugins: Plugins = AssumedPlugins()
        if options.drivers:
            options.paths.create()
            if shared.classic_slices:
                self._classic_slices = self._classic_slice_controller()
            plugins = self._plugin_manager = DRAPluginManager(
                metrics=shared.metrics,
                quirks=quirks,
                withdraw=self._slices.withdraw if options.withdraw_after is not None else None,
                withdraw_after=options.withdraw_after or 0.0,
                on_health=self._health_reported,
                on_usable=lambda driver: self._driver_usable(),
                on_resources=self._classic_slices.changed if self._classic_slices else None,
            )
        self._devices = (
            DeviceManager(
                options.paths.device_plugins, changed=self._devices_changed, locate=options.paths.locate
            )
            if options.drivers
            else None
        )
        self._manager = Manager(
            claims=self._get_claim,
            state=ClaimInfoCache(Checkpoint(options.paths.kubelet) if options.drivers else None),
            plugins=plugins,
            metrics=shared.metrics,
            fixed_names=quirks.names_claims_after_pod_and_entry,
            prepares=quirks.prepares_claims,
            skips_operations=quirks.skips_node_operations,
        )
        self._services = shared.services
        self.workers = PodWorkers(
            self._pod_dependencies(shared.clock, recorder, shared.metrics), ended=pod_ended
        )
        self.registration = NodeRegistration(
            client,
            options,
            runtime=f"{shared.runtime.name}://{shared.runtime.version}",
            version=options.version or shared.git_version,
            clock=shared.clock,
            devices=self._device_counts,
            features=quirks.declared_features,
        )
        self._mirrors = MirrorPods(
            client, options.control_plane, node=options.name, address=options.address, clock=shared.clock
        )

    def _pod_dependencies(
        self, clock: Callable[[], float], recorder: EventRecorder, metrics: Metrics
    ) -> PodDependencies:
        """What a runtime can do decides which parts the workers of pods get."""
        options, client, can = self.options, self._client, self.runtime.capabilities
        node = NodeFacts(options.address, self.runtime.name, options.name, options.capacity)
        services: Services = self._services or NoServices()
        files = can.mounts_host_files
        health = can.runs_programs and self._quirks.shows_device_health
        return PodDependencies(
            client=client,
            report_times=ReportTimes(),
            runtime=self.runtime,
            clock=clock,
            node=node,
            paths=options.paths,
            dns=options.dns,
            claims=self._manager,
            cdi=CdiCache(options.paths.cdi, locate=options.paths.locate),
            volumes=VolumeManager(client, options.paths, clock=clock, allocatable=options.capacity)
            if files
            else NoVolumes(),
            services=services,
            metrics=metrics,
            configs=HostConfigs(
                client,
                options.paths,
                node,
                services=services,
                api_server=options.services,
                capabilities=can,
            )
            if files
            else BareConfigs(),
            probes=ProberManager(self.runtime) if can.runs_programs else NoProbes(),
            events=PodEvents(recorder, warnings_only=not can.runs_programs),
            allocatable=lambda: {**options.capacity, **self._device_counts().allocatable},
            devices=self._devices or NoDevicePlugins(),
            device_health=self._device_health if health else lambda pod, spec: (),
        )

    def _classic_slice_controller(self) -> NodeResourcesController:
        # The kubelet of 1.30 withdrew them at once; to wait is kinder to drivers that are restarted.
        at_once = self._quirks.withdraws_classic_slices_at_once
        return NodeResourcesController(
            self._client,
            self.options.name,
            node_uid=lambda: self.registration.uid,
            withdraw_after=0.0 if at_once else self.options.withdraw_after or 0.0,
        )

    # Running

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Its lease renewed and its drivers being found, for the length of the block."""
        async with asyncio.TaskGroup() as group:
            self.workers.start(group)
            tasks = [group.create_task(self.registration.run(), name=f"lease of {self.options.name}")]
            resources = None
            if self.options.control_plane:
                tasks.append(group.create_task(self._mirrors.run(self.registration.uid), name="mirror pods"))
            if self._plugin_manager:
                tasks += await self._start_plugins(group, self._plugin_manager)
                assert self._devices is not None
                await self._devices.start()
                if self.options.pod_resources:
                    resources = PodResources(
                        self.workers,
                        self._manager,
                        self.options.paths.pod_resources,
                        devices=self._devices,
                        shows_claims=self._quirks.shows_claims_in_pod_resources,
                    )
                    await resources.start()
            try:
                yield
            finally:
                if resources:
                    await resources.stop()
                for task in tasks:
                    task.cancel()
                self.workers.stop()
                if self._plugin_manager:
                    await self._plugin_manager.close()
                if self._devices:
                    await self._devices.stop()

    async def _start_plugins(
        self, group: asyncio.TaskGroup, plugins: DRAPluginManager
    ) -> list[asyncio.Task[None]]:
        name, paths = self.options.name, self.options.paths
        if self.options.withdraw_after is not None:
            # Drivers with slices on this node get the usual time to register. The kubelet withdraws all slices when it
            # starts; to wait is kinder to drivers that merely outlived a restart of the agent.
            for driver in await self._slices.drivers():
                plugins.expect(driver)
        watcher = PluginWatcher(paths.registry, plugins, device_plugins=self._devices, locate=paths.locate)
        tasks = [
            group.create_task(self.registration.report_devices(), name=f"devices of {name}"),
            group.create_task(watcher.run(), name=f"drivers of {name}"),
            group.create_task(self._reconcile(), name=f"claims of {name}"),
            group.create_task(self._health.expire_stale(self._health_changed), name=f"health on {name}"),
        ]
        if self._classic_slices:
            tasks.append(group.create_task(self._classic_slices.run(), name="slices of 1.30"))
        return tasks

    def pods_known(self, recovered: Mapping[str, RecoveredPod]) -> None:
        """Called when all pods have been announced: what else there is belongs to pods that are gone."""
        self._pods_known = True
        self._driver_registered.set()
        self.workers.remove_orphans(recovered)
        if self._devices:
            self._devices.release_gone({*recovered, *(w.pod["metadata"]["uid"] for w in self.workers)})

    # Pods

    def pod_added(self, pod: Pod, *, recovered: RecoveredPod | None = None) -> None:
        if pods.is_mirror(pod):
            self._mirrors.changed(pod)
        else:
            self.workers.update(pod, recovered=recovered)

    def mirror_log(self, pod: Pod) -> Path | None:
        """The log of the control plane's part that a mirror pod shows."""
        return self._mirrors.log(pod)

    def pod_updated(self, pod: Pod) -> None:
        self.pod_added(pod)

    def pod_deleted(self, pod: Pod) -> None:
        if pods.is_mirror(pod):
            self._mirrors.deleted(pod)
        else:
            self.workers.remove(pod)

    async def _get_claim(self, namespace: str, name: str) -> ResourceClaim | ClassicClaim:
        claim = await self._client.get(self._claims, namespace, name)
        if bridge.is_classic(claim):  # today's versions show little of it
            return await self._client.get(CLASSIC_RESOURCE_CLAIMS, namespace, name)
        return claim

    def _device_health(self, pod: Pod, spec: Container) -> Sequence[ResourceStatus]:
        claims = self._health.container_status(pod, spec, self._manager)
        return [*claims, *(self._devices.health(pod, spec["name"]) if self._devices else ())]

    def _device_counts(self) -> DeviceCounts:
        if self._devices is None:
            return DeviceCounts()
        return DeviceCounts(self._devices.capacity(), self._devices.allocatable())

    def _devices_changed(self) -> None:
        assert self._devices is not None
        self.registration.devices_changed()
        self.workers.health_changed(self._devices.pods())

    # Drivers

    def _health_reported(self, driver: str, reports: Sequence[HealthReport] | None) -> None:
        self._health_changed(driver, self._health.update(driver, reports))

    def _health_changed(self, driver: str, devices: Iterable[PoolDevice]) -> None:
        self.workers.health_changed(self._manager.pods_using(driver, devices))

    def _driver_usable(self) -> None:
        """A driver has come. Pods that waited for one need not wait out their pause."""
        self._driver_registered.set()
        self.workers.retry_failed()

    async def _reconcile(self) -> None:
        """Unprepares leftover claims every minute, and when a driver has come that they may have waited for."""
        while True:
            self._driver_registered.clear()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(RECONCILE_PERIOD):
                    await self._driver_registered.wait()
            if self._pods_known:
                await self.workers.reconcile_claims()

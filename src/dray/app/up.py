"""``dray up``: every component of a cluster in one process, each under its own identity.

A component is an async function of the cluster; it runs until it is cancelled. A component that fails is started again;
one that cannot be started in the first place ends the whole cluster with an error.
"""

from __future__ import annotations

import asyncio
import logging
import os
import shlex
import shutil
import sys
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, cast

from dray.api.release import EffectiveVersion, SettingError
from dray.api.user import UserInfo
from dray.app import components as parts
from dray.app import controlplane, datadir, other_releases
from dray.app.dashboard import Dashboard, open_dashboard, run_dashboard
from dray.app.kubectl_cache import stale_discovery
from dray.app.options import Address, OptionError, ServerOptions
from dray.app.process import shutdown_event, tune_gc
from dray.app.quirks import Quirks
from dray.app.server import RunningServer, run_server
from dray.backoff import Backoff
from dray.placement.config import Configuration
from dray.server.inprocess import InProcessTransport

if TYPE_CHECKING:
    from dray.api.types.resource import ResourceSlice
    from dray.api.types.resource_v1alpha2 import ResourceSlice as StructuredResourceSlice

log = logging.getLogger(__name__)

GET_KUBECTL = "https://kubernetes.io/docs/tasks/tools"
RESTART_BACKOFF = Backoff(initial=1.0, maximum=30.0)


@dataclass(frozen=True, kw_only=True, slots=True)
class UpOptions:
    server: ServerOptions
    nodes: int = 3
    devices: int = 8
    drivers: tuple[str, ...] | None = None  # default: those that fit the release
    without: tuple[str, ...] = ()  # those of ``CONTROL_PLANE`` that somebody else runs
    runtime: str = "process"
    pod_network: str = "bridge"  # or "host"
    withdraw_after: float = 30.0  # seconds until the slices of a driver that is gone are withdrawn
    scheduler: Configuration = field(default_factory=Configuration)
    ui: Address | None = None  # where the dashboard is served; None: nowhere
    scheduler_flags: tuple[str, ...] = ()  # with these ``dray scheduler`` has the same configuration
    clock: Callable[[], float] = time.time
    monotonic: Callable[[], float] = time.monotonic


@dataclass(frozen=True, slots=True)
class RunningCluster:
    """What components are given."""

    options: UpOptions
    server: RunningServer
    registered: asyncio.Event = field(default_factory=asyncio.Event)  # the nodes are known to the API server
    ready: asyncio.Event = field(
        default_factory=asyncio.Event
    )  # the user has been told that the cluster is ready
    #: Drivers that wait for an API which is switched off, and what they miss.
    waiting: dict[str, str] = field(default_factory=dict)
    dashboard: Dashboard | None = None

    @property
    def data(self) -> Path:
        return self.options.server.data

    @property
    def quirks(self) -> Quirks:
        return Quirks.of(self.server.api.version)

    @property
    def node_names(self) -> list[str]:
        return [f"node-{i + 1}" for i in range(self.options.nodes)]

    def transport(self, user: str, *groups: str) -> InProcessTransport:
        """The in-process way to the API server, as this user."""
        return InProcessTransport(
            self.server.api, UserInfo(user, groups=groups), agent=user.rpartition(":")[2]
        )


Ready = Callable[[], None]
Run = Callable[[RunningCluster, Ready], Awaitable[None]]

#: What upstream's programs can do in dray's place: kube-scheduler and kube-controller-manager.
CONTROL_PLANE: Mapping[str, Run] = {"scheduler": parts.scheduler, "controllers": parts.controllers}


@dataclass(frozen=True, slots=True)
class Component:
    """Runs until it is cancelled, and says when it has begun to do its work."""

    name: str
    run: Run

    def deferred(self) -> Component:
        """The same component, started after the cluster is ready instead of before."""

        async def run(cluster: RunningCluster, ready: Ready) -> None:
            ready()
            await cluster.ready.wait()
            await self.run(cluster, lambda: None)

        return Component(self.name, run)


def components(cluster: RunningCluster) -> Sequence[Component]:
    """What runs beside the API server, in the order in which it is started."""
    options = cluster.options
    listed = [Component(name, run) for name, run in CONTROL_PLANE.items() if name not in options.without]
    if options.nodes:
        listed.append(Component("nodes", parts.nodes))
        drivers = [Component(f"driver {name}", DRIVERS[name].run) for name in started_drivers(cluster)]
        listed += [*drivers[:1], *(driver.deferred() for driver in drivers[1:])]
    if cluster.dashboard is not None:
        listed.append(Component("dashboard", _dashboard))
    return listed


async def _dashboard(cluster: RunningCluster, ready: Ready) -> None:
    assert cluster.dashboard is not None
    ready()
    await run_dashboard(cluster.dashboard, cluster.options.server.kubeconfig_path)


class ShippedDriver(NamedTuple):
    name: str  # as in slices and claims; written here too, as the import of a driver takes a while
    run: Run


DRIVERS = {
    "gpu": ShippedDriver("gpu.example.com", parts.gpu_driver),
    "nic": ShippedDriver("nic.example.com", parts.nic_driver),
    "cats": ShippedDriver("resource-driver.example.com", parts.cats_driver),
}


def started_drivers(cluster: RunningCluster) -> list[str]:
    chosen = cluster.options.drivers
    wanted = default_drivers(cluster.quirks) if chosen is None else chosen
    return [name for name in wanted if name != "none"] if cluster.options.nodes else []


def default_drivers(quirks: Quirks) -> list[str]:
    """The cats come with every release, the GPUs where there are DeviceClasses. ``dray up`` is ready when the first is."""
    return ["gpu", "cats"] if quirks.serves_device_classes else ["cats"]


def check_drivers(names: Sequence[str], emulate: str) -> None:
    try:
        version = EffectiveVersion.parse(emulate)
    except SettingError as e:
        raise OptionError(str(e)) from e
    for name in names:
        if name != "none" and name not in DRIVERS:
            raise OptionError(f"--drivers {name}: there are {', '.join(DRIVERS)} and none")
        if name in ("gpu", "nic") and not Quirks.of(version).serves_device_classes:
            raise OptionError(f"--drivers {name}: there are no DeviceClasses in {version.emulation}")


def check_without(names: Sequence[str], scheduler_flags: Sequence[str]) -> None:
    for name in names:
        if name not in CONTROL_PLANE:
            raise OptionError(
                f"--without {name}: a cluster can do without {' and '.join(CONTROL_PLANE)}; "
                "--nodes 0 and --drivers none leave out the rest"
            )
    if "scheduler" in names and scheduler_flags:
        raise OptionError(f"--without scheduler: no scheduler is there to heed {' '.join(scheduler_flags)}")


def check_runtime(text: str) -> None:
    kind, _, argument = text.partition(":")
    if kind not in ("simulated", "process", "cri") or (kind == "cri") != bool(argument):
        raise OptionError(f"--runtime {text}: there are simulated, process and cri:SOCKET")


@dataclass(slots=True)
class Hooks:
    """Called along the way; tests and ``--detach`` use them."""

    ready: Callable[[RunningCluster], None] = field(default=lambda cluster: None)
    #: After ``ready``. A process that is not dray's own may not want its collector touched.
    settled: Callable[[], None] = tune_gc
    #: Takes the place of a component, for those who stop and start it themselves.
    replace: Callable[[Component], Component] = field(default=lambda component: component)


async def run_up(options: UpOptions, *, hooks: Hooks | None = None, end: asyncio.Event | None = None) -> None:
    """Run a cluster until a signal (or ``end``)."""
    check_drivers(options.drivers or (), options.server.emulate)
    check_runtime(options.runtime)
    check_without(options.without, options.scheduler_flags)
    hooks = hooks or Hooks()
    end = end or shutdown_event()
    server_options = options.server
    with datadir.locked(server_options.data), controlplane.component_logs(server_options.data):
        async with run_server(server_options, clock=options.clock) as server:
            await other_releases.leave_behind(server.api)
            dashboard = open_dashboard(options.ui, server_options.data) if options.ui is not None else None
            cluster = RunningCluster(options, server, dashboard=dashboard)
            await parts.withdraw_announcements(cluster)
            await parts.allow_nodes_to_join(cluster)
            datadir.write_state(server_options.data, cluster_state(cluster))
            try:
                await _run_components(cluster, [hooks.replace(c) for c in components(cluster)], hooks, end)
            finally:
                datadir.remove_state(server_options.data)
                if dashboard is not None:
                    dashboard.listener.close()


async def _run_components(
    cluster: RunningCluster, listed: Sequence[Component], hooks: Hooks, end: asyncio.Event
) -> None:
    async with asyncio.TaskGroup() as group:
        begun = {c.name: asyncio.Event() for c in listed}
        tasks = [group.create_task(_supervised(c, cluster, begun[c.name]), name=c.name) for c in listed]
        ending = group.create_task(end.wait())
        started = group.create_task(_all(begun.values()))
        await asyncio.wait((ending, started), return_when=asyncio.FIRST_COMPLETED)
        if started.done():
            datadir.write_state(cluster.data, cluster_state(cluster))
            hooks.ready(cluster)
            hooks.settled()
            cluster.ready.set()
            await ending
        for task in (started, *tasks):
            task.cancel()


async def _all(events: Iterable[asyncio.Event]) -> None:
    for event in events:
        await event.wait()


async def _supervised(component: Component, cluster: RunningCluster, begun: asyncio.Event) -> None:
    """Run a component, and start it again when it fails. One that fails before it ever began to work ends the cluster."""
    controlplane.component.set(component.name)
    pauses = RESTART_BACKOFF.pauses()
    while True:
        started = time.monotonic()
        try:
            await component.run(cluster, begun.set)
            raise RuntimeError(f"{component.name} has ended unexpectedly")
        except Exception as problem:
            if not begun.is_set():
                raise
            if time.monotonic() - started > RESTART_BACKOFF.maximum:
                pauses = RESTART_BACKOFF.pauses()
            pause = next(pauses)
            log.error(
                "%s failed and is started again in %g s: %s", component.name, pause, problem, exc_info=True
            )
            await asyncio.sleep(pause)


def cluster_state(cluster: RunningCluster) -> datadir.ClusterState:
    """What others are told about the cluster, and what ``dray up`` prints."""
    import os

    from dray.node.options import has_plugin_sockets

    options = cluster.options.server
    return datadir.ClusterState(
        pid=os.getpid(),
        url=cluster.server.url,
        kubeconfig=str(options.kubeconfig_path),
        store=options.store,
        release=options.emulate,
        started=time.time(),
        devices=driver_lines(cluster),
        commands=_next_commands(cluster),
        nodes=cluster.node_names if has_plugin_sockets(cluster.options.runtime) else [],
        dashboard=cluster.dashboard.url if cluster.dashboard is not None else "",
    )


def driver_lines(cluster: RunningCluster) -> list[str]:
    """What the drivers have published, node by node, and the drivers that have not published anything."""
    resource = cluster.server.api.resources.resource("resource.k8s.io", "resourceslices")
    found: dict[tuple[str, str], int] = {}
    for document in resource.cache.documents.values() if resource is not None else ():
        where, count = _devices_of(document.hub)
        found[where] = found.get(where, 0) + count
    lines = [f"{node}: {count} devices of {driver}" for (node, driver), count in sorted(found.items())]
    published = {driver for _, driver in found}
    silent = [d for name in started_drivers(cluster) if (d := DRIVERS[name].name) not in published]
    has_claims = cluster.server.api.resources.resource("resource.k8s.io", "resourceclaims") is not None
    for driver in silent:  # those that start after the cluster is ready have not looked yet
        problem = cluster.waiting.get(driver, "" if has_claims else "the server has no ResourceClaims")
        lines.append(
            f"{driver} waits for its API: {problem}" if problem else f"every node: the driver {driver}"
        )
    return lines


def _next_commands(cluster: RunningCluster) -> list[str]:
    """What to type on a new cluster: commands for what it serves and has."""
    shown = "nodes"
    for plural, beside in (("deviceclasses", "resourceslices"), ("resourceclasses", "resourceclaims")):
        if cluster.server.api.resources.resource("resource.k8s.io", plural) is not None:
            shown = f"nodes,{plural},{beside}"
            break
    commands = [f"kubectl get {shown}" + ("" if _has_kubectl() else f"    # needs kubectl: {GET_KUBECTL}")]
    if stale := stale_discovery(cluster.server.url, cluster.server.api.resources.groups()):
        commands.insert(0, f"rm -r {shlex.quote(str(stale))}    # kubectl remembers another release there")
    if "gpu" in started_drivers(cluster) and DRIVERS["gpu"].name not in cluster.waiting:
        commands += [
            "dray demo       # a pod gets a device, scene by scene",
            "dray devices    # which are free, and who has the others",
        ]
    return commands


def _has_kubectl() -> bool:
    """Whether a shell finds kubectl after the line that puts dray's directory on the PATH."""
    folders = (os.environ.get("PATH", os.defpath), str(Path(sys.executable).parent))
    return shutil.which("kubectl", path=os.pathsep.join(folders)) is not None


def _devices_of(stored: Mapping[str, object]) -> tuple[tuple[str, str], int]:
    """Node, driver and number of devices of a slice; those of 1.30 have no ``spec``."""
    if "spec" in stored:
        spec = cast("ResourceSlice", stored)["spec"]
        return (spec.get("nodeName") or "-", spec.get("driver") or ""), len(spec.get("devices") or ())
    old = cast("StructuredResourceSlice", stored)
    instances = (old.get("namedResources") or {}).get("instances") or ()
    return (old.get("nodeName") or "-", old.get("driverName") or ""), len(instances)

"""A cluster in a thread of the test's own process: its own port, its own directory, everything in memory."""

from __future__ import annotations

import asyncio
import itertools
import os
import shutil
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Coroutine, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

from dray.api.errors import NotFound, StatusError
from dray.api.identity import ObjectKey
from dray.app.datadir import node_directory
from dray.app.options import Address, OptionError, ServerOptions
from dray.app.up import Hooks, RunningCluster, UpOptions, run_up
from dray.client.client import Client
from dray.client.discovery import Discovery
from dray.client.resources import NAMESPACES, PODS, Resource
from dray.node.hostpaths import HostPaths
from dray.testing.client import SyncClient
from dray.testing.clock import ShiftedLoop, advance
from dray.testing.nodes import NodeAgents
from dray.testing.wait import wait_for

if TYPE_CHECKING:
    from dray.api.types import Object
    from dray.api.types.core import Namespace, Pod
    from dray.driver.base import Driver
    from dray.testing.drivers import DriverProcess, RunningDriver

R = TypeVar("R")

_START_SECONDS = 30.0
_STOP_SECONDS = 30.0


class ClusterError(Exception):
    """The cluster cannot be started as asked for, or a tool that the test needs is not there."""


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What a cluster is like. Clusters of equal settings can stand in for one another."""

    nodes: int = 3
    devices: int = 8  # of gpu.example.com on every node
    release: str = ""  # such as "1.34"; empty for everything that dray can do
    gates: Mapping[str, bool] = field(default_factory=dict)
    drivers: tuple[str, ...] = ("gpu",)
    #: ``simulated``: pods run without processes. ``process``: they run, and nodes take drivers at their sockets.
    runtime: str = "simulated"
    fake_clock: bool = False  # ``Cluster.advance`` moves the cluster's time forward

    def __hash__(self) -> int:
        return hash((self.nodes, self.devices, self.release, tuple(sorted(self.gates.items())), self.drivers))


@contextmanager
def cluster(
    *,
    nodes: int = 3,
    devices: int = 8,
    release: str = "",
    gates: Mapping[str, bool] | None = None,
    drivers: tuple[str, ...] = ("gpu",),
    runtime: str = "simulated",
    fake_clock: bool = False,
) -> Iterator[Cluster]:
    """A cluster for the duration of a block."""
    settings = Settings(
        nodes=nodes, devices=devices, release=release, gates=gates or {}, drivers=drivers, runtime=runtime,
        fake_clock=fake_clock,
    )  # fmt: skip
    started = Cluster(settings)
    started.start()
    try:
        yield started
    finally:
        started.stop()


class Cluster:
    """A cluster that runs from ``start`` to ``stop``."""

    url: str
    nodes: list[str]
    client: SyncClient

    def __init__(self, settings: Settings | None = None) -> None:
        self.settings = settings or Settings()
        self.data = Path()
        self._running: RunningCluster | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._end: asyncio.Event | None = None
        self._began = threading.Event()
        self._problem: BaseException | None = None
        self._thread: threading.Thread | None = None
        self._drivers: list[RunningDriver | DriverProcess] = []
        self._names = itertools.count(1)
        self.node_agents = NodeAgents(self.run)

    # -- from start to stop -----------------------------------------------------------------------------------------

    def start(self) -> None:
        """Start everything, and return when the devices are there."""
        self.data = Path(tempfile.mkdtemp(prefix="dray-testing-"))
        self._thread = threading.Thread(target=self._run, name="dray cluster", daemon=True)
        self._thread.start()
        if not self._began.wait(_START_SECONDS):
            self._problem = TimeoutError(f"the cluster is not ready after {_START_SECONDS:g} s")
        if self._problem is not None:
            self.stop()
            if isinstance(self._problem, OptionError):
                raise ClusterError(str(self._problem)) from None
            raise ClusterError(f"the cluster cannot be started: {self._problem}") from self._problem
        assert self._running is not None
        self.url, self.nodes = self._running.server.url, self._running.node_names
        admin = Client(self._running.transport("admin", "system:masters", "system:authenticated"))
        self.client = SyncClient(admin, self.run)
        self._admin = admin

    def stop(self) -> None:
        """End everything and remove the data."""
        for driver in self._drivers:
            driver.kill()
        if self._thread is not None:
            if self._loop is not None and self._end is not None and self._thread.is_alive():
                self._loop.call_soon_threadsafe(self._end.set)
            self._thread.join(_STOP_SECONDS)
            self._thread = None
        shutil.rmtree(self.data, ignore_errors=True)

    def _run(self) -> None:
        import uvloop

        factory = ShiftedLoop if self.settings.fake_clock else uvloop.new_event_loop
        try:
            with asyncio.Runner(loop_factory=factory) as runner:
                runner.run(self._live())
        except BaseException as problem:
            self._problem = _cause(problem)
        finally:
            self._began.set()

    async def _live(self) -> None:
        settings = self.settings
        self._loop, self._end = asyncio.get_running_loop(), asyncio.Event()
        loop = self._loop
        options = UpOptions(
            server=ServerOptions(
                listen=Address(port=0, tries=1),
                data=self.data,
                store="memory",
                emulate=settings.release,
                feature_gates=",".join(f"{gate}={str(on).lower()}" for gate, on in settings.gates.items()),
            ),
            nodes=settings.nodes,
            devices=settings.devices,
            drivers=settings.drivers,
            runtime=settings.runtime,
            pod_network="host",
            clock=loop.wall_time if isinstance(loop, ShiftedLoop) else time.time,
            monotonic=loop.time if isinstance(loop, ShiftedLoop) else time.monotonic,
        )
        hooks = Hooks(ready=self._ready, settled=lambda: None, replace=self.node_agents.replace)
        await run_up(options, hooks=hooks, end=self._end)

    def _ready(self, running: RunningCluster) -> None:
        self._running = running
        self._began.set()

    def run(self, work: Coroutine[Any, Any, R]) -> R:
        """Run something async in the cluster's thread, and wait for its result."""
        assert self._loop is not None
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    def advance(self, seconds: float) -> None:
        """Move the cluster's time forward: what is due by then happens now (setting ``fake_clock``)."""
        if not isinstance(self._loop, ShiftedLoop):
            raise ClusterError("this cluster has the machine's clock; ask for one with fake_clock=True")
        self.run(advance(self._loop, seconds))

    # -- what a test asks for ---------------------------------------------------------------------------------------

    @property
    def kubeconfig(self) -> Path:
        """Of the administrator; for every client library."""
        return self.data / "kubeconfig"

    def kubelet_dir(self, node: str) -> Path:
        """Where a driver registers on a node (runtime ``process``)."""
        return self._paths(node).kubelet

    def cdi_dir(self, node: str) -> Path:
        """Where a driver puts its CDI files on a node (runtime ``process``)."""
        return self._paths(node).cdi[0]

    def _paths(self, node: str) -> HostPaths:
        return HostPaths.below(node_directory(self.data, node))

    @contextmanager
    def namespace(self, name: str = "") -> Iterator[str]:
        """A namespace for the duration of a block. Its objects go with it, a moment later."""
        name = name or f"test-{next(self._names)}"
        made: Namespace = {"metadata": {"name": name}}
        self.client.create(NAMESPACES, "", made)
        try:
            yield name
        finally:
            with_pods = self.client.list(PODS, name)
            for each in with_pods:
                try:
                    self.client.delete(PODS, name, each["metadata"]["name"], grace_seconds=0)
                except NotFound:
                    continue
            self.client.delete(NAMESPACES, "", name)

    def apply(self, *objects: Object, namespace: str = "default") -> list[Any]:
        """Create or change objects of any kind, by what their apiVersion and kind say."""
        return [self._apply(each, namespace) for each in objects]

    def _apply(self, obj: Object, namespace: str) -> Any:
        resource: Resource[Any] = self.run(_resource_of(self._admin, obj))
        metadata = obj["metadata"]
        where = (metadata.get("namespace") or namespace) if resource.namespaced else ""
        made = self.client.apply(resource, where, obj)
        if (status := cast("Mapping[str, Any]", obj).get("status")) is not None:
            made = self.client.patch(
                resource, where, metadata["name"], {"status": status}, subresource="status"
            )
        return made

    def kubectl(self, *arguments: str, input: str = "", check: bool = True) -> str:
        """What kubectl prints. ``$DRAY_KUBECTL`` or the one on the PATH."""
        binary = os.environ.get("DRAY_KUBECTL") or shutil.which("kubectl")
        if binary is None:
            raise ClusterError("there is no kubectl on the PATH; install one, or name one in $DRAY_KUBECTL")
        done = subprocess.run(
            [binary, "--kubeconfig", str(self.kubeconfig), "--cache-dir", str(self.data / "kubectl"), *arguments],
            input=input, capture_output=True, text=True, check=False,
        )  # fmt: skip
        if check and done.returncode != 0:
            raise AssertionError(
                f"kubectl {' '.join(arguments)}: {done.stderr.strip() or done.stdout.strip()}"
            )
        return done.stdout

    def explain(self, kind: str, name: str, namespace: str = "default") -> str:
        """What ``dray explain`` says about a ``pod`` or a ``claim``."""
        return self.run(_explanation(self._admin, kind, ObjectKey(namespace, name)))

    def wait_for_pod(
        self, name: str, namespace: str = "default", *, phase: str = "Running", seconds: float = 10
    ) -> Pod:
        """The pod once it is in a phase. If that does not come, the error says why."""

        def look() -> Pod | None:
            found = self.client.get(PODS, namespace, name)
            return found if (found.get("status") or {}).get("phase") == phase else None

        found = wait_for(
            f"pod {namespace}/{name} to be {phase}", look, seconds=seconds,
            explain=lambda: self.explain("pod", name, namespace),
        )  # fmt: skip
        assert found is not None
        return found

    def wait_for(
        self, what: str, look: Callable[[], R], *, namespace: str = "default", seconds: float = 10
    ) -> R:
        """Look until the answer is true. If that does not come, the error explains the namespace's pending pods."""
        return wait_for(what, look, seconds=seconds, explain=lambda: self._explain_pending(namespace))

    def _explain_pending(self, namespace: str) -> str:
        pending = [
            each["metadata"]["name"]
            for each in self.client.list(PODS, namespace)
            if (each.get("status") or {}).get("phase") == "Pending"
        ]
        if not pending:
            return f"no pod of {namespace} is pending"
        return "\n".join(self.explain("pod", name, namespace) for name in pending)

    # -- drivers ----------------------------------------------------------------------------------------------------

    def start_driver(self, driver: Driver, node: str) -> RunningDriver:
        """Run a driver of the SDK on a node (runtime ``process``), in this process."""
        from dray.testing.drivers import RunningDriver

        running = RunningDriver(self, driver, node)
        self._drivers.append(running)
        running.start()
        return running

    def start_driver_process(self, *command: str, node: str) -> DriverProcess:
        """Run a driver of any language on a node (runtime ``process``), as a process of its own."""
        from dray.testing.drivers import DriverProcess

        running = DriverProcess(self, command, node)
        self._drivers.append(running)
        running.start()
        return running

    @property
    def admin(self) -> Client:
        """The async client of the administrator, for use in the cluster's thread (``run``)."""
        return self._admin


def _cause(problem: BaseException) -> BaseException:
    """The first real problem inside groups of problems."""
    while isinstance(problem, BaseExceptionGroup):
        problem = problem.exceptions[0]
    return problem


async def _resource_of(client: Client, obj: Object) -> Resource[Any]:
    found = await Discovery(client).find(obj["apiVersion"], obj["kind"])
    if found is None:
        raise ClusterError(f"this cluster does not serve {obj['kind']} of {obj['apiVersion']}")
    return found


async def _explanation(client: Client, kind: str, key: ObjectKey) -> str:
    from dray.explain import Cluster as Explained
    from dray.explain import collect_snapshot, explain_claim, explain_pod
    from dray.explain.render.text import render_text

    try:
        explained = Explained(await collect_snapshot(client), filters_nodes=True)
        explain = explain_pod if kind == "pod" else explain_claim
        return render_text(explain(explained, key))
    except (KeyError, StatusError) as problem:
        return f"{kind} {key}: there is nothing to explain: {problem}"

"""A node in full: real sockets, a real driver, real processes (or simulated ones), and a small API server."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import grpc.aio
import pytest

from dray import driver as sdk
from dray.api.errors import BadRequest, InternalError
from dray.api.times import from_epoch
from dray.driver import Claim, Device, Driver, Edits, Health
from dray.driver.model import Allocated, ClaimRef
from dray.kubelet_api.services import POD_RESOURCES, stub
from dray.node.hostpaths import HostPaths
from dray.node.mirror import ControlPlanePart
from dray.node.nodes import Nodes
from dray.node.options import NodeOptions
from dray.node.run import Options, run
from dray.node.server.host import NodeHost, PodLogOptions
from dray.runtimes.interface import SandboxConfig, SandboxStatus
from dray.runtimes.logs import LogOptions
from dray.runtimes.simulated import PREFIX
from dray.wire.unix import SocketPath
from tests.support.device_plugin import DevicePlugin, registered
from tests.support.wait import wait_for

CLAIMS = "/apis/resource.k8s.io/v1/namespaces/ns/resourceclaims"
SLICES = "/apis/resource.k8s.io/v1/resourceslices"
PODS = "/api/v1/namespaces/ns/pods"


class Cats(Driver):
    name = "cats.example.com"
    health = True

    def __init__(self) -> None:
        self.prepared: list[str] = []
        self.unprepared: list[str] = []
        self.plugin: sdk.Plugin | None = None

    def devices(self, node: str) -> list[Device]:
        return [Device(name=f"cat-{i}") for i in range(4)]

    async def started(self, plugin: sdk.Plugin) -> None:
        self.plugin = plugin

    def edits(self, claim: Claim, device: Allocated) -> Edits:
        self.prepared.append(claim.ref.name)
        return Edits(env={"CAT": device.name})

    async def unprepare(self, claim: ClaimRef) -> None:
        self.unprepared.append(claim.name)


class World:
    """One node named las1 in a directory."""

    def __init__(self, api: Any, directory: Path) -> None:
        self.api = api
        self.directory = directory
        self.paths = HostPaths.below(directory / "las1")

    @asynccontextmanager
    async def node(
        self, *, runtime: str = "process", keep: bool = False, **changes: Any
    ) -> AsyncIterator[Nodes]:
        options = Options(
            nodes=[NodeOptions(name="las1", paths=self.paths, **changes)],
            runtime=runtime,
            runtime_dir=self.directory / "runtime",
            keep_containers=keep,
        )
        ready: asyncio.Future[Nodes] = asyncio.get_running_loop().create_future()
        task = asyncio.create_task(run(self.api.client, options=options, ready=ready.set_result))
        await asyncio.wait([task, ready], return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            task.result()
        try:
            yield ready.result()
        finally:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task

    @asynccontextmanager
    async def driver(self, driver: Driver, **changes: Any) -> AsyncIterator[sdk.Plugin]:
        options = sdk.Options(
            **{"node": "las1", "kubelet_dir": self.paths.kubelet, "cdi_dir": self.paths.cdi[0], **changes}
        )
        async with sdk.serving(self.api.client, driver, options=options) as plugin:
            await asyncio.wait_for(plugin.registered(), 10)
            yield plugin

    def claim(self, name: str, *devices: str, pods: tuple[str, ...]) -> None:
        results = [
            {"request": "r", "driver": "cats.example.com", "pool": "las1", "device": d} for d in devices
        ]
        self.api.put(
            f"{CLAIMS}/{name}",
            {
                "metadata": {"namespace": "ns", "name": name, "uid": f"uid-{name}"},
                "status": {
                    "allocation": {"devices": {"results": results}},
                    "reservedFor": [{"uid": f"uid-{p}"} for p in pods],
                },
            },
        )

    def pod(
        self, name: str, script: str = "sleep 1000", *, claims: tuple[str, ...] = (), **spec: Any
    ) -> None:
        container = {
            "name": "main",
            "image": "busybox",
            "command": ["sh", "-c", script],
            "resources": {"claims": [{"name": c} for c in claims]},
        }
        annotations = spec.pop("annotations", {})
        self.api.put(
            f"{PODS}/{name}",
            {
                "metadata": {
                    "namespace": "ns",
                    "name": name,
                    "uid": f"uid-{name}",
                    "annotations": annotations,
                },
                "spec": {
                    "nodeName": "las1",
                    "containers": [container],
                    "resourceClaims": [{"name": c, "resourceClaimName": c} for c in claims],
                    **spec,
                },
                "status": {"phase": "Pending"},
            },
        )

    def delete(self, name: str, grace: int = 30) -> None:
        found = self.api.objects[f"{PODS}/{name}"]
        stamp = from_epoch(time.time() + grace)
        metadata = {**found["metadata"], "deletionTimestamp": stamp, "deletionGracePeriodSeconds": grace}
        self.api.put(f"{PODS}/{name}", {**found, "metadata": metadata})

    def status(self, name: str) -> dict[str, Any]:
        found: dict[str, Any] = self.api.objects.get(f"{PODS}/{name}", {}).get("status", {})
        return found

    def phase(self, name: str) -> str:
        return str(self.status(name).get("phase", ""))

    def container(self, name: str) -> dict[str, Any]:
        [status] = self.status(name).get("containerStatuses") or [{}]
        found: dict[str, Any] = status
        return found

    def gone(self, name: str) -> bool:
        return f"{PODS}/{name}" not in self.api.objects

    def log(self, name: str, attempt: int = 0) -> str:
        path = self.paths.pod_logs("ns", name, f"uid-{name}") / "main" / f"{attempt}.log"
        return path.read_text() if path.exists() else ""

    @property
    def events(self) -> list[tuple[str, str]]:
        return [(e["reason"], e["message"]) for e in self.api.all("events")]


async def test_a_pod_with_a_claim_runs_with_its_device_and_leaves_nothing_behind(
    api: Any, tmp_path: Path
) -> None:
    world, cats = World(api, tmp_path), Cats()
    async with world.node(), world.driver(cats):
        world.claim("c", "cat-2", pods=("p",))
        world.pod("p", "echo I have $CAT; sleep 1000", claims=("c",))
        await wait_for(
            "pod p to run with cat-2", lambda: world.phase("p") == "Running" and "cat-2" in world.log("p")
        )
        assert "I have cat-2" in world.log("p")
        specs = tmp_path / "las1" / "cdi"
        assert [p.name for p in specs.glob("*uid-c*")] == ["k8s.cats.example.com-cats_uid-c.json"]
        world.delete("p")
        await wait_for("pod p to go", lambda: world.gone("p"))
        assert (cats.prepared, cats.unprepared) == (["c"], ["c"])
        assert list(specs.glob("*uid-c*")) == []
        assert not (world.paths.pod("uid-p")).exists()


async def test_the_node_registers_and_holds_a_lease(api: Any, tmp_path: Path) -> None:
    world = World(api, tmp_path)
    async with world.node(labels={"rack": "r1"}):
        node = api.objects["/api/v1/nodes/las1"]
        assert node["metadata"]["labels"]["kubernetes.io/hostname"] == "las1"
        assert node["metadata"]["labels"]["rack"] == "r1"
        assert {c["type"]: c["status"] for c in node["status"]["conditions"]}["Ready"] == "True"
        lease = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/las1"
        await wait_for("the lease", lambda: lease in api.objects)
        assert api.objects[lease]["spec"]["holderIdentity"] == "las1"


async def test_a_pod_that_waits_for_its_claim_has_an_event(api: Any, tmp_path: Path) -> None:
    world = World(api, tmp_path)
    async with world.node(), world.driver(Cats()):
        world.claim("c", "cat-0", pods=())
        world.pod("p", claims=("c",))
        await wait_for("an event", lambda: world.events)
        [(reason, message)] = world.events
        assert reason == "FailedPrepareDynamicResources"
        assert message == (
            "Failed to prepare dynamic resources: prepare dynamic resources: "
            "pod p (uid-p) is not allowed to use ResourceClaim c (uid-c)"
        )
        assert world.container("p")["state"] == {"waiting": {"reason": "ContainerCreating"}}
        world.claim("c", "cat-0", pods=("p",))
        await wait_for("pod p to run", lambda: world.phase("p") == "Running")


async def test_a_pod_waits_for_a_driver_and_starts_as_soon_as_it_comes(api: Any, tmp_path: Path) -> None:
    world = World(api, tmp_path)
    async with world.node():
        world.claim("c", "cat-0", pods=("p",))
        world.pod("p", claims=("c",))
        await wait_for(
            "an event about the missing driver",
            lambda: any("DRA driver cats.example.com is not registered" in m for _, m in world.events),
        )
        async with world.driver(Cats()):
            await wait_for("pod p to run", lambda: world.phase("p") == "Running")


async def test_a_failing_container_is_restarted_and_its_last_log_kept(api: Any, tmp_path: Path) -> None:
    world = World(api, tmp_path)
    async with world.node():
        world.pod("p", "echo hello; exit 3")
        await wait_for("a restart", lambda: world.container("p").get("restartCount") == 1)
        await wait_for(
            "the container to wait for its restart", lambda: "waiting" in world.container("p")["state"]
        )
        container = world.container("p")
        assert container["state"]["waiting"]["reason"] == "CrashLoopBackOff"
        assert container["lastState"]["terminated"]["exitCode"] == 3
        assert "hello" in world.log("p", attempt=0)
        told = ("BackOff", "Back-off restarting failed container main in pod p_ns(uid-p)")
        await wait_for("the event about the restart", lambda: told in world.events)


async def test_a_pod_that_runs_once_succeeds_after_its_claims_are_free(api: Any, tmp_path: Path) -> None:
    world, cats = World(api, tmp_path), Cats()
    phases: list[tuple[str, list[str]]] = []
    async with world.node(), world.driver(cats):
        world.claim("c", "cat-0", pods=("p",))
        store = api.put

        def watching(path: str, obj: dict[str, Any]) -> Any:
            if path == f"{PODS}/p":
                phases.append((obj["status"]["phase"], list(cats.unprepared)))
            return store(path, obj)

        api.put = watching
        world.pod("p", "true", claims=("c",), restartPolicy="Never")
        await wait_for("pod p to succeed", lambda: world.phase("p") == "Succeeded")
    assert [unprepared for phase, unprepared in phases if phase == "Succeeded"] == [["c"]]


async def test_a_container_whose_command_is_not_there_waits_longer_and_longer(
    api: Any, tmp_path: Path
) -> None:
    world = World(api, tmp_path)
    async with world.node():
        main = {"name": "main", "image": "registry.example/driver:1", "command": ["nosuchbinary"]}
        world.pod("p", containers=[main])
        await wait_for(
            "the container to wait for its restart",
            lambda: (
                world.container("p").get("state", {}).get("waiting", {}).get("reason") == "CrashLoopBackOff"
            ),
        )
        await asyncio.sleep(0.3)
        assert world.container("p")["restartCount"] == 1
        assert world.container("p")["lastState"]["terminated"]["reason"] == "StartError"
        told = ("BackOff", "Back-off restarting failed container main in pod p_ns(uid-p)")
        await wait_for("the event about the restart", lambda: told in world.events)
        [hint] = {message for reason, message in world.events if reason == "ImageNotUsed"}
        assert 'runs commands of its host, not image "registry.example/driver:1"' in hint
        assert "--runtime cri:SOCKET" in hint


async def test_a_container_without_a_command_sleeps_and_an_event_says_so(api: Any, tmp_path: Path) -> None:
    world = World(api, tmp_path)
    async with world.node():
        world.pod("p", containers=[{"name": "main", "image": "nginx"}])
        await wait_for("pod p to run", lambda: world.phase("p") == "Running")
        await wait_for(
            "an event",
            lambda: any("has no command, so it only sleeps" in message for _, message in world.events),
        )


async def test_a_container_with_an_unusable_device_spec_has_an_event(api: Any, tmp_path: Path) -> None:
    world = World(api, tmp_path)
    async with world.node(), world.driver(Cats()):
        world.claim("c", "cat-0", pods=("p",))
        os.mkfifo(world.paths.cdi[0] / "fifo.json")
        (world.paths.cdi[0] / "odd.json").write_text('{"cdiVersion": [], "devices": "all"}')
        world.pod("p", "sleep 1000", claims=("c",))
        await wait_for("pod p to run all the same", lambda: world.phase("p") == "Running")
        world.claim("d", "cat-1", pods=("q",))
        edits = {"env": ["CAT=another"]}
        spec = {
            "cdiVersion": "0.6.0",
            "kind": "k8s.cats.example.com/cats",
            "devices": [{"name": "uid-d-cat-1", "containerEdits": edits}],
        }
        (world.paths.cdi[0] / "twice.json").write_text(json.dumps(spec))
        world.pod("q", "sleep 1000", claims=("d",))
        await wait_for(
            "an event about pod q",
            lambda: any(r == "Failed" and "twice.json" in message for r, message in world.events),
        )


async def test_an_unknown_command_is_reported(api: Any, tmp_path: Path) -> None:
    world = World(api, tmp_path)
    async with world.node():
        world.pod("p", restartPolicy="Never")
        found = api.objects[f"{PODS}/p"]
        container = {**found["spec"]["containers"][0], "command": ["no-such-thing"]}
        world.api.remove(f"{PODS}/p")
        api.put(f"{PODS}/q", {**found, "metadata": {"namespace": "ns", "name": "q", "uid": "uid-q"},
                              "spec": {**found["spec"], "containers": [container]}})  # fmt: skip
        await wait_for("pod q to fail", lambda: world.phase("q") == "Failed")
        terminated = world.container("q")["state"]["terminated"]
        assert (terminated["exitCode"], terminated["reason"]) == (128, "StartError")
        assert "executable file not found" in terminated["message"]


async def test_a_restarted_agent_finds_its_pods_running_and_prepares_nothing_anew(
    api: Any, tmp_path: Path
) -> None:
    world, cats = World(api, tmp_path), Cats()
    async with contextlib.AsyncExitStack() as stack:
        async with world.node(keep=True):
            await stack.enter_async_context(world.driver(cats))
            world.claim("c", "cat-0", pods=("p",))
            world.pod("p", claims=("c",))
            await wait_for("pod p to run", lambda: world.phase("p") == "Running")
            first = world.container("p")["containerID"]
        async with world.node():
            world.delete("p", grace=5)
            await wait_for("pod p to go", lambda: world.gone("p"))
    assert first.startswith("process://")
    assert (cats.prepared, cats.unprepared) == (["c"], ["c"])


async def test_containers_of_pods_deleted_during_a_restart_are_removed(api: Any, tmp_path: Path) -> None:
    world, cats = World(api, tmp_path), Cats()
    async with contextlib.AsyncExitStack() as stack:
        async with world.node(keep=True):
            await stack.enter_async_context(world.driver(cats))
            world.claim("c", "cat-0", pods=("p",))
            world.pod("p", claims=("c",))
            await wait_for("pod p to run", lambda: world.phase("p") == "Running")
        api.remove(f"{PODS}/p")
        async with world.node() as nodes:
            await wait_for("claim c to be unprepared", lambda: cats.unprepared == ["c"])
            assert (await nodes.shared.runtime.list()).containers == []


async def test_two_instances_of_a_driver_hand_over_without_a_gap(api: Any, tmp_path: Path) -> None:
    world, old, new = World(api, tmp_path), Cats(), Cats()
    async with world.node(), contextlib.AsyncExitStack() as stack:
        async with world.driver(old, instance="one"):
            world.claim("c", "cat-0", pods=("p",))
            world.pod("p", claims=("c",))
            await wait_for("pod p to run", lambda: world.phase("p") == "Running")
            await stack.enter_async_context(world.driver(new, instance="two"))
        world.delete("p", grace=1)
        await wait_for("pod p to go", lambda: world.gone("p"))
    assert (old.prepared, old.unprepared, new.unprepared) == (["c"], [], ["c"])


async def test_slices_of_a_driver_that_is_gone_are_withdrawn_after_a_while(api: Any, tmp_path: Path) -> None:
    world = World(api, tmp_path)
    async with world.node(withdraw_after=0.3):
        async with world.driver(Cats()):
            await wait_for("slices", lambda: api.all("resourceslices"))
            await asyncio.sleep(0.4)
            assert api.all("resourceslices")
        assert api.all("resourceslices")
        await wait_for("the slices of the gone driver to go", lambda: not api.all("resourceslices"))


async def test_slices_stay_without_a_withdrawal_delay(api: Any, tmp_path: Path) -> None:
    world = World(api, tmp_path)
    async with world.node(withdraw_after=None):
        async with world.driver(Cats()):
            await wait_for("slices", lambda: api.all("resourceslices"))
        await asyncio.sleep(0.1)
        assert api.all("resourceslices")


async def test_health_of_devices_shows_in_the_pods_status(api: Any, tmp_path: Path) -> None:
    world, cats = World(api, tmp_path), Cats()

    def health() -> list[tuple[str, str]]:
        entries = world.container("p").get("allocatedResourcesStatus") or []
        return [(r["health"], r.get("message", "")) for e in entries for r in e["resources"]]

    async with world.node(), world.driver(cats) as plugin:
        world.claim("c", "cat-0", pods=("p",))
        world.pod("p", claims=("c",))
        plugin.set_health("las1", "cat-0", Health.HEALTHY)
        await wait_for("the device to be healthy", lambda: health() == [("Healthy", "")])
        plugin.set_health("las1", "cat-0", Health.UNHEALTHY, message="has a cold")
        await wait_for("the device to be unhealthy", lambda: health() == [("Unhealthy", "has a cold")])
        assert world.container("p")["allocatedResourcesStatus"][0]["name"] == "claim:c"


async def test_monitoring_agents_see_the_devices_of_running_pods(api: Any, tmp_path: Path) -> None:
    world = World(api, tmp_path)
    async with world.node(), world.driver(Cats()):
        world.claim("c", "cat-1", pods=("p",))
        world.pod("p", claims=("c",))
        await wait_for("pod p to run", lambda: world.phase("p") == "Running")
        messages = POD_RESOURCES.module
        with SocketPath(world.paths.pod_resources) as address:
            async with grpc.aio.insecure_channel(address.grpc) as channel:
                lister = stub(POD_RESOURCES, channel)
                [listed] = (await lister.List(messages.ListPodResourcesRequest())).pod_resources
                request = messages.GetPodResourcesRequest(pod_name="p", pod_namespace="ns")
                got = (await lister.Get(request)).pod_resources
        assert listed == got
        [resource] = listed.containers[0].dynamic_resources
        [device] = resource.claim_resources
        assert (resource.claim_name, device.driver_name, device.pool_name, device.device_name) == (
            "c",
            "cats.example.com",
            "las1",
            "cat-1",
        )
        assert device.cdi_devices[0].name == "k8s.cats.example.com/cats=uid-c-cat-1"


async def test_drivers_that_serve_only_one_version_are_called(api: Any, tmp_path: Path) -> None:
    world = World(api, tmp_path)
    for versions in (["v1beta1.DRAPlugin"], ["v1.DRAPlugin"]):
        async with world.node(), world.driver(Cats(), versions=versions):
            world.claim("c", "cat-1", pods=("p",))
            world.pod("p", claims=("c",))
            await wait_for("pod p to run", lambda: world.phase("p") == "Running")
            world.delete("p", grace=0)
            await wait_for("pod p to go", lambda: world.gone("p"))


async def test_a_simulated_pod_follows_its_script(api: Any, tmp_path: Path) -> None:
    world = World(api, tmp_path)
    async with world.node(runtime="simulated", drivers=False):
        world.claim("c", "cat-1", pods=("p",))
        world.pod("p", claims=("c",), restartPolicy="Never", annotations={PREFIX + "run-for": "0.01"})
        await wait_for("pod p to succeed", lambda: world.phase("p") == "Succeeded")


async def test_probes_make_a_pod_ready_and_restart_it_when_it_hangs(api: Any, tmp_path: Path) -> None:
    world = World(api, tmp_path)
    async with world.node():
        container = {
            "name": "main",
            "image": "i",
            "command": ["sh", "-c", "touch /alive; sleep 1000"],
            "readinessProbe": {"exec": {"command": ["cat", "/alive"]}, "periodSeconds": 1},
            "livenessProbe": {
                "exec": {"command": ["test", "!", "-e", "/dead"]}, "periodSeconds": 1, "failureThreshold": 1,
            },
        }  # fmt: skip
        world.pod("p", containers=[container], terminationGracePeriodSeconds=0)
        await wait_for("the container to be ready", lambda: world.container("p").get("ready"))
        worker_id = world.container("p")["containerID"].removeprefix("process://")
        async with _runtime(world) as runtime:
            await runtime.exec_sync(worker_id, ["touch", "/dead"], timeout=5)
        await wait_for("a restart", lambda: world.container("p").get("restartCount") == 1)
        await wait_for(
            "an event about the liveness probe",
            lambda: any(r == "Unhealthy" and m.startswith("Liveness probe failed") for r, m in world.events),
        )


@asynccontextmanager
async def _runtime(world: World) -> AsyncIterator[Any]:
    from dray.runtimes.process.runtime import ProcessRuntime

    runtime = ProcessRuntime(world.directory / "runtime")
    await runtime.start()
    yield runtime
    await runtime.close(keep=True)


async def test_logs_and_commands_of_containers_can_be_had(api: Any, tmp_path: Path) -> None:
    world = World(api, tmp_path)
    async with world.node() as nodes:
        proxy = NodeHost(nodes)
        world.pod("p", "echo hello from $0; sleep 1000")
        pod = api.objects[f"{PODS}/p"]
        with pytest.raises(
            BadRequest, match='container "main" in pod "p" is waiting to start: ContainerCreating'
        ):
            proxy.logs(pod, "main", PodLogOptions())
        await wait_for(
            "pod p to run and say hello", lambda: world.phase("p") == "Running" and "hello" in world.log("p")
        )
        assert b"".join([x async for x in proxy.logs(pod, "main", PodLogOptions())]) == b"hello from sh\n"
        with pytest.raises(BadRequest, match='previous terminated container "main" in pod "p" not found'):
            proxy.logs(pod, "main", PodLogOptions(previous=True))
        session = await proxy.exec(pod, "main", ["sh", "-c", "hostname; exit 2"], tty=False, stdin=False)
        assert [piece.data async for piece in session.output()] == [b"p\n"]
        assert await session.wait() == 2
        await session.close()
        with pytest.raises(InternalError, match="executable file not found"):
            await proxy.exec(pod, "main", ["no-such"], tty=False, stdin=False)


async def test_a_followed_log_ends_with_its_container_and_the_previous_one_stays(
    api: Any, tmp_path: Path
) -> None:
    world = World(api, tmp_path)
    async with world.node() as nodes:
        proxy = NodeHost(nodes)
        world.pod("p", "echo once; exit 1")
        await wait_for("a restart", lambda: world.container("p").get("restartCount") == 1)
        pod = api.objects[f"{PODS}/p"]
        follow = PodLogOptions(options=LogOptions(follow=True))
        assert b"".join([x async for x in proxy.logs(pod, "main", follow)]) == b"once\n"
        assert b"".join([x async for x in proxy.logs(pod, "main", PodLogOptions(previous=True))]) == b"once\n"


async def test_a_pod_survives_a_driver_that_vanishes_during_a_call(api: Any, tmp_path: Path) -> None:
    class Slow(Cats):
        async def prepare(self, claim: Claim) -> Any:
            called.set()
            await asyncio.sleep(0.2)
            return await super().prepare(claim)

    called = asyncio.Event()
    world = World(api, tmp_path)
    async with world.node():
        async with world.driver(Slow(), instance="one"):
            world.claim("c", "cat-0", pods=("p",))
            world.pod("p", claims=("c",))
            await called.wait()
            # What a crash looks like to the agent: the socket is gone while the call is under way.
            for path in world.paths.registry.iterdir():
                path.unlink()
            await wait_for(
                "an event about NodePrepareResources",
                lambda: any("NodePrepareResources" in m for _, m in world.events),
            )
        async with world.driver(Cats(), instance="two"):
            await wait_for("pod p to run", lambda: world.phase("p") == "Running")


async def test_parts_of_the_control_plane_show_as_pods_that_come_back(api: Any, tmp_path: Path) -> None:
    world = World(api, tmp_path)
    path = "/api/v1/namespaces/kube-system/pods/kube-scheduler-las1"
    async with world.node(control_plane=(ControlPlanePart(name="kube-scheduler"),)):
        await wait_for(
            "the static pod to run",
            lambda: api.objects.get(path, {}).get("status", {}).get("phase") == "Running",
        )
        pod = api.objects[path]
        assert pod["metadata"]["labels"]["tier"] == "control-plane"
        first = pod["metadata"]["uid"]
        doomed = {**pod["metadata"], "deletionTimestamp": from_epoch(time.time())}
        api.put(path, {**pod, "metadata": doomed})
        await wait_for(
            "the changed static pod",
            lambda: api.objects.get(path, {}).get("metadata", {}).get("uid") not in (None, first),
        )
        await wait_for(
            "the changed static pod to run",
            lambda: api.objects[path].get("status", {}).get("phase") == "Running",
        )


async def test_a_static_pod_that_shows_other_flags_or_nothing_that_runs_goes(
    api: Any, tmp_path: Path
) -> None:
    world, folder = World(api, tmp_path), "/api/v1/namespaces/kube-system/pods"
    old = (ControlPlanePart(name="kube-scheduler", command=("old",)), ControlPlanePart(name="etcd"))
    async with world.node(control_plane=old):
        for part in old:
            await wait_for(f"the pod of {part.name}", lambda p=part: f"{folder}/{p.name}-las1" in api.objects)

    def shown() -> list[Any]:
        pod = api.objects.get(f"{folder}/kube-scheduler-las1")
        return pod["spec"]["containers"][0]["command"] if pod else []

    async with world.node(control_plane=(ControlPlanePart(name="kube-scheduler", command=("new",)),)):
        await wait_for("the new flags", lambda: shown() == ["new"])
        await wait_for("the end of what no longer runs", lambda: f"{folder}/etcd-las1" not in api.objects)


async def test_nodes_with_identities_of_their_own_watch_only_their_pods(api: Any, tmp_path: Path) -> None:
    asked: list[str] = []

    def client_for(name: str) -> Any:
        asked.append(name)
        return api.client

    options = Options(
        nodes=[NodeOptions.simulated(n) for n in ("las1", "las2")], runtime="simulated", runtime_dir=tmp_path
    )
    ready = asyncio.Event()
    task = asyncio.create_task(
        run(api.client, options=options, client_for=client_for, ready=lambda nodes: ready.set())
    )
    await ready.wait()
    world = World(api, tmp_path)
    world.pod("p")
    await wait_for("pod p to run", lambda: world.phase("p") == "Running")
    assert asked == ["las1", "las2"]
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_a_pod_that_waits_for_its_next_try_goes_at_once_when_deleted(api: Any, tmp_path: Path) -> None:
    world = World(api, tmp_path)
    async with world.node() as nodes:
        world.pod("p", claims=("missing",))
        await wait_for("an event", lambda: world.events)
        worker = nodes.agents["las1"].workers.find("ns", "p")
        assert worker is not None
        worker.state = replace(worker.state, retry_at=time.time() + 1000)
        world.delete("p")
        await wait_for("pod p to go", lambda: world.gone("p"))


async def test_a_pod_that_is_deleted_while_it_is_prepared_does_not_wait_for_the_driver(
    api: Any, tmp_path: Path
) -> None:
    world, asked = World(api, tmp_path), asyncio.Event()

    class Endless(Cats):
        async def prepare(self, claim: Claim) -> Any:
            asked.set()
            await asyncio.sleep(1000)

    driver = Endless()
    async with world.node(), world.driver(driver):
        world.claim("c", "cat-0", pods=("p",))
        world.pod("p", claims=("c",))
        await asked.wait()
        world.delete("p")
        await wait_for("pod p to go", lambda: world.gone("p"))
        assert driver.unprepared == ["c"]


async def test_the_prestop_hook_runs_once_however_often_the_grace_changes(api: Any, tmp_path: Path) -> None:
    world, counted = World(api, tmp_path), tmp_path / "counted"
    counted.mkdir()
    hook = {"exec": {"command": ["sh", "-c", "echo once >> /counted/hook; sleep 1000"]}}
    main = {
        "name": "main",
        "image": "any",
        "command": ["sh", "-c", "trap 'exit 0' TERM; while :; do sleep 0.1; done"],
        "lifecycle": {"preStop": hook},
        "volumeMounts": [{"name": "counted", "mountPath": "/counted"}],
    }
    volume = {"name": "counted", "hostPath": {"path": str(counted)}}
    async with world.node():
        world.pod("p", containers=[main], volumes=[volume], terminationGracePeriodSeconds=1000)
        await wait_for("pod p to run", lambda: world.phase("p") == "Running")
        world.delete("p", grace=900)
        await wait_for("the hook to be called", lambda: (counted / "hook").exists())
        world.delete("p", grace=1)
        await wait_for("pod p to go", lambda: world.gone("p"))
    assert (counted / "hook").read_text() == "once\n"


async def test_termination_messages_show_in_the_status_of_containers(api: Any, tmp_path: Path) -> None:
    world = World(api, tmp_path)
    async with world.node():
        world.pod("said", "echo because > /dev/termination-log; exit 3", restartPolicy="Never")
        await wait_for("pod said to fail", lambda: world.phase("said") == "Failed")
        assert world.container("said")["state"]["terminated"]["message"] == "because\n"
        main = {
            "name": "main",
            "image": "any",
            "command": ["sh", "-c", "echo oops >&2; exit 3"],
            "terminationMessagePolicy": "FallbackToLogsOnError",
        }
        world.pod("logged", containers=[main], restartPolicy="Never")
        await wait_for("pod logged to fail", lambda: world.phase("logged") == "Failed")
        assert world.container("logged")["state"]["terminated"]["message"] == "oops\n"


async def test_a_pod_that_was_over_before_the_agent_started_keeps_its_last_status(
    api: Any, tmp_path: Path
) -> None:
    world = World(api, tmp_path)
    async with world.node():
        world.pod("p", "exit 0", restartPolicy="Never")
        await wait_for("pod p to succeed", lambda: world.phase("p") == "Succeeded")
    before = world.container("p")
    reported: list[Any] = []
    async with world.node():
        world.delete("p")
        while not world.gone("p"):
            reported.append(world.container("p"))
            await asyncio.sleep(0.001)
    assert before["state"]["terminated"]["exitCode"] == 0
    assert all(container == before for container in reported if container)


async def test_preparing_eight_claims_is_one_call_to_their_driver(api: Any, tmp_path: Path) -> None:
    world, driver = World(api, tmp_path), Cats()
    names = tuple(f"c-{i}" for i in range(8))
    async with world.node() as nodes, world.driver(driver):
        for i, name in enumerate(names):
            world.claim(name, f"cat-{i}", pods=("p",))
        world.pod("p", claims=names)
        await wait_for("pod p to run", lambda: world.phase("p") == "Running")
        calls = nodes.shared.metrics.dra_calls
        service = "/k8s.io.kubelet.pkg.apis.dra.v1.DRAPlugin"
        assert sorted(driver.prepared) == list(names)
        assert calls.count(driver.name, f"{service}/NodePrepareResources", "OK") == 1
        world.delete("p")
        await wait_for("pod p to go", lambda: world.gone("p"))
        assert calls.count(driver.name, f"{service}/NodeUnprepareResources", "OK") == 1


async def test_a_failing_sub_path_is_a_mistake_of_the_containers_configuration(
    api: Any, tmp_path: Path
) -> None:
    world = World(api, tmp_path)
    async with world.node():
        mount = {"name": "v", "mountPath": "/v", "subPathExpr": "$(UP)"}
        container = {
            "name": "main",
            "image": "i",
            "command": ["true"],
            "env": [{"name": "UP", "value": "/absolute"}],
            "volumeMounts": [mount],
        }
        world.pod("p", containers=[container], volumes=[{"name": "v", "emptyDir": {}}])
        await wait_for(
            "the container to wait for a better configuration",
            lambda: world.container("p")["state"]["waiting"]["reason"] == "CreateContainerConfigError",
        )


async def test_a_pod_that_does_not_fit_is_refused(api: Any, tmp_path: Path) -> None:
    world = World(api, tmp_path)
    async with world.node(capacity={"cpu": "1", "memory": "1Gi", "pods": "10"}):
        container = {"name": "main", "image": "i", "command": ["sleep", "100"]}
        world.pod("p", containers=[{**container, "resources": {"requests": {"cpu": "2"}}}])
        await wait_for("the pod to fail", lambda: world.phase("p") == "Failed")
        assert world.status("p")["reason"] == "OutOfcpu"


async def test_a_resize_shows_in_the_status_of_a_container_that_goes_on_running(
    api: Any, tmp_path: Path
) -> None:
    world = World(api, tmp_path)
    async with world.node(capacity={"cpu": "4", "memory": "1Gi", "pods": "10"}):
        container = {"name": "main", "image": "i", "command": ["sleep", "100"]}

        def asking(cpu: str) -> list[dict[str, Any]]:
            return [{**container, "resources": {"requests": {"cpu": cpu}}}]

        world.pod("p", containers=asking("1"))
        await wait_for("the pod to run", lambda: world.phase("p") == "Running")
        first = world.container("p")
        assert first["allocatedResources"] == {"cpu": "1"}
        found = api.objects[f"{PODS}/p"]
        api.put(f"{PODS}/p", {**found, "spec": {**found["spec"], "containers": asking("2")}})
        await wait_for("the resize", lambda: world.container("p")["resources"] == {"requests": {"cpu": "2"}})
        assert world.container("p")["containerID"] == first["containerID"]
        found = api.objects[f"{PODS}/p"]
        api.put(f"{PODS}/p", {**found, "spec": {**found["spec"], "containers": asking("9")}})
        await wait_for(
            "the refusal",
            lambda: (
                [c["reason"] for c in world.status("p")["conditions"] if c["type"] == "PodResizePending"]
                == ["Infeasible"]
            ),
        )
        assert world.container("p")["resources"] == {"requests": {"cpu": "2"}}


async def test_a_debug_container_sees_the_processes_of_its_target(api: Any, tmp_path: Path) -> None:
    world = World(api, tmp_path)
    async with world.node():
        world.pod("p", "sleep 999")
        await wait_for("the pod to run", lambda: world.phase("p") == "Running")
        found = api.objects[f"{PODS}/p"]
        debug = {
            "name": "d",
            "image": "i",
            "targetContainerName": "main",
            "command": ["sh", "-c", "ps ax; true"],
        }
        api.put(f"{PODS}/p", {**found, "spec": {**found["spec"], "ephemeralContainers": [debug]}})
        await wait_for(
            "the debug container to end",
            lambda: world.status("p")["ephemeralContainerStatuses"][0]["state"]["terminated"],
        )
        log = (world.paths.pod_logs("ns", "p", "uid-p") / "d" / "0.log").read_text()
        assert "sleep 999" in log
        assert world.phase("p") == "Running"


GPU = "example.com/gpu"


def gpu_container(count: int = 1, script: str = "echo has $DEVICES; sleep 100") -> dict[str, Any]:
    limits = {"limits": {GPU: str(count)}, "requests": {GPU: str(count)}}
    return {"name": "main", "image": "i", "command": ["sh", "-c", script], "resources": limits}


def counted(api: Any) -> str:
    return str(api.objects["/api/v1/nodes/las1"]["status"]["allocatable"].get(GPU))


async def test_a_device_plugin_registers_and_its_devices_are_counted_given_and_taken_back(
    api: Any, tmp_path: Path
) -> None:
    world = World(api, tmp_path)
    plugin = DevicePlugin(GPU, {"a": True, "b": True, "c": False})
    async with world.node(), registered(plugin, world.paths.device_plugins):

        def count(kind: str) -> str:
            return str(api.objects["/api/v1/nodes/las1"]["status"][kind].get(GPU))

        await wait_for(
            "the devices to be counted", lambda: (count("capacity"), count("allocatable")) == ("3", "2")
        )
        world.pod("p", containers=[gpu_container()])
        await wait_for("the pod to have its device", lambda: "has b" in world.log("p"))
        assert (plugin.allocated, plugin.started) == ([["b"]], [["b"]])
        async with grpc.aio.insecure_channel(SocketPath(world.paths.pod_resources).grpc) as channel:
            pod_resources, messages = stub(POD_RESOURCES, channel), POD_RESOURCES.module
            [shown] = (await pod_resources.List(messages.ListPodResourcesRequest())).pod_resources
            [device] = shown.containers[0].devices
            assert (device.resource_name, list(device.device_ids), device.topology.nodes[0].ID) == (
                GPU,
                ["b"],
                1,
            )
        plugin.set_health("b", False)
        await wait_for("one device to be left", lambda: count("allocatable") == "1")
        await wait_for(
            "the pod to show the health of its device",
            lambda: (
                world.container("p")["allocatedResourcesStatus"]
                == [{"name": GPU, "resources": [{"resourceID": "b", "health": "Unhealthy"}]}]
            ),
        )
        world.pod("q", containers=[gpu_container(2)])
        await wait_for("a pod that asks for too many to fail", lambda: world.phase("q") == "Failed")
        plugin.set_health("b", True)
        world.delete("p", grace=1)
        await wait_for("pod p to go", lambda: world.gone("p"))
        await wait_for("both devices to be there", lambda: count("allocatable") == "2")
        world.pod("r", containers=[gpu_container(2)])
        await wait_for("the next pod to have both", lambda: "has b,a" in world.log("r"))


async def test_devices_of_a_plugin_stay_with_their_pod_when_the_agent_is_started_again(
    api: Any, tmp_path: Path
) -> None:
    world = World(api, tmp_path)
    plugin = DevicePlugin(GPU, {"a": True, "b": True})
    async with world.node(keep=True), registered(plugin, world.paths.device_plugins):
        await wait_for("the devices", lambda: counted(api) == "2")
        world.pod("p", containers=[gpu_container()])
        await wait_for("the pod to have its device", lambda: "has b" in world.log("p"))
    async with world.node():
        assert counted(api) == "0"
        async with registered(plugin, world.paths.device_plugins):
            await wait_for("the devices to be back", lambda: counted(api) == "2")
            world.pod("q", containers=[gpu_container()])
            await wait_for("the other pod to have the other device", lambda: "has a" in world.log("q"))


async def test_a_pod_is_run_with_the_handler_of_its_runtime_class(api: Any, tmp_path: Path) -> None:
    world = World(api, tmp_path)
    async with world.node() as nodes:
        asked: list[str] = []
        run_sandbox = nodes.shared.runtime.run_sandbox

        async def noting(config: SandboxConfig) -> SandboxStatus:
            asked.append(config.runtime_handler)
            return await run_sandbox(config)

        nodes.shared.runtime.run_sandbox = noting  # type: ignore[method-assign]
        world.pod("p", runtimeClassName="strict")
        await wait_for(
            "the pod to miss its class",
            lambda: [m for r, m in world.events if r == "FailedCreatePodSandBox" and '"strict"' in m],
        )
        path = "/apis/node.k8s.io/v1/runtimeclasses/strict"
        api.put(path, {"metadata": {"name": "strict"}, "handler": "kata"})
        await wait_for("the pod to run", lambda: world.phase("p") == "Running")
        assert asked == ["kata"]

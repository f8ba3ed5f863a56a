"""A node agent and a driver as programs of their own, so that tests can kill them."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from dray import driver as sdk
from dray.api.release import EffectiveVersion
from dray.client.factory import connect
from dray.driver import Claim, ClaimRef, Driver, Prepared, classic
from dray.driver.classic import ClassicDriver, Pending, available_on
from dray.driver.model import Allocated, Device, Edits
from dray.drivers.gpu import GpuDriver, GpuOptions
from dray.node.hostpaths import HostPaths
from dray.node.options import NodeOptions
from dray.node.run import Options, run


class Hardware(Driver):
    """Marks devices in use as files. To find a mark already there is what must never happen."""

    name = "hardware.example.com"

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        directory.mkdir(parents=True, exist_ok=True)

    def devices(self, node: str) -> list[Device]:
        return [Device(name=f"dev-{i}") for i in range(8)]

    async def prepare(self, claim: Claim) -> Sequence[Prepared]:
        for device in claim.devices:
            self._note(f"prepare {device.name} {claim.ref.uid}")
            try:
                with (self.directory / device.name).open("x") as mark:
                    mark.write(claim.ref.uid)
            except FileExistsError:
                self._note(f"VIOLATION {device.name} {claim.ref.uid}")
        return await super().prepare(claim)

    def edits(self, claim: Claim, device: Allocated) -> Edits:
        firmware = self.directory / "firmware"
        firmware.mkdir(exist_ok=True)
        (firmware / "version").write_text("1.2.3\n")
        return Edits(
            env={"DEVICE": device.name},
            device_nodes=[{"path": f"/dev/{device.name}", "hostPath": "/dev/null", "permissions": "rw"}],
            mounts=[{"hostPath": str(firmware), "containerPath": "/firmware", "options": ["ro", "rbind"]}],
        )

    async def unprepare(self, claim: ClaimRef) -> None:
        self._note(f"unprepare {claim.uid}")
        for mark in self.directory.glob("dev-*"):
            if mark.read_text() == claim.uid:
                mark.unlink()

    def _note(self, text: str) -> None:
        with (self.directory / "journal").open("a") as journal:
            journal.write(text + "\n")


async def agent(kubeconfig: str, directory: Path, node: str, runtime: str) -> None:
    options = Options(
        nodes=[NodeOptions(name=node, paths=HostPaths.below(directory))],
        runtime=runtime,
        runtime_dir=directory / "runtime",
        keep_containers=True,
    )
    async with connect(kubeconfig) as client:
        await run(client, options=options, ready=lambda nodes: print("ready", flush=True))


async def driver(kubeconfig: str, directory: Path, node: str, _: str) -> None:
    options = sdk.Options(node=node, kubelet_dir=directory / "kubelet", cdi_dir=directory / "cdi")
    hardware = Hardware(directory / "hardware")
    async with connect(kubeconfig) as client, sdk.serving(client, hardware, options=options) as plugin:
        print("ready", flush=True)
        await plugin.registered()
        (hardware.directory / "registered").touch()
        await asyncio.Event().wait()


PROFILES = {
    "plain": GpuOptions(),
    "partitions": GpuOptions(partitions=4),
    "shared": GpuOptions(shared=True),
    "status": GpuOptions(device_status=True, health=True, metadata=True),
}


async def cluster(kubeconfig: str, directory: Path, prefix: str, profile: str) -> None:
    """Scheduler, controllers, two nodes and the shipped drivers, all over HTTP."""
    from dray.controllers import manager as controllers
    from dray.drivers.nic import Fabric, NicDriver, run_controller
    from dray.scheduler import component as scheduler

    names = [f"{prefix}1", f"{prefix}2"]
    nodes = [NodeOptions(name=n, paths=HostPaths.below(directory / n)) for n in names]
    ready = asyncio.Event()
    async with connect(kubeconfig) as client, asyncio.TaskGroup() as group:
        group.create_task(controllers.run(client, options=controllers.Options()))
        group.create_task(scheduler.run(client, options=scheduler.Options()))
        options = Options(nodes=nodes, runtime="process", runtime_dir=directory / "runtime")
        group.create_task(run(client, options=options, ready=lambda _: ready.set()))
        await ready.wait()
        group.create_task(run_controller(client, fabric=Fabric()))
        for node in nodes:
            for own in (GpuDriver(PROFILES[profile]), NicDriver()):
                place = sdk.Options(node=node.name, kubelet_dir=node.paths.kubelet, cdi_dir=node.paths.cdi[0])
                group.create_task(sdk.run(client, own, options=place))
        print("ready", flush=True)


class Kennel(ClassicDriver):
    """Marks devices as files, as Hardware does, for claims that a controller allocates."""

    name = "kennel.example.com"

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        directory.mkdir(parents=True, exist_ok=True)

    async def allocate(
        self, pending: Sequence[Pending], *, node: str, others: Sequence[Mapping[str, Any]]
    ) -> list[dict[str, Any]]:
        node = node or "n1"
        results = []
        for one in pending:
            uid = one.claim["metadata"]["uid"]
            device = self._held(uid) or self._free(node)
            mark = self.directory / device
            if any(device in str(other["status"]["allocation"]) for other in others):
                self._note(f"VIOLATION {device} is given to another claim than {uid}")
            self._note(f"allocate {device} {uid}")
            mark.write_text(uid)
            results.append(available_on(node, driver=self.name, data=device))
        return results

    async def deallocate(self, claim: Mapping[str, Any]) -> None:
        uid = claim["metadata"]["uid"]
        self._note(f"deallocate {uid}")
        if held := self._held(uid):
            (self.directory / held).unlink()

    def _held(self, uid: str) -> str:
        return next((p.name for p in self.directory.glob("dev-*") if p.read_text() == uid), "")

    def _free(self, node: str) -> str:
        names = (f"dev-{node}-{i}" for i in range(4))
        return next(name for name in names if not (self.directory / name).exists())

    def _note(self, text: str) -> None:
        with (self.directory / "journal").open("a") as journal:
            journal.write(text + "\n")


async def kennel(kubeconfig: str, directory: Path, _node: str, _: str) -> None:
    options = classic.Options(refresh=1.0)
    async with connect(kubeconfig) as client:
        await classic.run(
            client, Kennel(directory), options=options, ready=lambda: print("ready", flush=True)
        )


async def control(kubeconfig: str, directory: Path, _node: str, emulate: str) -> None:
    """Scheduler, controllers and two simulated nodes of a release."""
    from dray.controllers import manager as controllers
    from dray.scheduler import component as scheduler

    release = EffectiveVersion.parse(emulate)
    gates = release.gates()
    nodes = [NodeOptions.simulated(name, release=release) for name in ("n1", "n2")]
    planning = scheduler.Options(gates=gates, version=release)
    async with connect(kubeconfig) as client, asyncio.TaskGroup() as group:
        group.create_task(controllers.run(client, options=controllers.Options(version=release, gates=gates)))
        group.create_task(scheduler.run(client, options=planning))
        options = Options(nodes=nodes, runtime="simulated", runtime_dir=directory / "runtime")
        group.create_task(run(client, options=options, ready=lambda _: print("ready", flush=True)))


async def main() -> None:
    what, kubeconfig, directory, node, runtime = sys.argv[1:]
    task = asyncio.current_task()
    assert task is not None
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    programs = {"agent": agent, "driver": driver, "cluster": cluster, "control": control, "kennel": kennel}
    await programs[what](kubeconfig, Path(directory), node, runtime)


if __name__ == "__main__":
    logging.basicConfig(level=os.environ.get("LOG", "WARNING"))
    try:
        asyncio.run(main())
    except asyncio.CancelledError:
        sys.exit(0)

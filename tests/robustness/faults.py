"""What goes wrong, by plan and seed: each fault lasts a while and is then undone."""

from __future__ import annotations

import asyncio
import os
import random
import shutil
import signal
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from pathlib import Path

from tests.support.components import ComponentProcess

from .cluster import LOAD, MACHINES, Cluster

#: A lease that nobody renews has another holder after 15 s and a few tries; so often it is asked, once a second.
_TAKEOVER = 40

Fault = Callable[[Cluster, random.Random], AbstractAsyncContextManager[str]]


@asynccontextmanager
async def kill(cluster: Cluster, rng: random.Random) -> AsyncIterator[str]:
    """kill -9 of any part."""
    part = rng.choice(cluster.killable)
    cluster.down.append(part)
    part.kill()
    try:
        yield part.name
    finally:
        part.start()
        cluster.down.remove(part)


@asynccontextmanager
async def pause(cluster: Cluster, rng: random.Random) -> AsyncIterator[str]:
    """SIGSTOP of any part: its connections stay, and nobody answers."""
    part = rng.choice(cluster.killable)
    part.pause()
    try:
        yield part.name
    finally:
        part.resume()


@asynccontextmanager
async def stopped_leader(cluster: Cluster, rng: random.Random) -> AsyncIterator[str]:
    """SIGSTOP of the scheduler or the controllers that lead, until others lead. They go on in the middle of what they were
    doing, and what they write must be refused."""
    lease, parts = rng.choice(
        (("kube-scheduler", cluster.schedulers), ("kube-controller-manager", cluster.controllers))
    )
    leader = await asyncio.to_thread(cluster.holder, lease)
    part = next((part for part in parts if f"_{part.pid}." in leader), rng.choice(parts))
    part.pause()
    try:
        for _ in range(_TAKEOVER):
            await asyncio.sleep(1)
            if await asyncio.to_thread(cluster.holder, lease) not in ("", leader):
                break
        yield part.name
    finally:
        part.resume()


@asynccontextmanager
async def partition(cluster: Cluster, rng: random.Random) -> AsyncIterator[str]:
    """One machine loses the two others and the load, in both directions."""
    machine = rng.choice(MACHINES)
    others = [name for name in (*MACHINES, LOAD) if name != machine]
    for other in others:
        cluster.network.cut(machine, other)
        cluster.network.cut(other, machine)
    try:
        yield machine
    finally:
        for other in others:
            cluster.network.mend(machine, other)
            cluster.network.mend(other, machine)


@asynccontextmanager
async def one_way_partition(cluster: Cluster, rng: random.Random) -> AsyncIterator[str]:
    """What one machine sends to another is lost; the other direction works."""
    source, target = rng.sample(MACHINES, 2)
    cluster.network.cut(source, target)
    try:
        yield f"{source} to {target}"
    finally:
        cluster.network.mend(source, target)


@asynccontextmanager
async def leader_loss(cluster: Cluster, rng: random.Random) -> AsyncIterator[str]:
    """kill -9 of the etcd member that leads."""
    part = await asyncio.to_thread(_leader, cluster) or rng.choice(cluster.etcd)
    cluster.down.append(part)
    part.kill()
    try:
        yield part.name
    finally:
        part.start()
        cluster.down.remove(part)


def _leader(cluster: Cluster) -> ComponentProcess | None:
    for machine, part in zip(cluster.machines, cluster.etcd, strict=True):
        with suppress(OSError, ValueError):
            status = cluster.ask_etcd(machine, "maintenance/status", {})
            if status.get("leader") == status["header"]["member_id"]:
                return part
    return None


@asynccontextmanager
async def etcd_restart(cluster: Cluster, rng: random.Random) -> AsyncIterator[str]:
    """All members end at once, as at a power cut of all machines."""
    for part in cluster.etcd:
        part.kill()
    try:
        yield "all members"
    finally:
        for part in cluster.etcd:
            part.start()


@asynccontextmanager
async def full_disk(cluster: Cluster, rng: random.Random) -> AsyncIterator[str]:
    """The disk of one etcd member is full; etcd ends by itself then, and comes back when there is room."""
    index = rng.randrange(len(cluster.etcd))
    machine, part = cluster.machines[index], cluster.etcd[index]
    cluster.fill_disk(machine)
    try:
        yield part.name
    finally:
        cluster.clear_disk(machine)
        if not part.running:
            part.start()


@asynccontextmanager
async def slow_disk(cluster: Cluster, rng: random.Random) -> AsyncIterator[str]:
    """Every fsync of one etcd member takes 150 ms longer."""
    part = rng.choice(cluster.etcd)
    delay = "inject=fsync,fdatasync:delay_enter=150000"
    tracer = await asyncio.create_subprocess_exec(
        "strace", "-f", "-qq", "-e", "trace=fsync,fdatasync", "-e", delay, "-o", os.devnull, "-p", str(part.pid),
        stderr=asyncio.subprocess.DEVNULL,
    )  # fmt: skip
    try:
        yield part.name
    finally:
        with suppress(ProcessLookupError):
            tracer.send_signal(signal.SIGINT)
        await tracer.wait()


@asynccontextmanager
async def compaction(cluster: Cluster, rng: random.Random) -> AsyncIterator[str]:
    """etcd forgets all history up to now while watches are open."""
    for machine in cluster.machines:
        with suppress(OSError, ValueError):
            answer = await asyncio.to_thread(cluster.ask_etcd, machine, "maintenance/status", {})
            revision = answer["header"]["revision"]
            await asyncio.to_thread(cluster.ask_etcd, machine, "kv/compaction", {"revision": revision})
            break
    yield "up to now"


@asynccontextmanager
async def clock_skew(cluster: Cluster, rng: random.Random) -> AsyncIterator[str]:
    """An API server, scheduler or controller whose clock is ahead or behind by a minute."""
    part = rng.choice([*cluster.servers, *cluster.schedulers, *cluster.controllers])
    offset = rng.choice(("+60", "-60"))
    cluster.down.append(part)
    part.kill()
    part.start({"LD_PRELOAD": LIBFAKETIME, "FAKETIME": offset, "FAKETIME_DONT_FAKE_MONOTONIC": "1"})
    try:
        yield f"{part.name} {offset} s"
    finally:
        part.kill()
        part.start()
        cluster.down.remove(part)


LIBFAKETIME = next((str(path) for path in Path("/usr/lib").glob("*/faketime/libfaketime.so.1")), "")

FAULTS: dict[str, tuple[Fault, int]] = {
    "kill": (kill, 6),
    "pause": (pause, 4),
    "stopped leader": (stopped_leader, 1),
    "partition": (partition, 2),
    "one-way partition": (one_way_partition, 2),
    "leader loss": (leader_loss, 2),
    "etcd restart": (etcd_restart, 1),
    "full disk": (full_disk, 1),
    "slow disk": (slow_disk, 1),
    "compaction": (compaction, 2),
    "clock skew": (clock_skew, 1),
}


def impossible() -> dict[str, str]:
    """The faults that cannot be had on this machine, each with the reason."""
    missing = {}
    if shutil.which("strace") is None:
        missing["slow disk"] = "strace is not installed"
    if not LIBFAKETIME:
        missing["clock skew"] = "libfaketime is not installed"
    return missing

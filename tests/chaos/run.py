"""One run of chaos: pods of several kinds live and die, parts are killed, and the history is watched all the while."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from dray.api.errors import AlreadyExists, NotFound, ServiceUnavailable, StatusError
from dray.client.client import Client
from dray.client.factory import connect
from dray.client.informers import Informers
from dray.client.resources import (
    DEVICE_CLASSES,
    LEASES,
    NODES,
    POD_GROUPS,
    PODS,
    RESOURCE_CLAIM_TEMPLATES,
    RESOURCE_CLAIMS,
    RESOURCE_SLICES,
)
from tests.support.components import ClusterProcesses
from tests.support.gang_history import GangHistory

from .history import History

DRIVER = "gpu.example.com"
EXTENDED = "example.com/gpu"
SHARED = 5


@dataclass(frozen=True, kw_only=True)
class Options:
    data: Path
    seed: int = 0
    pods: int = 2000
    nodes: int = 20
    devices: int = 8
    live: int = 110  # pods at the same time; they want less than there is, or some would starve
    schedulers: int = 1  # that work at the same time, each for pods of its own
    replicas: int = 1  # of every part that is killed; one of them leads
    emulate: str = ""
    store: str = "sqlite"
    pause: tuple[float, float] = (0.5, 2.5)  # between two kills
    lives: int = 4  # pods that run between two kills
    patience: float = 180.0  # for what has to happen in the end
    gangs: float = 0.12  # how many of the lives are those of a gang; an emulated release has none


@dataclass
class Report:
    seed: int
    violations: list[str] = field(default_factory=list)
    stuck: list[str] = field(
        default_factory=list
    )  # the state of everything when something did not come true in time
    created: int = 0
    ran: int = 0
    gangs: int = 0
    kills: dict[str, int] = field(default_factory=dict)
    events: int = 0
    allocations: int = 0
    seconds: float = 0.0

    def __str__(self) -> str:
        kills = ", ".join(f"{name} {n}" for name, n in self.kills.items())
        lines = [
            f"seed {self.seed}: {self.created} pods or gangs, {self.ran} ran, {self.gangs} of them gangs, "
            f"in {self.seconds:.0f} s",
            f"killed: {kills}",
            f"{self.events} revisions of claims, {self.allocations} devices given",
            *(f"VIOLATION {v}" for v in self.violations),
            *self.stuck,
        ]
        return "\n".join(lines if self.violations else [*lines, "no violation"])


async def run(options: Options) -> Report:
    report = Report(options.seed)
    began = time.monotonic()
    with ClusterProcesses(
        options.data,
        options.nodes,
        schedulers=options.schedulers,
        replicas=options.replicas,
        emulate=options.emulate,
        store=options.store,
    ) as parts:
        async with connect(parts.kubeconfig) as client:
            await _Run(options, parts, client, report).run()
        report.kills = {part.name: part.kills for part in parts.killable}
    report.seconds = time.monotonic() - began
    return report


class Changes:
    """Wakes those who wait whenever something has changed."""

    def __init__(self) -> None:
        self._event = asyncio.Event()

    def note(self, _: Any) -> None:
        self._event.set()

    async def wait(self, *, seconds: float) -> None:
        """Return at the next change, or after so many seconds."""
        if self._event.is_set():
            self._event = asyncio.Event()
        # Not ``asyncio.wait_for``: up to Python 3.11 it forgets a cancellation that comes together with the change,
        # and a task that is never cancelled stands still for ever.
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._event.wait()


class _Run:
    def __init__(self, options: Options, parts: ClusterProcesses, client: Client, report: Report) -> None:
        self._options, self._parts, self._client, self._report = options, parts, client, report
        self._rng = random.Random(options.seed)
        self._history = History()
        self._gang_history = GangHistory()
        self._informers = Informers(client)
        self._pods = self._informers.get(PODS)
        self._claims = self._informers.get(RESOURCE_CLAIMS)
        self._groups = self._informers.get(POD_GROUPS) if not options.emulate else None
        self._changes = Changes()
        for informer in (self._pods, self._claims):
            informer.add_handler(on_set=self._changes.note, on_delete=self._changes.note)
        if self._groups is not None:
            self._groups.add_handler(on_set=self._changes.note, on_delete=self._changes.note)
        self._over = False

    async def run(self) -> None:
        first = await self._client.list(RESOURCE_CLAIMS)
        async with self._informers, asyncio.TaskGroup() as tasks:
            watching = [tasks.create_task(self._history.follow(self._client, first.resource_version))]
            if self._groups is not None:
                gangs = self._gang_history.follow(self._client, first.resource_version)
                watching.append(tasks.create_task(gangs))
            await self._informers.synced()
            await self._furnish()
            killing = tasks.create_task(self._kill())
            supervising = tasks.create_task(self._supervise())
            room = asyncio.Semaphore(self._options.live)
            async with asyncio.TaskGroup() as lives:
                for number in range(self._options.pods):
                    await room.acquire()
                    lives.create_task(self._live(number, random.Random(self._rng.random()), room))
            killing.cancel()
            await self._settle()
            for watch in watching:
                watch.cancel()
            supervising.cancel()
        self._report.violations += [*self._history.violations, *self._gang_history.check()]
        self._report.events, self._report.allocations = self._history.events, self._history.allocations

    # -- the cluster ------------------------------------------------------------------------------------------------

    async def _furnish(self) -> None:
        selector = {"cel": {"expression": f'device.driver == "{DRIVER}"'}}
        spec = {"selectors": [selector], "extendedResourceName": EXTENDED}
        await self._client.create(DEVICE_CLASSES, "", {"metadata": {"name": "gpu"}, "spec": spec})
        for name, count in (("one", 1), ("two", 2)):
            body = {"metadata": {"name": name}, "spec": {"spec": _wants(count)}}
            await self._client.create(RESOURCE_CLAIM_TEMPLATES, "default", body)
        for i in range(SHARED):
            body = {"metadata": {"name": f"shared-{i}"}, "spec": _wants(1)}
            await self._client.create(RESOURCE_CLAIMS, "default", body)
        nodes = self._informers.get(NODES)
        await self._until(lambda: len(nodes.items()) >= self._options.nodes, "the nodes did not come")
        for node in sorted(n["metadata"]["name"] for n in nodes.items()):
            pool = {"name": node, "generation": 1, "resourceSliceCount": 1}
            devices = [{"name": f"gpu-{i}"} for i in range(self._options.devices)]
            slice_spec = {"driver": DRIVER, "nodeName": node, "pool": pool, "devices": devices}
            await self._client.create(
                RESOURCE_SLICES, "", {"metadata": {"name": f"{node}-gpus"}, "spec": slice_spec}
            )

    async def _kill(self) -> None:
        """Kill somebody, wait a moment, start it again, and let some pods run before the next one is killed.

        However slow the machine is, there is life between two deaths.
        """
        while True:
            ran = self._report.ran
            await asyncio.sleep(self._rng.uniform(*self._options.pause))
            await self._until(partial(self._have_run, ran + self._options.lives), "no pod runs any more")
            part = self._rng.choice(self._parts.killable)
            part.kill()
            try:
                await asyncio.sleep(self._rng.uniform(0, 0.5))
            finally:
                part.start()

    async def _supervise(self) -> None:
        while True:
            await asyncio.sleep(0.5)
            self._parts.supervise()

    def _have_run(self, pods: int) -> bool:
        return self._report.ran >= pods

    # -- the pods ---------------------------------------------------------------------------------------------------

    async def _live(self, number: int, rng: random.Random, room: asyncio.Semaphore) -> None:
        name = f"p{number}"
        try:
            if self._groups is not None and rng.random() < self._options.gangs:
                await self._live_together(name, rng)
                return
            scheduler = rng.choice(self._parts.scheduler_names)
            await self._insist(lambda: self._client.create(PODS, "default", _pod(name, rng, scheduler)))
            self._report.created += 1
            if rng.random() < 0.1:
                await asyncio.sleep(rng.uniform(0, 0.3))  # goes before it may have got anywhere
            elif await self._until(lambda: self._phase(name) not in ("", "Pending"), f"pod {name} never ran"):
                self._report.ran += 1
                await asyncio.sleep(rng.uniform(0, 1))
            grace = 0 if rng.random() < 0.2 else None
            await self._insist(lambda: self._client.delete(PODS, "default", name, grace_seconds=grace))
            await self._until(lambda: self._pods.get("default", name) is None, f"pod {name} never went")
        finally:
            room.release()

    async def _live_together(self, name: str, rng: random.Random) -> None:
        """A gang: its members run all together, or none of them does; some share a claim of the group."""
        assert self._groups is not None
        scheduler = rng.choice(self._parts.scheduler_names)
        size, shares = rng.randint(2, 4), rng.random() < 0.4
        claims = [{"name": "gpu", "resourceClaimTemplateName": "one"}]
        spec: dict[str, Any] = {"schedulingPolicy": {"gang": {"minCount": size}}}
        if shares:
            spec["resourceClaims"] = claims
        group = {"metadata": {"name": name}, "spec": spec}
        await self._insist(lambda: self._client.create(POD_GROUPS, "default", group))
        members = [f"{name}-{i}" for i in range(size)]
        for member in members:
            body = _pod(member, rng, scheduler)
            container = body["spec"]["containers"][0]
            container["resources"] = {"claims": [{"name": "gpu"}]}
            body["spec"] |= {"resourceClaims": claims, "schedulingGroup": {"podGroupName": name}}
            await self._insist(partial(self._client.create, PODS, "default", body))
        self._report.created += 1
        running = [partial(self._phase, member) for member in members]
        if await self._until(
            lambda: all(phase() not in ("", "Pending") for phase in running), f"gang {name} never ran"
        ):
            self._report.ran += 1
            self._report.gangs += 1
        for member in members:
            await self._insist(partial(self._client.delete, PODS, "default", member))
        await self._insist(lambda: self._client.delete(POD_GROUPS, "default", name))
        gone = self._groups
        await self._until(
            lambda: gone.get("default", name) is None and not any(map(self._is_there, members)),
            f"gang {name} never went",
        )

    async def _insist(self, write: Callable[[], Awaitable[object]]) -> None:
        """Write although the server may not answer for a while: the machine is busy, and the write may have been done."""
        deadline = time.monotonic() + self._options.patience
        while True:
            try:
                await write()
                return
            except (AlreadyExists, NotFound):
                return
            except ServiceUnavailable:
                if time.monotonic() > deadline:
                    raise
            await asyncio.sleep(0.5)

    def _is_there(self, pod: str) -> bool:
        return self._pods.get("default", pod) is not None

    def _phase(self, name: str) -> str:
        pod = self._pods.get("default", name)
        return ((pod or {}).get("status") or {}).get("phase") or ""

    # -- the end ----------------------------------------------------------------------------------------------------

    async def _settle(self) -> None:
        """All pods are gone: so must be what they held and what was made for them, and nothing may hold a claim."""
        await self._until(lambda: not self._left(), "claims stay allocated")
        self._report.violations += [f"{name}: {why}" for name, why in self._left().items()]
        if self._history.held:
            self._report.violations.append(f"{self._history.held} devices are still in use")
        for i in range(SHARED):
            await self._client.delete(RESOURCE_CLAIMS, "default", f"shared-{i}")
        await self._until(lambda: not self._claims.items(), "claims cannot be deleted")
        self._report.violations += [f"{name} died by itself" for name in self._parts.died()]

    def _left(self) -> dict[str, str]:
        left = {}
        for claim in self._claims.items():
            metadata, status = claim["metadata"], claim.get("status") or {}
            if not metadata["name"].startswith("shared-"):
                left[metadata["name"]] = "was made for a pod that is gone"
            elif status.get("allocation") or status.get("reservedFor"):
                left[metadata["name"]] = f"is not free: {status}"
        return left

    async def _until(self, true: Callable[[], bool], otherwise: str) -> bool:
        """Look after every change; what does not come true in time is a violation."""
        deadline = time.monotonic() + self._options.patience
        while not true():
            if time.monotonic() > deadline or self._over:
                if not self._over:  # one thing that is stuck is enough to know
                    self._over = True
                    self._report.stuck = await self._state()
                self._report.violations.append(otherwise)
                return False
            await self._changes.wait(seconds=0.5)
        return True

    async def _state(self) -> list[str]:
        """What everybody waits for, for whoever looks for the reason: pods, claims, and who leads since when."""
        lines = [f"{time.strftime('%H:%M:%S', time.gmtime())}: the state when nothing went on"]
        for pod in self._pods.items():
            status = pod.get("status") or {}
            said = [
                f"{each['type']}={each['status']} {each.get('reason', '')} {each.get('message', '')}".strip()
                for each in status.get("conditions") or ()
                if each["status"] != "True"
            ]
            metadata, node = pod["metadata"], pod["spec"].get("nodeName", "no node")
            going = " being deleted" if metadata.get("deletionTimestamp") else ""
            lines.append(f"pod {metadata['name']}: {status.get('phase')} on {node}{going}: {'; '.join(said)}")
        for claim in self._claims.items():
            held = claim.get("status") or {}
            results = ((held.get("allocation") or {}).get("devices") or {}).get("results") or ()
            has = ", ".join(f"{result['pool']}/{result['device']}" for result in results) or "nothing"
            users = ", ".join(user["name"] for user in held.get("reservedFor") or ()) or "nobody"
            lines.append(f"claim {claim['metadata']['name']}: has {has}, reserved for {users}")
        with suppress(StatusError):
            for lease in (await self._client.list(LEASES, "kube-system")).items:
                spec = lease["spec"]
                lines.append(
                    f"lease {lease['metadata']['name']}: {spec.get('holderIdentity')} at {spec.get('renewTime')}"
                )
        return lines


KINDS = ("one", "pair", "two", "shared", "extended")
_WEIGHTS = (55, 15, 10, 15, 5)


def _pod(name: str, rng: random.Random, scheduler: str) -> dict[str, Any]:
    kind = rng.choices(KINDS, _WEIGHTS)[0]
    container: dict[str, Any] = {"name": "main", "image": "sleep"}
    claims: list[dict[str, str]] = []
    match kind:
        case "one" | "two":
            claims = [{"name": "gpu", "resourceClaimTemplateName": kind}]
        case "pair":
            claims = [{"name": n, "resourceClaimTemplateName": "one"} for n in ("left", "right")]
        case "shared":
            claims = [{"name": "gpu", "resourceClaimName": f"shared-{rng.randrange(SHARED)}"}]
        case "extended":
            container["resources"] = {"limits": {EXTENDED: "1"}}
    if claims:
        container["resources"] = {"claims": [{"name": c["name"]} for c in claims]}
    ends = {"simulated.dray.dev/run-for": f"{rng.uniform(0, 1):.2f}"} if rng.random() < 0.3 else {}
    return {
        "metadata": {"name": name, "labels": {"kind": kind}, "annotations": ends},
        "spec": {
            "containers": [container],
            "resourceClaims": claims,
            "restartPolicy": "Never",
            "schedulerName": scheduler,
            "terminationGracePeriodSeconds": 1,
        },
    }


def _wants(count: int) -> dict[str, Any]:
    return {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "gpu", "count": count}}]}}

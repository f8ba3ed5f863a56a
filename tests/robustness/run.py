"""One run: a cluster on three machines, load, faults by plan and seed, and the verdict on what everybody saw."""

from __future__ import annotations

import asyncio
import json
import math
import random
import signal
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import aiohttp

from . import faults as several_machines
from . import one_machine, verdict
from .booking_load import CLAIMS as _CLAIMS
from .booking_load import BookingLoad
from .bookings import Bookings
from .cluster import TOKEN, Cluster
from .history import History, Operation
from .load import Client, ConfigMapLoad, watch_seconds
from .one_machine import OneMachine

_RESOURCE = "/apis/resource.k8s.io/v1"
_PODS = "/api/v1/namespaces/default/pods"
_TEMPLATES = f"{_RESOURCE}/namespaces/default/resourceclaimtemplates"
DRIVER = "gpu.example.com"
#: After so many faults a pod must run before the next one comes.
PODS_AFTER = 5
#: Of so many watches that lasted as long as they had asked, one was sent the bookmark that comes two seconds before the end.
LASTED = 5
#: The share of pods that are deleted only once they run. The others are deleted after seconds, in whatever they are in the
#: middle of; where everything is slow, none of those would ever run.
PATIENT = 0.25
#: Of every node; see ``_slices``.
SHARED = "shared"
DEVICES = ("whole-0", "whole-1", "part-0", "part-1", "part-2", "part-3", SHARED)


@dataclass(frozen=True, kw_only=True)
class Options:
    data: Path
    etcd: str  # the binary, for three machines; empty for one machine on SQLite
    seed: int = 0
    operations: int = 5000  # on config maps, at least
    minutes: float = math.inf  # no longer than that, before the last write and the verdict
    least_faults: int = 0  # a fast machine goes on until there have been so many
    writers: int = 8
    keys: int = 12
    pods: int = 40  # at the same time
    bookers: int = 6  # clients that allocate devices themselves
    nodes: int = 6
    faults: list[str] = field(default_factory=list)  # these only; empty for all
    long_faults: float = 0.15  # the share of faults that last 15 to 40 s
    patience: float = 60.0
    progress: Callable[[str], None] | None = None  # is told now and then how far a long run is


@dataclass
class Report:
    seed: int
    violations: list[str] = field(default_factory=list)
    faults: Counter[str] = field(default_factory=Counter)
    long_faults: int = 0  # among them
    operations: Counter[str] = field(default_factory=Counter)
    watches: int = 0
    events: int = 0
    bookmarks: int = 0
    listings: int = 0
    claims: int = 0
    gaps: int = 0  # in the watch on claims, which had to list anew
    pods: int = 0
    bookings: Counter[str] = field(default_factory=Counter)  # of the clients that allocate themselves
    restarts: int = 0
    fenced: int = 0  # writes of those who no longer led, by their logs
    taken_back: int = 0  # writes to the disk, by power cuts
    seconds: float = 0.0
    signalled: bool = False  # somebody ended it before it had done what it was asked to

    def see(self, history: History, lasted: int) -> None:
        """Count what is in the history. So many of its watches lasted as long as they had asked."""
        self.operations = Counter(f"{o.verb} {o.outcome}" for o in history.operations)
        self.watches, self.listings = len(history.watches), len(history.listings)
        bookmarks = Counter(event.type == "BOOKMARK" for watch in history.watches for event in watch.events)
        self.events, self.bookmarks = bookmarks[False], bookmarks[True]
        if not self.bookmarks and lasted >= LASTED:
            self.violations.append("no watch was sent a bookmark")

    def __str__(self) -> str:
        lines = [
            f"seed {self.seed}: {sum(self.operations.values())} operations in {self.seconds:.0f} s",
            "outcomes: " + ", ".join(f"{name} {n}" for name, n in self.operations.most_common()),
            "faults: "
            + ", ".join(f"{name} {n}" for name, n in self.faults.most_common())
            + f"; {self.long_faults} of them lasted 15 s or more",
            f"{self.watches} watches with {self.events} events and {self.bookmarks} bookmarks, {self.listings} lists, "
            f"{self.claims} revisions of claims with {self.gaps} gaps, {self.pods} pods ran, "
            f"{self.bookings['taken']} devices were booked beside them and {self.bookings['refused']} refused, "
            f"{self.restarts} parts that had ended were started again, "
            f"{self.fenced} writes of those who no longer led were refused",
            *([f"power cuts took back {self.taken_back} writes"] if self.faults["power loss"] else []),
            *(["ended early by a signal"] if self.signalled else []),
            *(f"VIOLATION {violation}" for violation in self.violations[:20]),
        ]
        return "\n".join(lines if self.violations else [*lines, "no violation"])


async def run(options: Options) -> Report:
    began = time.monotonic()
    report = Report(options.seed)
    faults: dict[str, tuple[Any, int]]
    cluster: Cluster | OneMachine
    if options.etcd:
        cluster, faults = Cluster(options.data, options.etcd, options.nodes), several_machines.FAULTS
    else:
        cluster, faults = OneMachine(options.data, options.nodes), one_machine.FAULTS
    if options.faults:
        faults = {name: fault for name, fault in faults.items() if name in options.faults}
    with cluster:
        connector = aiohttp.TCPConnector(ssl=False, limit=0)
        headers = {"Authorization": f"Bearer {TOKEN}"}
        async with aiohttp.ClientSession(connector=connector, headers=headers) as session:
            session._retry_connection = False  # or it would send a PUT again whose answer got lost
            await _Run(options, cluster, session, report, faults).run()
        report.violations += [f"{part.name} died by itself" for part in cluster.servers if not part.running]
        leaders = (*cluster.schedulers, *cluster.controllers)
        report.fenced = sum(part.log.read_text().count("no longer leads") for part in leaders)
        if isinstance(cluster, OneMachine):
            report.taken_back = cluster.lost
    report.seconds = time.monotonic() - began
    return report


class _Run:
    def __init__(
        self,
        options: Options,
        cluster: Cluster | OneMachine,
        session: aiohttp.ClientSession,
        report: Report,
        faults: dict[str, tuple[Any, int]],
    ) -> None:
        self._options, self._cluster, self._session, self._report = options, cluster, session, report
        self._faults = faults
        self._rng = random.Random(options.seed)
        self._history = History()
        self._prefix = f"r{options.seed}"
        self._began = time.monotonic()
        self._stopped = False
        self._load = ConfigMapLoad(self._history, self._client, keys=options.keys, prefix=self._prefix)

    def _client(self, rng: random.Random) -> Client:
        return Client(self._session, self._cluster.urls, rng)

    def _fork(self) -> random.Random:
        return random.Random(self._rng.random())

    def _stop(self) -> None:
        """Whoever ends a run early still learns what it has seen, and finds nothing left behind."""
        self._stopped = self._report.signalled = True

    async def run(self) -> None:
        for number in (signal.SIGINT, signal.SIGTERM):
            asyncio.get_running_loop().add_signal_handler(number, self._stop)
        bookings = await self._furnish()
        _, first = await self._client(self._fork()).insist("GET", f"{self._load.PATH}?limit=1")
        start = int(first["metadata"]["resourceVersion"])
        booking = BookingLoad(self._client, DRIVER, ["n-0"], DEVICES, SHARED, self._report.bookings)
        async with asyncio.TaskGroup() as tasks:
            background = [
                tasks.create_task(self._load.watch("faithful", self._fork(), start, resume=True)),
                tasks.create_task(self._load.watch("faithful too", self._fork(), start, resume=True)),
                tasks.create_task(self._load.watch("again and again", self._fork(), start, resume=False)),
                tasks.create_task(self._load.list_now_and_then("lister", self._fork())),
                tasks.create_task(self._follow(bookings, start)),
                tasks.create_task(self._inflict(self._fork())),
                tasks.create_task(self._supervise()),
                tasks.create_task(self._tell_progress()),
                *(tasks.create_task(self._live(n, self._fork())) for n in range(self._options.pods)),
                *(tasks.create_task(booking.book(f"b{n}", self._fork())) for n in range(self._options.bookers)),
            ]  # fmt: skip
            async with asyncio.TaskGroup() as writers:
                for number in range(self._options.writers):
                    writers.create_task(self._load.write(f"w{number}", self._fork(), self._goes_on))
            background[5].cancel()
            await self._settle()
            for task in background:
                task.cancel()
        self._judge(bookings)

    def _goes_on(self) -> bool:
        if self._stopped or time.monotonic() - self._began > 60 * self._options.minutes:
            return False
        return (
            self._load.done < self._options.operations
            or self._report.faults.total() < self._options.least_faults
        )

    async def _inflict(self, rng: random.Random) -> None:
        """One fault after the other; after each, work must be done again before the next one comes."""
        while True:
            await asyncio.sleep(rng.uniform(0.5, 3))
            [name] = rng.choices(list(self._faults), [weight for _, weight in self._faults.values()])
            async with self._faults[name][0](self._cluster, rng):
                await self._hold(rng)
            self._report.faults[name] += 1
            await self._recovery()
            if self._options.pods and self._report.faults.total() % PODS_AFTER == 0:
                await self._pods_run()

    async def _hold(self, rng: random.Random) -> None:
        """Most faults are over before anybody gives up waiting. The long ones outlast leases and time-outs."""
        long = rng.random() < self._options.long_faults
        self._report.long_faults += long
        await asyncio.sleep(rng.uniform(15, 40) if long else rng.uniform(0.2, 3))

    async def _recovery(self) -> None:
        """After a fault, the cluster must get on by itself."""
        wanted = self._load.succeeded + 3 * self._options.writers
        await self._until(
            lambda: self._load.succeeded >= wanted or not self._goes_on(), "no write succeeds any more"
        )

    async def _pods_run(self) -> None:
        """Components that lost their leases need longer than a write does, and faults may never leave them the time."""
        wanted = self._report.pods + 1
        await self._until(
            lambda: self._report.pods >= wanted or not self._goes_on(),
            "no pod runs any more",
            patience=3 * self._options.patience,
        )

    async def _tell_progress(self) -> None:
        while self._options.progress is not None:
            await asyncio.sleep(60)
            passed = time.monotonic() - self._began
            self._options.progress(
                f"{passed / 60:.0f} min: {self._load.done} operations, {self._report.faults.total()} faults, "
                f"{self._report.pods} pods ran; {'; '.join(self._report.violations[:3]) or 'all is well'}"
            )

    async def _supervise(self) -> None:
        """Start again what has ended, as systemd would: a part that has lost its lease ends, as upstream's do."""
        while True:
            await asyncio.sleep(0.5)
            for part in (*self._cluster.schedulers, *self._cluster.controllers, *self._cluster.others):
                if not part.running and part not in self._cluster.down:
                    self._report.restarts += 1
                    if not (last := _last_line(part.log)).startswith("Error: "):
                        self._report.violations.append(f"{part.name} died without saying why: {last}")
                    part.start()

    async def _settle(self) -> None:
        """The watchers must see the last write of all before they are judged."""
        client = self._client(self._fork())
        name = f"{self._prefix}-last"
        body = {"metadata": {"name": name, "labels": {"robustness": self._prefix}}, "data": {"value": "last"}}
        await client.insist("POST", self._load.PATH, body)
        _, last = await client.insist("GET", f"{self._load.PATH}/{name}")
        revision = int(last["metadata"]["resourceVersion"])

        def seen() -> bool:
            return all(self._load.seen[who] >= revision for who in ("faithful", "faithful too"))

        await self._until(seen, "a watcher never saw the last write")

    async def _until(self, true: Callable[[], bool], otherwise: str, *, patience: float = 0) -> None:
        deadline = time.monotonic() + (patience or self._options.patience)
        while not true():
            if time.monotonic() > deadline:
                self._report.violations.append(otherwise)
                return
            await asyncio.sleep(0.05)

    # -- devices ----------------------------------------------------------------------------------------------------

    async def _furnish(self) -> Bookings:
        """Whole devices, a device for shares and a card with partitions on every node."""
        client = self._client(self._fork())
        selector = {"cel": {"expression": f'device.driver == "{DRIVER}"'}}
        await client.insist(
            "POST",
            f"{_RESOURCE}/deviceclasses",
            {"metadata": {"name": "gpu"}, "spec": {"selectors": [selector]}},
        )
        for name, expression, capacity in (
            ("whole", "device.attributes['gpu.example.com'].kind == 'whole'", None),
            ("part", "device.attributes['gpu.example.com'].kind == 'part'", None),
            (
                "share",
                "device.attributes['gpu.example.com'].kind == 'share'",
                {"requests": {"memory": "3Gi"}},
            ),
        ):
            exactly: dict[str, Any] = {
                "deviceClassName": "gpu",
                "selectors": [{"cel": {"expression": expression}}],
            }
            if capacity:
                exactly["capacity"] = capacity
            spec = {"devices": {"requests": [{"name": "r", "exactly": exactly}]}}
            await client.insist("POST", _TEMPLATES, {"metadata": {"name": name}, "spec": {"spec": spec}})
        slices = [slice_ for number in range(self._options.nodes) for slice_ in _slices(f"n-{number}")]
        for each in slices:
            await client.insist("POST", f"{_RESOURCE}/resourceslices", each)
        return Bookings(slices)

    async def _follow(self, bookings: Bookings, start: int) -> None:
        """Every revision of every claim, whoever serves it, but for what a compaction has taken from all servers."""
        rng = self._fork()
        client, revision, refused = self._client(rng), start, 0
        known: dict[str, Any] = {}
        while True:
            async for event in client.watch(_CLAIMS, revision, seconds=watch_seconds(rng)):
                if event["type"] == "ERROR":
                    refused += 1
                    break
                refused = 0
                claim = event["object"]
                revision = int(claim["metadata"]["resourceVersion"])
                if event["type"] != "BOOKMARK":
                    self._report.claims += 1
                    bookings.record(event["type"], claim)
                    known[claim["metadata"]["name"]] = claim
                    if event["type"] == "DELETED":
                        del known[claim["metadata"]["name"]]
            if refused > 5 * len(self._cluster.urls):  # a server that was not started since may still have it
                refused = 0
                self._report.gaps += 1
                _, found = await client.insist("GET", _CLAIMS)
                for claim in known.values():
                    bookings.record("DELETED", claim)
                known = {claim["metadata"]["name"]: claim for claim in found["items"]}
                for claim in known.values():
                    bookings.record("ADDED", claim)
                revision = int(found["metadata"]["resourceVersion"])
            await asyncio.sleep(0.05)

    async def _live(self, number: int, rng: random.Random) -> None:
        """Pods with claims, one after the other."""
        client = self._client(rng)
        for life in range(10**9):
            name = f"p{number}-{life}"
            await client.insist("POST", _PODS, _pod(name, rng.choice(("whole", "part", "share"))))
            patient = rng.random() < PATIENT or life == 0
            deadline = time.monotonic() + (self._options.patience if patient else rng.uniform(1, 8))
            while time.monotonic() < deadline:
                _, pod = await client.request("GET", f"{_PODS}/{name}")
                if pod and (pod.get("status") or {}).get("phase") == "Running":
                    self._report.pods += 1
                    break
                await asyncio.sleep(1)
            await client.insist(
                "DELETE",
                f"{_PODS}/{name}",
                {"kind": "DeleteOptions", "apiVersion": "v1", "gracePeriodSeconds": 0},
            )

    # -- the verdict ------------------------------------------------------------------------------------------------

    def _judge(self, bookings: Bookings) -> None:
        history, report = self._history, self._report
        if found := verdict.violations(history):
            self._keep_history(history.operations)
        report.violations += [*found, *bookings.violations]
        report.see(history, self._load.lasted)

    def _keep_history(self, operations: list[Operation]) -> None:
        """Write down all operations, one a line, for whoever looks for the reason."""
        with (self._options.data / "operations.jsonl").open("w") as file:
            file.writelines(json.dumps(asdict(operation)) + "\n" for operation in operations)


def _last_line(log: Path) -> str:
    return (log.read_text().rstrip().splitlines() or [""])[-1]


def _slices(node: str) -> list[dict[str, Any]]:
    def kind(name: str) -> dict[str, Any]:
        return {"kind": {"string": name}}

    pool = {"name": node, "generation": 1, "resourceSliceCount": 2}
    spec = {"driver": DRIVER, "nodeName": node, "pool": pool}
    counters = [{"name": "card", "counters": {"memory": {"value": "40Gi"}}}]
    consumes = [{"counterSet": "card", "counters": {"memory": {"value": "15Gi"}}}]
    devices = [
        *({"name": f"whole-{n}", "attributes": kind("whole")} for n in range(2)),
        *({"name": f"part-{n}", "attributes": kind("part"), "consumesCounters": consumes} for n in range(4)),
        {
            "name": SHARED, "attributes": kind("share"), "allowMultipleAllocations": True,
            "capacity": {"memory": {"value": "10Gi", "requestPolicy": {"default": "1Gi", "validRange": {"min": "1Gi", "step": "1Gi"}}}},
        },
    ]  # fmt: skip
    return [
        {"metadata": {"name": f"{node}-counters"}, "spec": {**spec, "sharedCounters": counters}},
        {"metadata": {"name": f"{node}-devices"}, "spec": {**spec, "devices": devices}},
    ]


def _pod(name: str, template: str) -> dict[str, Any]:
    container = {"name": "main", "image": "sleep", "resources": {"claims": [{"name": "gpu"}]}}
    return {
        "metadata": {"name": name},
        "spec": {
            "containers": [container],
            "resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": template}],
            "restartPolicy": "Never",
        },
    }

"""Lets pods with claims come and go on one ``dray up``, and prints what grows: memory, descriptors, threads, the file.

Every pod gets a device by a claim from a template, runs on a simulated node, is deleted and gone. ``--rate`` starts so
many a second; without it, as many as the cluster takes. Each line is a twentieth of the run, or ``--every`` so many pods; the
slope is a line through the later part of it, when every buffer has reached its size. Whoever ends a run early, or by
``--minutes``, still gets the slope of what there was.
"""

from __future__ import annotations

import argparse
import asyncio
import dataclasses
import json
import math
import signal
import statistics
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import aiohttp
import msgspec
from bench import TOKEN, running
from bench_node import CLAIMS, PODS, TEMPLATE, pod

DRIVER = "gpu.example.com"
SLICES = "/apis/resource.k8s.io/v1/resourceslices"
DEVICE_CLASS = {
    "metadata": {"name": DRIVER},
    "spec": {"selectors": [{"cel": {"expression": f'device.driver == "{DRIVER}"'}}]},
}
#: Part of the run after which nothing should grow any more.
WARM_UP = 0.3


class _Metadata(msgspec.Struct):
    name: str = ""
    resourceVersion: str = ""


class _Spec(msgspec.Struct):
    nodeName: str = ""


class _Status(msgspec.Struct):
    phase: str = ""


class _Pod(msgspec.Struct):
    metadata: _Metadata
    spec: _Spec = msgspec.field(default_factory=_Spec)
    status: _Status = msgspec.field(default_factory=_Status)


class _Event(msgspec.Struct):
    type: str
    object: _Pod


_decode = msgspec.json.Decoder(_Event).decode


@dataclasses.dataclass(frozen=True)
class Sample:
    """What the process has after so many pods. Latencies are from creation until it runs, of the pods since the last one."""

    pods: int
    seconds: float
    resident_mb: float
    descriptors: int
    threads: int
    file_mb: float
    latency_ms: float
    cpu_ms: float  # processor time per pod since the last sample


def status(pid: int) -> Mapping[str, str]:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return {name: rest.strip() for name, _, rest in (line.partition(":") for line in lines)}


def cpu_seconds(pid: int) -> float:
    ticks = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(ticks[11]) + int(ticks[12])) / 100


class Soak:
    """Keeps ``at_once`` pods alive until ``pods`` of them have come and gone."""

    def __init__(
        self,
        session: aiohttp.ClientSession,
        *,
        pid: int,
        data: Path,
        pods: int,
        at_once: int,
        rate: float,
        every: int,
        minutes: float,
        bind_only: bool,
    ) -> None:
        self._bind_only = bind_only
        self._session = session
        self._pid = pid
        self._data = data
        self._pods = pods
        self._rate = rate
        self._every = every
        self._minutes = minutes
        self._free = asyncio.Semaphore(at_once)
        self._created: dict[str, float] = {}
        self._latencies: list[float] = []
        self._running: asyncio.Queue[str] = asyncio.Queue()
        self._gone = 0
        self._done = asyncio.Event()
        self._began = time.monotonic()
        self._cpu = cpu_seconds(pid)
        self.samples: list[Sample] = []

    async def run(self) -> None:
        await self._ask("POST", CLAIMS.replace("resourceclaims", "resourceclaimtemplates"), TEMPLATE)
        version = (await self._ask("GET", f"{PODS}?limit=1"))["metadata"]["resourceVersion"]
        self._began = time.monotonic()
        tasks = [asyncio.create_task(self._watch(version))]
        numbers = iter(range(self._pods))
        tasks += [asyncio.create_task(self._create(numbers)) for _ in range(16)]
        tasks += [asyncio.create_task(self._delete()) for _ in range(16)]
        for number in (signal.SIGINT, signal.SIGTERM):
            asyncio.get_running_loop().add_signal_handler(number, self._done.set)
        done = asyncio.create_task(self._done.wait())
        await asyncio.wait(
            (done, tasks[0]), timeout=60 * self._minutes or None, return_when=asyncio.FIRST_COMPLETED
        )
        for task in (done, *tasks):
            task.cancel()
        ended = await asyncio.gather(*tasks, return_exceptions=True)
        for problem in ended:
            if isinstance(problem, BaseException) and not isinstance(problem, asyncio.CancelledError):
                raise problem

    async def _ask(self, method: str, path: str, body: object = None) -> Any:
        async with self._session.request(method, path, json=body) as answer:
            content = await answer.read()
            if answer.status >= 400 and answer.status != 404:
                raise SystemExit(f"{method} {path}: {content.decode(errors='replace')}")
            return json.loads(content) if method == "GET" else None

    async def _create(self, numbers: Iterator[int]) -> None:
        for number in numbers:
            name = f"soak-{number}"
            if self._rate:
                await asyncio.sleep(max(0.0, self._began + number / self._rate - time.monotonic()))
            await self._free.acquire()
            self._created[name] = time.monotonic()
            await self._ask("POST", PODS, pod(name))

    async def _delete(self) -> None:
        while True:
            # Nobody ends the containers of a pod on a node without an agent.
            query = "?gracePeriodSeconds=0" if self._bind_only else ""
            await self._ask("DELETE", f"{PODS}/{await self._running.get()}{query}")

    async def _watch(self, version: str) -> None:
        while True:  # the server ends a watch after a time, and that of a client that reads too slowly
            path = f"{PODS}?watch=1&timeoutSeconds=86400&resourceVersion={version}"
            async with self._session.get(path) as answer:
                rest = b""
                async for chunk in answer.content.iter_any():
                    *lines, rest = (rest + chunk).split(b"\n")
                    for line in lines:
                        event = _decode(line)
                        if event.type == "ERROR":
                            raise SystemExit(f"the watch of pods has fallen behind: {line.decode()}")
                        self._note(event)
                        version = event.object.metadata.resourceVersion

    def _note(self, event: _Event) -> None:
        name, seen = event.object.metadata.name, event.object
        if event.type == "DELETED":
            self._free.release()
            self._gone += 1
            if self._gone % self._every == 0:
                self._sample()
            if self._gone == self._pods:
                self._done.set()
        elif name in self._created and (
            seen.spec.nodeName if self._bind_only else seen.status.phase == "Running"
        ):
            self._latencies.append(time.monotonic() - self._created.pop(name))
            self._running.put_nowait(name)

    def _sample(self) -> None:
        now, cpu, found = time.monotonic() - self._began, cpu_seconds(self._pid), status(self._pid)
        before = self.samples[-1].pods if self.samples else 0
        sample = Sample(
            self._gone,
            now,
            int(found["VmRSS"].split()[0]) / 1e3,
            len(list(Path(f"/proc/{self._pid}/fd").iterdir())),
            int(found["Threads"]),
            sum(f.stat().st_size for f in self._data.glob("*.db*")) / 1e6,
            statistics.median(self._latencies) * 1e3 if self._latencies else 0.0,
            (cpu - self._cpu) / (self._gone - before) * 1e3,
        )
        self._cpu = cpu
        self._latencies.clear()
        self.samples.append(sample)
        print(
            f"  {sample.pods:9,} pods {now:7,.0f} s {sample.pods / now:6,.0f}/s"
            f" {sample.resident_mb:7,.1f} MB {sample.descriptors:4} descriptors {sample.threads:3} threads"
            f" {sample.file_mb:8,.1f} MB file {sample.latency_ms:7,.0f} ms until it runs {sample.cpu_ms:6.2f} ms processor",
            flush=True,
        )


def slope(samples: Sequence[Sample]) -> tuple[float, float]:
    """Megabytes per 100,000 pods, by least squares over what follows the warm-up, and the standard error of that.

    A short run says little: the allocator's steps of some hundred kilobytes look like a slope.
    """
    later = [s for s in samples if s.pods >= samples[-1].pods * WARM_UP]
    pods, resident = [s.pods / 1e5 for s in later], [s.resident_mb for s in later]
    line = statistics.linear_regression(pods, resident)
    off = sum((y - line.intercept - line.slope * x) ** 2 for x, y in zip(pods, resident, strict=True))
    spread = statistics.pvariance(pods) * len(pods)
    return line.slope, math.sqrt(off / (len(pods) - 2) / spread)


async def soak(args: argparse.Namespace) -> None:
    up = ["up", "--nodes", "0" if args.bind_only else str(args.nodes), "--runtime", "simulated", *args.dray]
    if args.bind_only:
        up += ["--disable-admission-plugins", "TaintNodesByCondition"]
    with running(*up) as (url, pid, _):
        line = Path(f"/proc/{pid}/cmdline").read_text().split("\0")
        data = Path(line[line.index("--data") + 1])
        connector = aiohttp.TCPConnector(limit=40, ssl=False)
        timeout = aiohttp.ClientTimeout(total=None)
        headers = {"Authorization": f"Bearer {TOKEN}"}
        async with aiohttp.ClientSession(
            url, headers=headers, connector=connector, timeout=timeout, read_bufsize=2**20
        ) as session:
            await prepare(session, args.nodes, bind_only=args.bind_only)
            run = Soak(
                session, pid=pid, data=data, pods=args.pods, at_once=args.at_once, rate=args.rate,
                every=args.every or max(1, args.pods // 20), minutes=args.minutes, bind_only=args.bind_only,
            )  # fmt: skip
            await run.run()
    samples = run.samples
    if len(samples) < 5:
        raise SystemExit("the run was too short for a slope")
    rise, error = slope(samples)
    last = samples[-1]
    early = min(samples, key=lambda s: abs(s.pods - last.pods / 10))
    print(f"  slope after warm-up, MB per 100,000 pods  {rise:10,.2f} ± {error:.2f}")
    print(f"  resident at the end / after a tenth       {last.resident_mb / early.resident_mb:10,.2f}")
    print(f"  latency at the end / after a tenth        {last.latency_ms / early.latency_ms:10,.2f}")


async def prepare(session: aiohttp.ClientSession, nodes: int, *, bind_only: bool) -> None:
    """Wait for the devices of the nodes, or write nodes and devices that nobody stands behind."""
    while not bind_only:
        async with session.get(SLICES) as answer:
            if len((await answer.json())["items"]) >= nodes:
                return
        await asyncio.sleep(0.1)
    for path, obj in [
        ("/apis/resource.k8s.io/v1/deviceclasses", DEVICE_CLASS),
        *((path, obj) for number in range(nodes) for path, obj in node_and_devices(number)),
    ]:
        async with session.post(path, json=obj) as answer:
            if answer.status >= 400:
                raise SystemExit(f"POST {path}: {await answer.text()}")


def node_and_devices(number: int) -> Iterator[tuple[str, dict[str, Any]]]:
    name = f"soak-{number}"
    room = {"pods": "110", "cpu": "64", "memory": "256Gi"}
    ready = {"capacity": room, "allocatable": room, "conditions": [{"type": "Ready", "status": "True"}]}
    yield "/api/v1/nodes", {"metadata": {"name": name}, "status": ready}
    spec = {
        "driver": DRIVER,
        "nodeName": name,
        "pool": {"name": name, "generation": 1, "resourceSliceCount": 1},
        "devices": [{"name": f"device-{n}"} for n in range(8)],
    }
    yield SLICES, {"metadata": {"name": name}, "spec": spec}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pods", type=int, default=1_000_000)
    parser.add_argument("--nodes", type=int, default=20)
    parser.add_argument("--at-once", type=int, default=100, help="pods that are there at the same time")
    parser.add_argument("--rate", type=float, default=0, help="pods a second; default: as fast as it goes")
    parser.add_argument(
        "--every", type=int, default=0, help="pods between two lines; default: a twentieth of all"
    )
    parser.add_argument("--minutes", type=float, default=0, help="end after so long, however few there were")
    parser.add_argument(
        "--bind-only", action="store_true", help="nodes are objects only; a pod is deleted once it is bound"
    )
    parser.add_argument("dray", nargs="*", help="further options of dray up, after --")
    args = parser.parse_args()
    print(f"{args.pods:,} pods with claims come and go on {args.nodes} simulated nodes", flush=True)
    asyncio.run(soak(args))
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""A cluster far larger than most: 20,000 nodes with 8 devices each and 100,000 claims on one process.

The store is written first, as a cluster of that size would have left it. Then a process starts from it, and is asked for
what people ask for. The costs per pod and per renewed lease stand beside those of a cluster of 500 nodes: processor
time, as other programs run on the same machine.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import resource
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import aiohttp
import msgspec
from bench import DRAY, TOKEN, resident_mb, running, show
from bench_gangs import processor_seconds
from bench_node import CLAIMS, PODS, TEMPLATE, pod

from dray.store.sqlite import SqliteStore

DRIVER = "gpu.example.com"
SLICES = "/apis/resource.k8s.io/v1/resourceslices"
TIME = "2026-01-01T00:00:00Z"
#: Claims whose reservations one pod holds: there need not be a pod for each.
CLAIMS_OF_A_POD = 50
encode = msgspec.json.Encoder().encode

Entry = tuple[str, bytes]


def stored(resource: str, kind: str, api_version: str, name: str, namespace: str = "", **rest: Any) -> Entry:
    metadata = {"name": name, "uid": str(uuid.uuid5(uuid.NAMESPACE_OID, f"{kind}/{namespace}/{name}"))}
    if namespace:
        metadata["namespace"] = namespace
    obj = {
        "kind": kind,
        "apiVersion": api_version,
        "metadata": {**metadata, "creationTimestamp": TIME},
        **rest,
    }
    return f"/registry/{resource}/{namespace + '/' if namespace else ''}{name}", encode(obj)


def node(name: str) -> Iterator[Entry]:
    room = {"cpu": "64", "memory": "256Gi", "pods": "110"}
    conditions = [
        {
            "type": "Ready",
            "status": "True",
            "lastHeartbeatTime": TIME,
            "lastTransitionTime": TIME,
            "reason": "r",
        }
    ]
    status = {"capacity": room, "allocatable": room, "conditions": conditions}
    labels = {"kubernetes.io/hostname": name}
    key, value = stored("minions", "Node", "v1", name, spec={}, status=status)
    yield key, value.replace(b'"creationTimestamp"', b'"labels":%b,"creationTimestamp"' % encode(labels))
    lease = {"holderIdentity": name, "leaseDurationSeconds": 40, "renewTime": "2026-01-01T00:00:00.000000Z"}
    # Under another name: a node whose lease nobody renews would be taken for dead in the middle of the measurement.
    yield stored("leases", "Lease", "coordination.k8s.io/v1", f"of-{name}", "kube-node-lease", spec=lease)
    devices = [
        {
            "name": f"gpu-{n}",
            "attributes": {"model": {"string": "a"}, "index": {"int": n}},
            "capacity": {"memory": {"value": "80Gi"}},
        }
        for n in range(8)
    ]
    pool = {"name": name, "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": DRIVER, "nodeName": name, "pool": pool, "devices": devices}
    yield stored("resourceslices", "ResourceSlice", "resource.k8s.io/v1", name, spec=spec)


def claim(number: int, device: tuple[str, str], holder: tuple[str, str]) -> Iterator[Entry]:
    """An allocated claim and the booking of its device."""
    where, name = device
    holder_name, holder_uid = holder
    request = {
        "name": "gpu",
        "exactly": {"deviceClassName": DRIVER, "allocationMode": "ExactCount", "count": 1},
    }
    result = {"request": "gpu", "driver": DRIVER, "pool": where, "device": name}
    term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [where]}]}
    status = {
        "allocation": {
            "devices": {"results": [result]},
            "nodeSelector": {"nodeSelectorTerms": [term]},
            "allocationTimestamp": TIME,
        },
        "reservedFor": [{"resource": "pods", "name": holder_name, "uid": holder_uid}],
    }
    key, value = stored(
        "resourceclaims", "ResourceClaim", "resource.k8s.io/v1", f"claim-{number:06}", "default",
        spec={"devices": {"requests": [request]}}, status=status,
    )  # fmt: skip
    finalizer = b'"finalizers":["resource.kubernetes.io/delete-protection"],"creationTimestamp"'
    yield key, value.replace(b'"creationTimestamp"', finalizer, 1)
    uid = str(uuid.uuid5(uuid.NAMESPACE_OID, f"ResourceClaim/default/claim-{number:06}"))
    booked = {"claims": {f"default/claim-{number:06}": {"uid": uid}}}
    yield f"/dray/bookings/devices/{DRIVER}/{where}/{name}", encode(booked)


def holder_pod(name: str, where: str) -> Entry:
    container = {"name": "c", "image": "i", "resources": {}, "imagePullPolicy": "Always"}
    spec = {
        "nodeName": where,
        "containers": [container],
        "restartPolicy": "Always",
        "schedulerName": "default-scheduler",
    }
    return stored("pods", "Pod", "v1", name, "default", spec=spec, status={"phase": "Running"})


def cluster(nodes: int, claims: int) -> Iterator[Entry]:
    names = [f"node-{n:05}" for n in range(nodes)]
    for name in names:
        yield from node(name)
    selector = {"cel": {"expression": f'device.driver == "{DRIVER}"'}}
    yield stored("deviceclasses", "DeviceClass", "resource.k8s.io/v1", DRIVER, spec={"selectors": [selector]})
    devices = ((name, f"gpu-{n}") for n in range(8) for name in names)
    for number, device in enumerate(itertools.islice(devices, claims)):
        holder, of_holder = divmod(number, CLAIMS_OF_A_POD)
        name = f"holder-{holder:05}"
        if not of_holder:
            yield holder_pod(name, names[holder % nodes])
        yield from claim(number, device, (name, str(uuid.uuid5(uuid.NAMESPACE_OID, f"Pod/default/{name}"))))


async def write(path: Path, entries: Iterator[Entry]) -> int:
    """A store with these entries, whose history is compacted as it would be after some minutes."""
    store = await SqliteStore.open(path)
    count = 0
    try:
        while batch := list(itertools.islice(entries, 4000)):
            await asyncio.gather(*(store.create(key, value) for key, value in batch))
            count += len(batch)
        await store.compact(store.revision)
    finally:
        await store.close()
    return count


class Load:
    def __init__(self, session: aiohttp.ClientSession, pid: int) -> None:
        self._session = session
        self._pid = pid

    async def ask(
        self, method: str, path: str, body: Any = None, *, media: str = "application/json"
    ) -> bytes:
        content = None if body is None else encode(body)
        async with self._session.request(
            method, path, data=content, headers={"Content-Type": media}
        ) as answer:
            read = await answer.read()
            if answer.status >= 400 and answer.status != 409:
                raise SystemExit(f"{method} {path}: {read.decode(errors='replace')[:300]}")
            return read

    async def settled(self) -> None:
        """Until the process has nothing left to do from its start."""
        before = processor_seconds(self._pid)
        for _ in range(240):
            await asyncio.sleep(1)
            now = processor_seconds(self._pid)
            if now - before < 0.06:
                return
            before = now

    async def pods(self, count: int) -> tuple[float, float]:
        """Pods a second, and processor time per pod in milliseconds, of pods with claims until they are bound."""
        await self.ask("POST", CLAIMS.replace("resourceclaims", "resourceclaimtemplates"), TEMPLATE)
        for at, number in (("warm", count // 4), ("pods", count)):
            names = iter([f"{at}-{n:05}" for n in range(number)])
            began, cpu = time.monotonic(), processor_seconds(self._pid)
            await asyncio.gather(*(self._create(names) for _ in range(16)))
            query = f"{PODS}?fieldSelector=spec.nodeName="
            while b'"name":"%b-' % at.encode() in await self.ask("GET", query):  # noqa: ASYNC110
                await asyncio.sleep(0.2)
        return count / (time.monotonic() - began), (processor_seconds(self._pid) - cpu) * 1000 / count

    async def _create(self, names: Iterator[str]) -> None:
        for name in names:
            await self.ask("POST", PODS, pod(name))

    async def leases(self, count: int) -> float:
        """Processor time of one renewal of a node's lease, in milliseconds."""
        cpu = processor_seconds(self._pid)
        names = iter([f"of-node-{n:05}" for n in range(count)])

        async def renew() -> None:
            for name in names:
                path = f"/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/{name}"
                patch = {"spec": {"renewTime": "2026-01-02T00:00:00.000000Z"}}
                await self.ask("PATCH", path, patch, media="application/merge-patch+json")

        await asyncio.gather(*(renew() for _ in range(16)))
        return (processor_seconds(self._pid) - cpu) * 1000 / count


def command(pid: int, *arguments: str) -> None:
    """Seconds that a command takes, and its own processor time."""
    began, before = time.monotonic(), resource.getrusage(resource.RUSAGE_CHILDREN)
    line = Path(f"/proc/{pid}/cmdline").read_text().split("\0")
    kubeconfig = Path(line[line.index("--data") + 1]) / "kubeconfig"
    done = subprocess.run(
        [DRAY, *arguments, "--kubeconfig", str(kubeconfig)], capture_output=True, text=True, check=False
    )
    if done.returncode not in (0, 1):
        raise SystemExit(f"dray {' '.join(arguments)}: {done.stderr.strip()[-500:]}")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    show(f"dray {arguments[0]}, s", time.monotonic() - began)
    spent = after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime
    show("    its processor time, s", spent)


async def measure(folder: Path, nodes: int, claims: int, pods: int, *, tools: bool) -> tuple[float, float]:
    path = folder / f"{nodes}.db"
    count = await write(path, cluster(nodes, claims))
    print(f"{nodes:,} nodes × 8 devices, {claims:,} claims: {count:,} keys in the store", flush=True)
    show("the file, MB", path.stat().st_size / 1e6)
    up = (
        "up",
        "--nodes",
        "0",
        "--store",
        f"sqlite:{path}",
        "--disable-admission-plugins",
        "TaintNodesByCondition",
    )
    with running(*up) as (url, pid, took):
        show("ready after start, s", took)
        show("processor time until then, s", processor_seconds(pid))
        timeout = aiohttp.ClientTimeout(total=None)
        connector = aiohttp.TCPConnector(limit=32, ssl=False)
        headers = {"Authorization": f"Bearer {TOKEN}"}
        async with aiohttp.ClientSession(
            url, headers=headers, connector=connector, timeout=timeout
        ) as session:
            load = Load(session, pid)
            await load.settled()
            show("all parts at rest: processor time, s", processor_seconds(pid))
            show("resident, MB", resident_mb(pid))
            began = time.monotonic()
            listed = await load.ask("GET", SLICES)
            show("list of all slices, s", time.monotonic() - began)
            show("    its size, MB", len(listed) / 1e6)
            del listed
            if tools:
                command(pid, "devices")
                command(pid, "explain", "pod/holder-00000")
            rate, per_pod = await load.pods(pods)
            show("pods_per_s", rate)
            show("processor time per pod, ms", per_pod)
            per_lease = await load.leases(min(nodes, 2000))
            show("processor time per renewed lease, ms", per_lease)
            show("resident afterwards, MB", resident_mb(pid))
            return per_pod, per_lease


async def compare(args: argparse.Namespace) -> None:
    with tempfile.TemporaryDirectory(prefix="dray-large-") as folder:
        small = await measure(Path(folder), 500, 500 * 5, args.pods, tools=False)
        large = await measure(Path(folder), args.nodes, args.claims, args.pods, tools=not args.no_commands)
    print(f"  cost per pod, {args.nodes:,} nodes to 500        {large[0] / small[0]:6.2f} ×")
    print(f"  cost per lease, {args.nodes:,} nodes to 500      {large[1] / small[1]:6.2f} ×")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--nodes", type=int, default=20_000)
    parser.add_argument("--claims", type=int, default=100_000)
    parser.add_argument("--pods", type=int, default=1000)
    parser.add_argument("--no-commands", action="store_true", help="leave dray devices and dray explain out")
    asyncio.run(compare(parser.parse_args()))
    return 0


if __name__ == "__main__":
    sys.exit(main())

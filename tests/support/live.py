"""The same nodes and pods for a live cluster and for the simulator, and where each of them puts the pods."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

from dray.client.client import Client
from dray.client.resources import DEVICE_CLASSES, NODES, PODS, RESOURCE_CLAIMS, RESOURCE_SLICES
from dray.simulate.engine import simulate
from dray.simulate.model import Arrival, Cluster, Options
from dray.simulate.openb import CLASS, Documents, PodRow, node_documents
from tests.support.wait import wait_for

NAMESPACE = "default"
#: pod → node and devices; nothing for a pod that no node fits
Placements = dict[str, tuple[str, tuple[str, ...]]]

_MACHINES = ((64_000, 262_144, 2, "P100"), (96_000, 393_216, 8, "G2"), (32_000, 131_072, 4, "V100"))
_REQUESTS = (
    (4_000, 8_192, 1, 460, ""), (6_000, 12_288, 1, 250, "G2|V100"), (8_000, 30_720, 1, 1000, ""),
    (12_000, 61_440, 2, 1000, ""), (32_000, 65_536, 4, 1000, "G2"), (2_000, 4_096, 0, 0, ""),
)  # fmt: skip


def start(nodes: int) -> Cluster:
    made = [node_documents(f"node-{n:03}", *_MACHINES[n % len(_MACHINES)]) for n in range(nodes)]
    return Cluster(
        nodes=[node for node, _ in made],
        slices=[one for _, slices in made for one in slices],
        classes=[CLASS],
    )


def arrivals(pods: int, seed: int) -> Iterator[Arrival]:
    """Pods with claims that are named, so that a live cluster needs nobody to make them."""
    draw, documents = random.Random(seed), Documents()
    for number in range(pods):
        row = PodRow(f"pod-{number:04}", *draw.choices(_REQUESTS, (6, 3, 4, 2, 1, 3))[0])
        pod, claims = documents.of(row)
        document: Any = {**pod, "spec": {**pod["spec"]}}
        document.pop("status", None)
        if claims:
            name = claims[0]["metadata"]["name"]
            document["spec"]["resourceClaims"] = [{"name": "gpu", "resourceClaimName": name}]
        yield Arrival(float(number), document, claims)


def simulated(nodes: int, pods: int, policy: str) -> Placements:
    result = simulate(start(nodes), arrivals(pods, seed=1), Options(policy=policy))
    return {
        one.pod: (one.node, tuple(device.partition("/")[2] for device in one.devices))
        for one in result.pods
        if one.node
    }


async def lived(client: Client, nodes: int, pods: int) -> Placements:
    """Feed a live cluster with one pod after the other."""
    cluster = start(nodes)
    await client.create(DEVICE_CLASSES, "", CLASS)
    for one in cluster.slices:
        await client.create(RESOURCE_SLICES, "", one)
    for node in cluster.nodes:
        await client.create(NODES, "", node)
    for arrival in arrivals(pods, seed=1):
        for claim in arrival.claims:
            metadata = {"name": claim["metadata"]["name"], "namespace": NAMESPACE}
            await client.create(RESOURCE_CLAIMS, NAMESPACE, {**claim, "metadata": metadata})
        pod: Any = {**arrival.pod, "metadata": {"name": arrival.pod["metadata"]["name"]}}
        await client.create(PODS, NAMESPACE, pod)
        await _decided(client, arrival.pod["metadata"]["name"])
    where = {f"{NAMESPACE}/{p['metadata']['name']}": p for p in (await client.list(PODS, NAMESPACE)).items}
    devices: dict[str, tuple[str, ...]] = {}
    for claim in (await client.list(RESOURCE_CLAIMS, NAMESPACE)).items:
        results = ((claim.get("status") or {}).get("allocation") or {}).get("devices", {}).get("results", ())
        owner = f"{NAMESPACE}/{claim['metadata']['name'].removesuffix('-gpu')}"
        devices[owner] = tuple(f"{r['pool']}/{r['device']}" for r in results)
    return {
        name: (pod["spec"]["nodeName"], devices.get(name, ()))
        for name, pod in where.items()
        if pod["spec"].get("nodeName")
    }


async def _decided(client: Client, name: str) -> None:
    """Wait until the pod has a node, or the scheduler has found none: so no pod overtakes another."""

    async def decided() -> bool:
        pod = await client.get(PODS, NAMESPACE, name)
        conditions = (pod.get("status") or {}).get("conditions") or ()
        refused = any(one["type"] == "PodScheduled" and one["status"] == "False" for one in conditions)
        return bool(pod["spec"].get("nodeName")) or refused

    await wait_for(f"pod {name} to be tried", decided, seconds=60)

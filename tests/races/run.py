"""Two schedulers under different names, through two API servers on one etcd, race for the last thing of its kind.

In every round each of them gets a pod with a claim, and there is room for one. A watch of the claims sees every state: the
devices, shares and counters of all claims together never exceed what there is.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Final

from dray.api.errors import AlreadyExists, Conflict, NotFound, ServiceUnavailable
from dray.api.quantity import Quantity
from dray.app.server import RunningServer
from dray.client.client import Client
from dray.placement.config import Configuration, SchedulerProfile
from dray.scheduler import component
from tests.support import several_servers
from tests.support.wait import wait_for

RESOURCE: Final = "/apis/resource.k8s.io/v1"
CLAIMS: Final = f"{RESOURCE}/namespaces/default/resourceclaims"
PODS: Final = "/api/v1/namespaces/default/pods"
MERGE: Final = "application/merge-patch+json"
SCHEDULERS: Final = ("red", "blue")
KINDS: Final = ("device", "share", "counter")
#: Seconds for each step of a round.
PATIENCE: Final = 60


@dataclass
class Score:
    rounds: int = 0
    wins: Counter[str] = field(default_factory=Counter)
    conflicts: int = 0  # bookings that an API server refused
    double: list[str] = field(default_factory=list)


class Race:
    """One kind of race on running servers and schedulers."""

    def __init__(self, kind: str, servers: list[RunningServer], clients: list[Client]) -> None:
        self._kind = kind
        self._clients = clients
        self.servers = servers
        self.score = Score()
        self._claims: dict[str, Any] = {}

    async def prepare(self) -> None:
        """A node with room for one of the two."""
        client = self._clients[0].transport
        pool = {"name": self._kind, "generation": 1, "resourceSliceCount": 1}
        spec: dict[str, Any] = {"driver": "race.example.com", "nodeName": "node", "pool": pool}
        memory = {"memory": {"value": "10Gi"}}
        match self._kind:
            case "device":
                spec["devices"] = [{"name": "last"}]
            case "share":
                spec["devices"] = [{"name": "last", "allowMultipleAllocations": True, "capacity": memory}]
            case "counter":
                pool["resourceSliceCount"] = 2
                drawn = [{"counterSet": "gpu", "counters": {"memory": {"value": "6Gi"}}}]
                spec["devices"] = [{"name": f"part-{i}", "consumesCounters": drawn} for i in range(2)]
                counters = {**spec, "sharedCounters": [{"name": "gpu", "counters": memory}]}
                del counters["devices"]
                await client.request(
                    "POST",
                    f"{RESOURCE}/resourceslices",
                    body={"metadata": {"name": "counters"}, "spec": counters},
                )
        await client.request(
            "POST", f"{RESOURCE}/resourceslices", body={"metadata": {"name": self._kind}, "spec": spec}
        )
        selector = 'device.driver == "race.example.com"'
        await client.request(
            "POST",
            f"{RESOURCE}/deviceclasses",
            body={"metadata": {"name": "race"}, "spec": {"selectors": [{"cel": {"expression": selector}}]}},
        )
        resources = {"cpu": "64", "memory": "64Gi", "pods": "1000"}
        await client.request(
            "POST",
            "/api/v1/nodes",
            body={
                "metadata": {"name": "node"},
                "status": {
                    "capacity": resources,
                    "allocatable": resources,
                    "conditions": [{"type": "Ready", "status": "True"}],
                },
            },
        )

    async def rounds(self, count: int) -> Score:
        watching = asyncio.create_task(self._watch())
        try:
            for number in range(count):
                await self._round(number)
                self.score.rounds += 1
                if watching.done():
                    watching.result()  # what it could not watch, nobody has checked
        finally:
            watching.cancel()
        self.score.conflicts = sum(map(_conflicts, self.servers))
        return self.score

    async def _round(self, number: int) -> None:
        names = [f"{scheduler}-{number}" for scheduler in SCHEDULERS]
        order = list(zip(self._clients, names, SCHEDULERS, strict=True))
        if number % 2:
            order.reverse()
        await asyncio.gather(*(self._claim(client, name) for client, name, _ in order))
        await asyncio.gather(*(self._pod(client, name, scheduler) for client, name, scheduler in order))
        winner = await wait_for(
            f"one of {names} to be placed", lambda: self._placed(names), seconds=PATIENCE, pause=0.002
        )
        self.score.wins[winner.partition("-")[0]] += 1
        await asyncio.gather(*(self._remove(client, name) for client, name, _ in order))

    async def _claim(self, client: Client, name: str) -> None:
        request: dict[str, Any] = {"deviceClassName": "race"}
        if self._kind == "share":
            request["capacity"] = {"requests": {"memory": "6Gi"}}
        spec = {"devices": {"requests": [{"name": "r", "exactly": request}]}}
        await _create(client, CLAIMS, {"metadata": {"name": name}, "spec": spec})

    async def _pod(self, client: Client, name: str, scheduler: str) -> None:
        spec = {
            "schedulerName": scheduler,
            "containers": [{"name": "c", "image": "i", "resources": {"claims": [{"name": "it"}]}}],
            "resourceClaims": [{"name": "it", "resourceClaimName": name}],
        }
        await _create(client, PODS, {"metadata": {"name": name}, "spec": spec})

    async def _placed(self, names: list[str]) -> str:
        for name in names:
            try:
                pod = (await self._clients[0].transport.request("GET", f"{PODS}/{name}")).object
            except ServiceUnavailable:
                return ""
            if pod["spec"].get("nodeName"):
                return name
        return ""

    async def _remove(self, client: Client, name: str) -> None:
        """What kubelet and controllers do; the scheduler may be at work on the loser until its pod is gone."""
        transport = client.transport

        async def pod_gone() -> bool:
            await transport.request("DELETE", f"{PODS}/{name}", body={"gracePeriodSeconds": 0})
            return False

        async def claim_gone() -> bool:
            left = (await transport.request("GET", f"{CLAIMS}/{name}")).object
            # Anew each time: a scheduler that was in the middle of a binding may have written again.
            if left.get("status", {}).get("allocation"):
                body: dict[str, Any] = {"status": {"allocation": None, "reservedFor": None}}
                await transport.request("PATCH", f"{CLAIMS}/{name}/status", body=body, content_type=MERGE)
            body = {"metadata": {"finalizers": None}}
            await transport.request("PATCH", f"{CLAIMS}/{name}", body=body, content_type=MERGE)
            await transport.request("DELETE", f"{CLAIMS}/{name}")
            return False

        for what, look in ((f"pod {name}", pod_gone), (f"claim {name}", claim_gone)):
            await wait_for(f"{what} to go", partial(_is_gone, look), seconds=PATIENCE)

    async def _watch(self) -> None:
        """Every state of the claims, through the second server; a connection that ends leaves nothing out."""
        transport = self._clients[1].transport
        revision = (await transport.request("GET", CLAIMS)).object["metadata"]["resourceVersion"]
        while True:
            query = {"watch": "true", "resourceVersion": revision}
            with suppress(ServiceUnavailable):
                async with transport.watch(CLAIMS, query=query) as stream:
                    async for batch in stream:
                        for event in batch:
                            name = event.object["metadata"]["name"]
                            revision = event.object["metadata"]["resourceVersion"]
                            if event.type == "DELETED":
                                self._claims.pop(name, None)
                            else:
                                self._claims[name] = event.object
                            self._check(revision)

    def _check(self, revision: str) -> None:
        held: dict[str, list[str]] = {}
        amounts: dict[str, Quantity] = {}
        for name, claim in self._claims.items():
            allocation = (claim.get("status") or {}).get("allocation") or {}
            for result in (allocation.get("devices") or {}).get("results") or ():
                consumed = (result.get("consumedCapacity") or {}).get("memory")
                held.setdefault(result["device"], []).append(name)
                if consumed is not None:
                    before = amounts.get(result["device"], Quantity())
                    amounts[result["device"]] = before + Quantity.parse(consumed)
        room = Quantity.parse("10Gi")
        wrong = [
            (self._kind != "share" and any(len(names) > 1 for names in held.values())),
            any(amount > room for amount in amounts.values()),
            self._kind == "counter" and len(held) > 1,
        ]
        if any(wrong):
            self.score.double.append(f"at revision {revision}: {held}")


async def _create(client: Client, path: str, body: dict[str, Any]) -> None:
    """On a machine with too much to do etcd may answer too late, and nobody knows whether the object is there."""

    async def created() -> bool:
        try:
            await client.transport.request("POST", path, body=body)
        except AlreadyExists:
            pass
        except ServiceUnavailable:
            return False
        return True

    await wait_for(f"{body['metadata']['name']} to be created", created, seconds=PATIENCE)


async def _is_gone(look: Callable[[], Awaitable[bool]]) -> bool:
    try:
        return await look()
    except NotFound:
        return True
    except (Conflict, ServiceUnavailable):
        return False


def _conflicts(server: RunningServer) -> int:
    """Requests on claims that a server answered with 409."""
    text = server.api.metrics.registry.text()
    return sum(
        int(float(line.rpartition(" ")[2]))
        for line in text.splitlines()
        if line.startswith("apiserver_request_total{") and 'code="409"' in line and "resourceclaims" in line
    )


@asynccontextmanager
async def track(kind: str, store: str, data: Path) -> AsyncIterator[Race]:
    """Two servers and two schedulers, ready to race."""
    disabled = ("ServiceAccount", "TaintNodesByCondition", "Priority")
    async with (
        several_servers.servers(data, store, disable_plugins=disabled) as servers,
        several_servers.client(servers[0]) as first,
        several_servers.client(servers[1]) as second,
        asyncio.TaskGroup() as tasks,
    ):
        race = Race(kind, servers, [first, second])
        await race.prepare()
        running = [
            tasks.create_task(
                component.run(
                    client,
                    options=component.Options(
                        configuration=Configuration(profiles=(SchedulerProfile(name=name),))
                    ),
                )
            )
            for client, name in zip((first, second), SCHEDULERS, strict=True)
        ]
        try:
            yield race
        finally:
            for task in running:
                task.cancel()

"""What each write of a pod with a claim costs the API server: processor time, one sort of write after the other.

The server runs in this process with its store in memory; nobody schedules, controls or watches. So every figure is the
cost of one request, from the transport to the published change. The same writes are then made with a step of the
pipeline left out, and with all of these left out: what that saves is the most that can be gained there. These take turns
within each round, so that a machine that is now fast, now slow, is so to all of them. Prints medians.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import gc
import json
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

from dray.api.scheme.kinds import Object
from dray.api.scheme.strategy import Context, UpdateStrategy
from dray.api.user import UserInfo
from dray.app.options import ServerOptions, parse_listen
from dray.app.server import run_server
from dray.client.client import Client, PatchType
from dray.client.resources import (
    EVENTS_V1,
    NAMESPACES,
    NODES,
    RESOURCE_CLAIM_TEMPLATES,
    RESOURCE_CLAIMS,
    RESOURCE_SLICES,
    SERVICE_ACCOUNTS,
)
from dray.server.admission import AdmissionChain, Attributes
from dray.server.endpoints.call import Call
from dray.server.endpoints.requests import Request
from dray.server.endpoints.responses import ObjectBody
from dray.server.inprocess import InProcessTransport
from dray.server.managedfields.manager import FieldManager
from dray.server.registry import objects
from dray.wire.messages import NO_QUERY, Headers

DRIVER = "gpu.example.com"
DEVICES = 10
#: Admission plugins that the load generators of ``make bench`` do without, too.
WITHOUT_PLUGINS = ("ServiceAccount", "TaintNodesByCondition")
WARM_UP = 2


class Bench:
    """The five writes, each made for every pod of a round before the next sort begins."""

    def __init__(self, server: Any, pods: int) -> None:
        self._api = server.api
        self._pods = pods
        self._admin = UserInfo("admin", groups=("system:masters", "system:authenticated"))
        self._headers = Headers([("content-type", "application/json"), ("accept", "application/json")])
        self.setup = self._client("admin", "system:masters")
        self._controller = self._client(
            "system:serviceaccount:kube-system:resource-claim-controller", "system:serviceaccounts"
        )
        self._scheduler = self._client("system:kube-scheduler")

    def _client(self, user: str, *groups: str) -> Client:
        return Client(
            InProcessTransport(self._api, UserInfo(user, groups=groups), agent=user.rpartition(":")[2])
        )

    @property
    def nodes(self) -> int:
        return -(-self._pods // DEVICES)

    async def prepare(self) -> None:
        for number in range(self.nodes):
            node = f"node-{number}"
            await self.setup.create(NODES, "", {"metadata": {"name": node}, "spec": {}})
            await self.setup.create(
                RESOURCE_SLICES,
                "",
                {
                    "metadata": {"name": f"{node}-slice"},
                    "spec": {
                        "driver": DRIVER,
                        "nodeName": node,
                        "pool": {"name": node, "generation": 1, "resourceSliceCount": 1},
                        "devices": [{"name": f"gpu-{one}"} for one in range(DEVICES)],
                    },
                },
            )

    async def round(self, namespace: str) -> dict[str, float]:
        """Microseconds for each write, by its name."""
        await self.setup.create(NAMESPACES, "", {"metadata": {"name": namespace}})
        await self.setup.create(SERVICE_ACCOUNTS, namespace, {"metadata": {"name": "default"}})
        requests: Any = [{"name": "gpu", "exactly": {"deviceClassName": "gpu", "count": 1}}]
        await self.setup.create(
            RESOURCE_CLAIM_TEMPLATES,
            namespace,
            {"metadata": {"name": "one"}, "spec": {"spec": {"devices": {"requests": requests}}}},
        )
        template = (await self.setup.get(RESOURCE_CLAIM_TEMPLATES, namespace, "one"))["spec"]["spec"]
        found: dict[str, float] = {}
        bodies = [json.dumps(_pod(namespace, number)).encode() for number in range(self._pods)]
        path = f"/api/v1/namespaces/{namespace}/pods"
        pods = await self._timed(found, "pod", [partial(self._post, path, body) for body in bodies])
        create = partial(self._controller.create, RESOURCE_CLAIMS, namespace)
        claims = await self._timed(found, "claim", [partial(create, _claim(pod, template)) for pod in pods])
        allocated = [
            {**claim, "status": _status(pod, f"node-{at // DEVICES}", f"gpu-{at % DEVICES}")}
            for at, (claim, pod) in enumerate(zip(claims, pods, strict=True))
        ]
        update = partial(self._scheduler.update_status, RESOURCE_CLAIMS, namespace)
        await self._timed(found, "claim's status", [partial(update, claim) for claim in allocated])
        bind = partial(self._scheduler.bind, namespace)
        bound = [
            partial(bind, pod["metadata"]["name"], f"node-{at // DEVICES}", uid=pod["metadata"]["uid"])
            for at, pod in enumerate(pods)
        ]
        await self._timed(found, "binding", bound)
        tell = partial(self._scheduler.create, EVENTS_V1, namespace)
        await self._timed(found, "event", [partial(tell, _event(pod)) for pod in pods])
        for claim in claims:  # the next round takes the same devices
            name = claim["metadata"]["name"]
            patch = {"metadata": {"finalizers": None}}
            await self.setup.patch(RESOURCE_CLAIMS, namespace, name, patch, type=PatchType.MERGE)
            await self.setup.delete(RESOURCE_CLAIMS, namespace, name)
        return found

    async def _post(self, path: str, body: bytes) -> Object:
        """As HTTP hands over what a client has sent."""
        request = Request("POST", path, NO_QUERY, self._headers, user=self._admin)
        request.body = body
        response = await self._api.handle(request)
        assert isinstance(response.body, ObjectBody)
        hub: Object = response.body.document.hub
        return hub

    async def _timed(
        self, found: dict[str, float], what: str, writes: Sequence[Callable[[], Awaitable[Any]]]
    ) -> list[Any]:
        gc.collect()
        began = time.process_time()
        written = [await write() for write in writes]
        found[what] = 1e6 * (time.process_time() - began) / len(writes)
        return written


def _pod(namespace: str, number: int) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": f"pod-{number}", "namespace": namespace},
        "spec": {
            "containers": [
                {"name": "main", "image": "example.com/main:1", "resources": {"claims": [{"name": "gpu"}]}}
            ],
            "resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "one"}],
        },
    }


def _claim(pod: Object, spec: Object) -> Any:
    metadata, status = pod["metadata"], pod["status"]["resourceClaimStatuses"][0]
    owner = {"apiVersion": "v1", "kind": "Pod", "name": metadata["name"], "uid": metadata["uid"]}
    return {
        "metadata": {
            "name": status["resourceClaimName"],
            "annotations": {"resource.kubernetes.io/pod-claim-name": "gpu"},
            "finalizers": ["resource.kubernetes.io/delete-protection"],
            "ownerReferences": [{**owner, "controller": True, "blockOwnerDeletion": True}],
        },
        "spec": spec,
    }


def _status(pod: Object, node: str, device: str) -> Any:
    field = {"key": "metadata.name", "operator": "In", "values": [node]}
    result = {"request": "gpu", "driver": DRIVER, "pool": node, "device": device}
    return {
        "allocation": {
            "devices": {"results": [result]},
            "nodeSelector": {"nodeSelectorTerms": [{"matchFields": [field]}]},
        },
        "reservedFor": [{"resource": "pods", "name": pod["metadata"]["name"], "uid": pod["metadata"]["uid"]}],
    }


def _event(pod: Object) -> Any:
    metadata = pod["metadata"]
    return {
        "metadata": {"name": f"{metadata['name']}.1", "namespace": metadata["namespace"]},
        "eventTime": "2026-01-01T00:00:00.000000Z",
        "reportingController": "default-scheduler",
        "reportingInstance": "default-scheduler-here",
        "action": "Binding",
        "reason": "Scheduled",
        "regarding": {
            "apiVersion": "v1",
            "kind": "Pod",
            **{key: metadata[key] for key in ("namespace", "name", "uid", "resourceVersion")},
        },
        "note": f"Successfully assigned {metadata['namespace']}/{metadata['name']} to a node",
        "type": "Normal",
    }


async def _admit_all(self: AdmissionChain, attributes: Attributes) -> None:
    pass


def _track_nothing(self: FieldManager, call: Call, new: Object, *more: object) -> None:
    pass


def _check_nothing(call: Call, new: Object, *more: Object | Context | UpdateStrategy[Any]) -> None:
    call.resource.kind.strategy.canonicalize(new)


Replaced = tuple[Any, str, Any]  # where, what, and what stands in its place

#: What is left out, by the name of its column.
STEPS: dict[str, list[Replaced]] = {
    "managed fields": [(FieldManager, "created", _track_nothing), (FieldManager, "updated", _track_nothing)],
    "rules": [(objects, "_check_new", _check_nothing), (objects, "_check_update", _check_nothing)],
    "admission": [(AdmissionChain, "admit", _admit_all), (AdmissionChain, "validate", _admit_all)],
}
VARIANTS: dict[str, list[Replaced]] = {
    "all steps": [],
    **STEPS,
    "all three": [*chain.from_iterable(STEPS.values())],
}


@contextlib.contextmanager
def left_out(steps: Sequence[Replaced]) -> Iterator[None]:
    kept = [(where, name, getattr(where, name)) for where, name, _ in steps]
    for where, name, instead in steps:
        setattr(where, name, instead)
    try:
        yield
    finally:
        for where, name, original in kept:
            setattr(where, name, original)


async def measure(bench: Bench, rounds: int) -> dict[str, list[dict[str, float]]]:
    """What each variant's writes cost, round by round."""
    found: dict[str, list[dict[str, float]]] = {name: [] for name in VARIANTS}
    for number in range(-WARM_UP, rounds):
        for at, (name, steps) in enumerate(VARIANTS.items()):
            with left_out(steps):
                cost = await bench.round(f"round-{number + WARM_UP}-{at}")
            if number >= 0:
                found[name].append({**cost, "together": sum(cost.values())})
    return found


def show(found: dict[str, list[dict[str, float]]]) -> None:
    whole, *others = found
    print("Processor time of each write, µs, and the part of it that is left without a step")
    print(f"  {'':16}{whole:>12}" + "".join(f"{name:>16}" for name in others))
    for what in found[whole][0]:
        shares = (
            statistics.median(
                one[what] / full[what] for one, full in zip(found[name], found[whole], strict=True)
            )
            for name in others
        )
        middle = statistics.median(one[what] for one in found[whole])
        print(f"  {what:16}{middle:12.1f}" + "".join(f"{share:16.2f}" for share in shares))


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pods", type=int, default=400, help="in a round")
    parser.add_argument("--rounds", type=int, default=10)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="dray-bench-") as data:
        options = ServerOptions(
            listen=parse_listen("127.0.0.1:0"),
            data=Path(data),
            store="memory",
            disable_plugins=WITHOUT_PLUGINS,
        )
        async with run_server(options) as server:
            bench = Bench(server, args.pods)
            await bench.prepare()
            gc.freeze()
            gc.disable()
            show(await measure(bench, args.rounds))


if __name__ == "__main__":
    asyncio.run(main())

"""Trying things without changing anything: a selector against the devices there are, pods against the nodes there are."""

from __future__ import annotations

import time
from collections import Counter
from typing import TYPE_CHECKING, Any, Final

import msgspec

from dray.api.identity import ObjectKey, object_key
from dray.cel import CompileError
from dray.explain.devices.evaluation import evaluate
from dray.explain.devices.states import value_of
from dray.explain.explainer import explain_pod
from dray.explain.model import manifests
from dray.explain.model.cluster import Cluster
from dray.explain.model.snapshot import SnapshotError
from dray.explain.model.workloads import expand_workload
from dray.explain.nodes.whatif import WhatIf, claim_as_pod, place_copies
from dray.placement.policies.registry import policy_names

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from dray.api.types.core import Pod
    from dray.api.types.resource import ResourceClaim

_SHOWN: Final = 200
#: How long pods are placed to find out how many fit.
_SECONDS: Final = 5.0
COPIES: Final = 1000


class Unusable(Exception):
    """What was asked makes no sense, with the reason."""


def try_selector(cluster: Cluster, source: str) -> dict[str, Any]:
    """What ``dray cel`` says about an expression."""
    devices = [device for pool in cluster.pools.values() for device in (*pool.devices, *pool.withheld)]
    try:
        found = evaluate(source, devices, cluster.features)
    except CompileError as problem:
        return {"problem": str(problem), "devices": len(devices)}
    document = found.as_document()
    matching = document["matching"]
    return {**document, "matching": matching[:_SHOWN], "matches": len(matching), "devices": len(devices)}


class Wish(msgspec.Struct, frozen=True, kw_only=True):
    """What the form asks: so many pods with so many devices each, or the pods of a manifest. ``copies``: 0 for as many
    as fit."""

    manifest: str = ""
    device_class: str = msgspec.field(default="", name="class")
    selector: str = ""
    devices: int = 1
    copies: int = 1
    policy: str = "default"
    namespace: str = "default"


def what_if(cluster: Cluster, wish: Wish, *, clock: Callable[[], float] = time.monotonic) -> dict[str, Any]:
    """What ``dray allocate`` says about pods that are not there. Raises Unusable."""
    if wish.policy not in policy_names():
        raise Unusable(f"there is no policy {wish.policy}; there are {', '.join(policy_names())}")
    if not 0 <= wish.copies <= COPIES:
        raise Unusable(f"between 1 and {COPIES} pods can be tried")
    documents = _manifest(wish) if wish.manifest.strip() else _wished(cluster, wish)
    pods: list[Pod] = [d for d in documents if d.get("kind") == "Pod"]
    claims: list[ResourceClaim] = [d for d in documents if d.get("kind") == "ResourceClaim"]
    if not pods:
        pods = [claim_as_pod(claim) for claim in claims]
    if not pods:
        raise Unusable("there is no pod, workload or claim in this manifest")
    known = cluster.changed(cluster.snapshot.with_objects(d for d in documents if d.get("kind") != "Pod"))
    whatif = WhatIf(known, policy=wish.policy)
    if wish.copies:
        results = [
            (pod, placed)
            for pod in pods
            for placed in place_copies(whatif, object_key(pod), pod, wish.copies)
        ]
    else:
        if len(pods) != 1:
            raise Unusable(
                "how many fit can be told of one pod, workload replica or claim; say how many of these"
            )
        end = clock() + _SECONDS
        several = place_copies(whatif, object_key(pods[0]), pods[0], COPIES, enough=lambda: clock() > end)
        results = [(pods[0], placed) for placed in several]
    fitting = [placed for _, placed in results if not placed.problem]
    answer: dict[str, Any] = {
        "wanted": wish.copies * len(pods),  # 0: as many as fit
        "fit": len(fitting),
        "nodes": Counter(placed.node for placed in fitting).most_common(),
        "placed": [placed.as_document() for placed in fitting[:_SHOWN]],
        "problem": "",
    }
    failed = [(pod, placed) for pod, placed in results if placed.problem]
    if failed:
        pod, placed = failed[-1]
        answer["problem"] = placed.problem
        key = ObjectKey(object_key(pod).namespace, placed.pod.rpartition("/")[2])
        failing: Pod = {"kind": "Pod", **pod, "metadata": {**pod["metadata"], "name": key.name}}
        explained = whatif.explained()
        explained = explained.changed(explained.snapshot.with_objects([failing]))
        answer["why"] = explain_pod(explained, key).as_document()
    return answer


def _manifest(wish: Wish) -> list[Any]:
    try:
        found = list(manifests.read(wish.manifest.encode(), "manifest"))
        return [d for one in found for d in expand_workload(one.document, wish.namespace)]
    except SnapshotError as problem:
        raise Unusable(str(problem)) from None


def _wished(cluster: Cluster, wish: Wish) -> list[Any]:
    if wish.device_class not in cluster.classes:
        raise Unusable(
            f"there is no device class {wish.device_class}" if wish.device_class else "name a device class"
        )
    if not 1 <= wish.devices <= 32:
        raise Unusable("a request is for 1 to 32 devices")
    exactly: dict[str, Any] = {
        "deviceClassName": wish.device_class,
        "allocationMode": "ExactCount",
        "count": wish.devices,
    }
    if wish.selector.strip():
        exactly["selectors"] = [{"cel": {"expression": wish.selector.strip()}}]
    return [
        {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "ResourceClaimTemplate",
            "metadata": {"name": "what-if", "namespace": wish.namespace},
            "spec": {"spec": {"devices": {"requests": [{"name": "devices", "exactly": exactly}]}}},
        },
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "what-if", "namespace": wish.namespace, "uid": ""},
            "spec": {
                "containers": [],
                "resourceClaims": [{"name": "devices", "resourceClaimTemplateName": "what-if"}],
            },
        },
    ]


def attribute_names(cluster: Cluster) -> list[tuple[str, int]]:
    """The attributes that devices have, with the number of devices, the most common first."""
    found: Counter[str] = Counter()
    for pool in cluster.pools.values():
        for device in pool.devices or pool.withheld:
            found.update(
                _qualified(name, device.id.driver) for name in device.document.get("attributes") or ()
            )
    return found.most_common(_SHOWN)


def attribute_values(cluster: Cluster, name: str) -> dict[str, list[str]]:
    """The value of an attribute for each device, pool by pool and in the order of their rows."""
    found: dict[str, list[str]] = {}
    for id, pool in cluster.pools.items():
        values = []
        for device in pool.devices or pool.withheld:
            attributes = device.document.get("attributes") or {}
            named = (one for one in _spellings(name, id.driver) if one in attributes)
            known = next(named, None)
            values.append("" if known is None else str(value_of(attributes[known])))
        if any(values):
            found[str(id)] = values
    return found


def _qualified(name: str, driver: str) -> str:
    return name if "/" in name else f"{driver}/{name}"


def _spellings(name: str, driver: str) -> Iterable[str]:
    domain, _, bare = name.rpartition("/")
    return (name, bare) if domain == driver else (name,)

"""Allocated claims: which devices they have, why these, and why this node."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from dray.allocation.devices import Device
from dray.api import claims as pod_claims
from dray.api.groups.resource.classic import bridge
from dray.api.identity import ObjectKey, device_id
from dray.explain import classic
from dray.explain.devices.equivalence import EquivalentDevices
from dray.explain.devices.selectors import selector_attributes
from dray.explain.devices.states import selected
from dray.explain.model.cluster import Cluster
from dray.explain.nodes.trial import NodeOutcome
from dray.explain.pending import request_of

if TYPE_CHECKING:
    from dray.api.types.core import NodeSelector, Pod
    from dray.api.types.resource import (
        AllocationResult,
        DeviceRequestAllocationResult,
        ExactDeviceRequest,
        ResourceClaim,
    )


def devices_of_pod(cluster: Cluster, key: ObjectKey, pod: Pod) -> Iterator[str]:
    for name in claims_of(cluster, pod):
        claim = cluster.claims.get(ObjectKey(key.namespace, name))
        if claim is not None:
            yield from devices_of_claim(cluster, ObjectKey(key.namespace, name), claim)


def claims_of(cluster: Cluster, pod: Pod) -> Iterator[str]:
    """The claims of a pod, the one for extended resources among them."""
    for reference in pod_claims.references(pod, fixed_names=cluster.fixed_names):
        if reference.claim:
            yield reference.claim
    extended = (pod.get("status") or {}).get("extendedResourceClaimStatus") or {}
    if extended.get("resourceClaimName"):
        yield extended["resourceClaimName"]


def devices_of_claim(cluster: Cluster, key: ObjectKey, claim: ResourceClaim) -> Iterator[str]:
    """Which devices, why these, and where they are."""
    allocation = pod_claims.allocation(claim)
    if allocation is None:
        return
    results = (allocation.get("devices") or {}).get("results") or ()
    node = _node_of(allocation)
    if bridge.is_classic(claim):
        yield from classic.allocated_resources(cluster, key)
    for name in dict.fromkeys(result["request"] for result in results):
        given = [result for result in results if result["request"] == name]
        yield f"claim {key}, request {name}: {', '.join(_device_text(cluster, one) for one in given)}"
        yield from _why_these_devices(cluster, claim, key, name, given, node)
    for request in ((claim.get("spec") or {}).get("devices") or {}).get("requests") or ():
        alternatives = [one["name"] for one in request.get("firstAvailable") or ()]
        chosen = {
            r["request"].partition("/")[2] for r in results if r["request"].startswith(request["name"] + "/")
        }
        for position, name in enumerate(alternatives):
            if name in chosen and position:
                earlier = ", ".join(alternatives[:position])
                yield f"  alternative {name} was taken as {earlier} could not be had"
    selector = allocation.get("nodeSelector")
    if node:
        yield f"  usable on {node} only"
    else:
        yield f"  usable on {f'nodes with {_selector(selector)}' if selector else 'any node'}"


def _device_text(cluster: Cluster, result: DeviceRequestAllocationResult) -> str:
    id = device_id(result)
    notes = []
    if result.get("adminAccess"):
        notes.append("admin access: others may have it too")
    if consumed := result.get("consumedCapacity"):
        notes.append("a share with " + ", ".join(f"{name} {amount}" for name, amount in consumed.items()))
    if cluster.inventory.device(id) is None:
        notes.append("no longer published by its driver")
    return f"{id} ({'; '.join(notes)})" if notes else str(id)


def _why_these_devices(
    cluster: Cluster,
    claim: ResourceClaim,
    key: ObjectKey,
    name: str,
    given: Sequence[DeviceRequestAllocationResult],
    node: str,
) -> Iterator[str]:
    """The values by which the devices match the selectors, and how many other devices and nodes match."""
    request = request_of([claim], str(key), name)
    ids = [device_id(one) for one in given]
    known = [device for id in ids if (device := cluster.inventory.device(id)) is not None]
    matched = dict.fromkeys(text for device in known for text in matched_values(cluster, request, device))
    if matched:
        yield (
            f"  they match with {', '.join(matched)}"
            if len(ids) > 1
            else f"  it matches with {', '.join(matched)}"
        )
    if node not in cluster.nodes or not known or request.get("allocationMode") == "All":
        return
    selects = selected(cluster, request)
    matching = Counter(
        {
            name: sum(
                map(selects, (d for p in cluster.inventory.pools(one, cluster.features) for d in p.devices))
            )
            for name, one in cluster.nodes.items()
        }
    )
    if matching[node] > len(ids):
        yield (
            f"  {matching[node]} devices on {node} match; "
            "those that were free were taken in the order of pools and slices"
        )
    elif matching[node] == len(ids):
        yield f"  no other device on {node} matches"
    others = sum(count >= len(ids) for name, count in matching.items() if name != node)
    if others:
        which = f"{others} other nodes have" if others > 1 else "one other node has"
        yield f"  {which} enough that match; of nodes that fit the scheduler takes the one it scores highest"
    else:
        yield "  no other node has enough that match"


def _node_of(allocation: AllocationResult) -> str:
    """The only node an allocation is for; empty if there may be several."""
    terms = (allocation.get("nodeSelector") or {}).get("nodeSelectorTerms") or ()
    if len(terms) != 1:
        return ""
    for one in terms[0].get("matchFields") or ():
        if one.get("key") == "metadata.name" and one.get("operator") == "In" and len(one["values"]) == 1:
            return str(one["values"][0])
    return ""


def matched_values(cluster: Cluster, request: ExactDeviceRequest, device: Device) -> Iterator[str]:
    """What the selectors of the request and of its class read, and the values that the device has there."""
    class_document = cluster.classes.get(request.get("deviceClassName") or "") or {}
    selectors = (
        *((class_document.get("spec") or {}).get("selectors") or ()),
        *(request.get("selectors") or ()),
    )
    for selector in selectors:
        source = (selector.get("cel") or {}).get("expression") or ""
        for one in selector_attributes(source, [EquivalentDevices(device, 1)], cluster.features):
            if one.values:
                yield f"{one.name}={one.values[0][0]}"


def _selector(selector: NodeSelector) -> str:
    return " and ".join(
        f"{one.get('key')} {one.get('operator')} {','.join(one.get('values') or ())}".strip()
        for term in selector.get("nodeSelectorTerms") or ()
        for one in (*(term.get("matchFields") or ()), *(term.get("matchExpressions") or ()))
    )


def planned_devices(claims: Sequence[ResourceClaim], outcome: NodeOutcome) -> Iterator[str]:
    """What the first fitting node would give."""
    plan = outcome.device_outcome.plan
    for claim, result in zip(claims, plan.results if plan is not None else (), strict=True):
        for one in (result.get("devices") or {}).get("results") or ():
            name = (claim.get("metadata") or {}).get("name", "")
            yield f"claim {name}, request {one['request']}: {device_id(one)}"

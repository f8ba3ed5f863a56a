"""The AllocationResult of a claim, made from the devices that the search has allocated."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

from dray.allocation.errors import AllocationError
from dray.allocation.features import Features
from dray.allocation.requests import Request
from dray.allocation.search.state import Claim, DeviceAllocation

if TYPE_CHECKING:
    from dray.api.types.core import Node, NodeSelector, NodeSelectorRequirement, NodeSelectorTerm
    from dray.api.types.resource import (
        AllocationResult,
        DeviceAllocationConfiguration,
        DeviceAllocationResult,
        DeviceClaimConfiguration,
        DeviceRequestAllocationResult,
    )

NewShareID = Callable[[], str]


def allocation_result(
    claim: Claim,
    device_allocations: Sequence[DeviceAllocation],
    chosen: Sequence[Request],
    node: Node,
    features: Features,
    new_share_id: NewShareID,
) -> AllocationResult:
    """``chosen`` is, request by request, the alternative that was taken."""
    devices: DeviceAllocationResult = {}
    if device_allocations:
        devices["results"] = [
            _result(device_allocation, features, new_share_id) for device_allocation in device_allocations
        ]
    if config := _config(claim, chosen, features):
        devices["config"] = config
    result: AllocationResult = {"devices": devices}
    selector = _node_selector(claim, device_allocations, node)
    if selector is not None:
        result["nodeSelector"] = selector
    return result


def _result(
    device_allocation: DeviceAllocation, features: Features, new_share_id: NewShareID
) -> DeviceRequestAllocationResult:
    request, device = device_allocation.choice.request, device_allocation.device_in_pool.device
    result: DeviceRequestAllocationResult = {
        "request": request.full_name,
        "driver": device.id.driver,
        "pool": device.id.pool,
        "device": device.name,
    }
    if request.admin:
        result["adminAccess"] = True
    if request.tolerations:
        result["tolerations"] = request.tolerations
    if features.binding_conditions:
        if device.binding_conditions:
            result["bindingConditions"] = device.binding_conditions
        if failures := device.document.get("bindingFailureConditions"):
            result["bindingFailureConditions"] = failures
    if device_allocation.consumed_capacity is not None:
        result["shareID"] = new_share_id()
        if device_allocation.consumed_capacity.quantities:
            result["consumedCapacity"] = {
                name: str(quantity)
                for name, quantity in device_allocation.consumed_capacity.quantities.items()
            }
    if device.skips_node_operations and features.honours_skip_node_operations:
        result["skipNodeOperations"] = device.skips_node_operations
    return result


def _config(
    claim: Claim, chosen: Sequence[Request], features: Features
) -> list[DeviceAllocationConfiguration]:
    """Configuration of the classes in use, each once with the requests it is for; then that of the claim."""
    config: list[DeviceAllocationConfiguration] = []
    users: dict[str, list[Request]] = {}
    for request in chosen:
        users.setdefault(request.class_document["metadata"]["name"], []).append(request)
    for requests in users.values():
        for of_class in (requests[0].class_document.get("spec") or {}).get("config") or ():
            names = [request.full_name for request in requests]
            config.append({"source": "FromClass", "requests": names, **of_class})
    for of_claim in claim.demand.config:
        config += _of_claim(of_claim, chosen, features)
    if features.drops_complete_request_lists:
        for entry in config:
            listed = entry.get("requests") or ()
            if listed and all(r.base in listed or r.full_name in listed for r in chosen):
                del entry["requests"]
    return config


def _of_claim(
    document: DeviceClaimConfiguration, chosen: Sequence[Request], features: Features
) -> Iterable[DeviceAllocationConfiguration]:
    listed = document.get("requests")
    entry: DeviceAllocationConfiguration
    if not listed:
        entry = {"source": "FromClaim", **document}
        entry.pop("requests", None)
        return [entry]
    entry = {"source": "FromClaim", "requests": listed, **document}
    uses = sum(request.base in listed or request.full_name in listed for request in chosen)
    return [entry.copy() for _ in range(uses if features.repeats_claim_config else min(uses, 1))]


def _node_selector(
    claim: Claim, device_allocations: Sequence[DeviceAllocation], node: Node
) -> NodeSelector | None:
    """The nodes on which all devices of the claim are available; None if that is everywhere."""
    fields: list[NodeSelectorRequirement] = []
    expressions: list[NodeSelectorRequirement] = []
    for device_allocation in device_allocations:
        device = device_allocation.device_in_pool.device
        selection = device.available_on
        if selection.name or device.binds_to_node:
            return _only_on((node.get("metadata") or {}).get("name") or "")
        terms = (selection.selector or {}).get("nodeSelectorTerms") or ()
        if len(terms) > 1:
            name = (claim.document.get("metadata") or {}).get("name") or ""
            raise AllocationError(
                f"create NodeSelector for claim {name}: unsupported ResourceSlice.NodeSelector with {len(terms)} terms"
            )
        for term in terms:
            _extend(fields, term.get("matchFields") or ())
            _extend(expressions, term.get("matchExpressions") or ())
    common: NodeSelectorTerm = {}
    if expressions:
        common["matchExpressions"] = expressions
    if fields:
        common["matchFields"] = fields
    return {"nodeSelectorTerms": [common]} if common else None


@lru_cache(maxsize=4096)  # one for all claims that are allocated on a node
def _only_on(node: str) -> NodeSelector:
    named: NodeSelectorRequirement = {"key": "metadata.name", "operator": "In", "values": [node]}
    return {"nodeSelectorTerms": [{"matchFields": [named]}]}


def _extend(requirements: list[NodeSelectorRequirement], more: Iterable[NodeSelectorRequirement]) -> None:
    for requirement in more:
        if not any(_same(requirement, other) for other in requirements):
            requirements.append(requirement.copy())


def _same(one: NodeSelectorRequirement, other: NodeSelectorRequirement) -> bool:
    return (
        one.get("key") == other.get("key")
        and one.get("operator") == other.get("operator")
        and set(one.get("values") or ()) == set(other.get("values") or ())
    )

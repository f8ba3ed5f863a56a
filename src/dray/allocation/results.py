"""From placements to the AllocationResult that goes into a claim's status."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from dray.allocation.errors import AllocationError
from dray.allocation.features import Features
from dray.allocation.requests import Request
from dray.allocation.search.state import Claim, DeviceAllocation
from dray.api.identity import Document

NewShareID = Callable[[], str]


def allocation_result(
    claim: Claim,
    device_allocations: Sequence[DeviceAllocation],
    chosen: Sequence[Request],
    node: Document,
    features: Features,
    new_share_id: NewShareID,
) -> dict[str, Any]:
    """``chosen`` is, request by request, the alternative that was taken."""
    devices: dict[str, Any] = {}
    if device_allocations:
        devices["results"] = [
            _result(device_allocation, features, new_share_id) for device_allocation in device_allocations
        ]
    if config := _config(claim, chosen, features):
        devices["config"] = config
    result: dict[str, Any] = {"devices": devices}
    selector = _node_selector(claim, device_allocations, node)
    if selector is not None:
        result["nodeSelector"] = selector
    return result


def _result(
    device_allocation: DeviceAllocation, features: Features, new_share_id: NewShareID
) -> dict[str, Any]:
    request, device = device_allocation.choice.request, device_allocation.device_in_pool.device
    result: dict[str, Any] = {
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
    if device.skips_node_operations and features.release >= 37:
        result["skipNodeOperations"] = device.skips_node_operations
    return result


def _config(claim: Claim, chosen: Sequence[Request], features: Features) -> list[dict[str, Any]]:
    """Configuration of the classes in use, each once with the requests it is for; then that of the claim."""
    config: list[dict[str, Any]] = []
    of_class: dict[str, list[dict[str, Any]]] = {}
    for request in chosen:
        name = request.class_document["metadata"]["name"]
        entries = of_class.get(name)
        if entries is None:
            entries = of_class[name] = [
                {"source": "FromClass", "requests": [], **_parameters(document)}
                for document in (request.class_document.get("spec") or {}).get("config") or ()
            ]
            config += entries
        for entry in entries:
            entry["requests"].append(request.full_name)
    for document in claim.demand.config:
        config += _of_claim(document, chosen, features)
    if features.release >= 37:
        for entry in config:
            listed = entry.get("requests") or ()
            if listed and all(r.base in listed or r.full_name in listed for r in chosen):
                del entry["requests"]
    return config


def _of_claim(document: Document, chosen: Sequence[Request], features: Features) -> Iterable[dict[str, Any]]:
    listed = document.get("requests") or ()
    entry = {"source": "FromClaim", **({"requests": listed} if listed else {}), **_parameters(document)}
    if not listed:
        return [entry]
    uses = sum(request.base in listed or request.full_name in listed for request in chosen)
    # 1.36 repeats an entry for every request it is for.
    return [dict(entry) for _ in range(uses if features.release < 37 else min(uses, 1))]


def _parameters(document: Document) -> dict[str, Any]:
    return {key: value for key, value in document.items() if key != "requests"}


def _node_selector(
    claim: Claim, device_allocations: Sequence[DeviceAllocation], node: Document
) -> dict[str, Any] | None:
    """The nodes on which all devices of the claim are available; None if that is everywhere."""
    fields: list[dict[str, Any]] = []
    expressions: list[dict[str, Any]] = []
    for device_allocation in device_allocations:
        device = device_allocation.device_in_pool.device
        selection = device.available_on
        if selection.name or device.binds_to_node:
            name = (node.get("metadata") or {}).get("name") or ""
            only = {"key": "metadata.name", "operator": "In", "values": [name]}
            return {"nodeSelectorTerms": [{"matchFields": [only]}]}
        terms = (selection.selector or {}).get("nodeSelectorTerms") or ()
        if len(terms) > 1:
            name = (claim.document.get("metadata") or {}).get("name") or ""
            raise AllocationError(
                f"create NodeSelector for claim {name}: unsupported ResourceSlice.NodeSelector with {len(terms)} terms"
            )
        for term in terms:
            _extend(fields, term.get("matchFields") or ())
            _extend(expressions, term.get("matchExpressions") or ())
    term = {}
    if expressions:
        term["matchExpressions"] = expressions
    if fields:
        term["matchFields"] = fields
    return {"nodeSelectorTerms": [term]} if term else None


def _extend(requirements: list[dict[str, Any]], more: Iterable[Document]) -> None:
    for requirement in more:
        if not any(_same(requirement, other) for other in requirements):
            requirements.append(dict(requirement))


def _same(one: Document, other: Document) -> bool:
    return (
        one.get("key") == other.get("key")
        and one.get("operator") == other.get("operator")
        and set(one.get("values") or ()) == set(other.get("values") or ())
    )

"""1.30's structured parameters: which instances of a node a claim would get. Pure; upstream's order and words.

Each request takes the first instance that is free and selected, without backtracking. Unlike upstream, the claims of
one pod see what its earlier claims took, so no instance is given twice.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from dray.api.types.resource_v1alpha2 import (
        AllocationResult,
        NamedResourcesInstance,
        ResourceClaimParameters,
        ResourceClassParameters,
        ResourceHandle,
        ResourceRequest,
        ResourceSlice,
        StructuredResourceHandle,
    )


class NodeDriver(NamedTuple):
    """Whose instances: names are unique only there."""

    node: str
    driver: str


class SuitabilityError(Exception):
    """A selector failed, so it is unknown whether a node suits."""


@dataclass(frozen=True, slots=True)
class StructuredClaim:
    """A claim with the parameters that apply to it."""

    driver: str  # the class's
    class_parameters: ResourceClassParameters
    claim_parameters: ResourceClaimParameters

    def requests(self) -> dict[str, list[ResourceRequest]]:
        """By driver, in the order of the claim."""
        found: dict[str, list[ResourceRequest]] = {}
        for entry in self.claim_parameters.get("driverRequests") or ():
            asked = [r for r in entry.get("requests") or () if r.get("namedResources") is not None]
            if asked:
                found.setdefault(entry["driverName"], []).extend(asked)
        return found

    def filter(self, driver: str) -> str:
        for entry in self.class_parameters.get("filters") or ():
            if entry.get("driverName") == driver and entry.get("namedResources") is not None:
                return str(entry["namedResources"]["selector"])
        return ""


def default_parameters(driver: str) -> ResourceClaimParameters:
    """What a claim without parameters asks for: one instance of any kind, which may be shared."""
    request: ResourceRequest = {"namedResources": {"selector": "true"}}
    return {"shareable": True, "driverRequests": [{"driverName": driver, "requests": [request]}]}


class NamedResources:
    """The instances of one slice. What selectors say about them is remembered."""

    __slots__ = ("_said", "instances", "node_driver")

    def __init__(self, document: ResourceSlice) -> None:
        self.node_driver = NodeDriver(document.get("nodeName") or "", document["driverName"])
        self.instances: Sequence[NamedResourcesInstance] = (document.get("namedResources") or {}).get(
            "instances"
        ) or ()
        self._said: dict[tuple[str, int], bool | str] = {}

    def selected(self, expression: str, position: int, *, what: str) -> bool:
        key = (expression, position)
        said = self._said.get(key)
        if said is None:
            said = self._said[key] = self._evaluate(expression, self.instances[position])
        if isinstance(said, str):
            raise SuitabilityError(f"evaluate {what} CEL expression: {said}")
        return said

    @staticmethod
    def _evaluate(expression: str, instance: NamedResourcesInstance) -> bool | str:
        from dray.cel.environment import named_resources
        from dray.cel.errors import EvaluationError

        try:
            selector = named_resources.compile(expression, stored=True)
            return selector.matches(instance.get("attributes") or ())
        except EvaluationError as problem:
            return str(problem)


def allocate(
    wanted: StructuredClaim,
    node: str,
    slices: Mapping[NodeDriver, Sequence[NamedResources]],
    taken: Mapping[NodeDriver, Collection[str]],
) -> AllocationResult | None:
    """The allocation on this node, or None if it has not enough. ``SuitabilityError`` if a selector fails."""
    handles: list[ResourceHandle] = []
    for driver, requests in wanted.requests().items():
        node_driver = NodeDriver(node, driver)
        try:
            names = _select_instances(
                requests, wanted.filter(driver), slices.get(node_driver, ()), taken.get(node_driver, ())
            )
        except SuitabilityError as problem:
            raise SuitabilityError(
                f'checking node "{node}" and resources of driver "{driver}": {problem}'
            ) from None
        if names is None:
            return None
        handles.append(_handle(wanted, node_driver, requests, names))
    allocation: AllocationResult = {
        "resourceHandles": handles,
        "availableOnNodes": {
            "nodeSelectorTerms": [
                {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": [node]}]}
            ]
        },
    }
    if wanted.claim_parameters.get("shareable"):
        allocation["shareable"] = True
    return allocation


def _select_instances(
    requests: Sequence[ResourceRequest], only: str, slices: Sequence[NamedResources], taken: Collection[str]
) -> list[str] | None:
    chosen: list[str] = []
    for request in requests:
        # Every request is evaluated, even if one has found nothing: the selector of another may fail.
        selector = request["namedResources"]["selector"]
        for named_resources in slices:
            found = _first_free(selector, only, named_resources, taken, chosen)
            if found is not None:
                chosen.append(found)
                break
    return chosen if len(chosen) == len(requests) else None


def _first_free(
    selector: str, only: str, named_resources: NamedResources, taken: Collection[str], chosen: Sequence[str]
) -> str | None:
    for position, instance in enumerate(named_resources.instances):
        name = instance["name"]
        if name in taken or name in chosen:
            continue
        if only and not named_resources.selected(only, position, what="filter"):
            continue
        if named_resources.selected(selector, position, what="request"):
            return name
    return None


def _handle(
    wanted: StructuredClaim,
    node_driver: NodeDriver,
    requests: Sequence[ResourceRequest],
    names: Sequence[str],
) -> ResourceHandle:
    data: StructuredResourceHandle = {"nodeName": node_driver.node}
    for vendor in wanted.class_parameters.get("vendorParameters") or ():
        if vendor.get("driverName") == node_driver.driver:
            data["vendorClassParameters"] = vendor.get("parameters")
            break
    for entry in wanted.claim_parameters.get("driverRequests") or ():
        if entry.get("driverName") == node_driver.driver:
            data["vendorClaimParameters"] = entry.get("vendorParameters")
            break
    data["results"] = [
        {"vendorRequestParameters": request.get("vendorParameters"), "namedResources": {"name": name}}
        for request, name in zip(requests, names, strict=True)
    ]
    return {"driverName": node_driver.driver, "structuredData": _without_none(data)}


def _without_none(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_none(inner) for key, inner in value.items() if inner is not None}
    if isinstance(value, list):
        return [_without_none(inner) for inner in value]
    return value


def allocated_instances(allocation: AllocationResult | None) -> list[tuple[NodeDriver, str]]:
    """The instances that an allocation holds."""
    found = []
    for handle in (allocation or {}).get("resourceHandles") or ():
        data = handle.get("structuredData") or {}
        for result in data.get("results") or ():
            if named_resources := result.get("namedResources"):
                node_driver = NodeDriver(data.get("nodeName") or "", handle.get("driverName") or "")
                found.append((node_driver, named_resources["name"]))
    return found

"""v1alpha3, v1beta1 and v1beta2: the same kinds as v1, in slightly other shapes.

``to_v1`` gives a document v1's shape; ``to_v1beta1`` gives v1beta1's shape to one that has v1's.
"""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping
from typing import Any

from dray.convert.notes import Remarks
from dray.convert.trees import Tree, into_child, move, new_like, out_of_child

#: What stays beside ``exactly``, and beside ``basic``; all else belongs into it, whichever release brought it.
_OF_REQUEST = ("name", "firstAvailable", "exactly")
_OF_DEVICE = ("name", "basic")


def to_v1(document: Tree, version: str, remarks: Remarks) -> None:
    """Give a document of an old version v1's shape."""
    spec = document.get("spec")
    if not isinstance(spec, MutableMapping):
        return
    match document.get("kind"):
        case "DeviceClass":
            if spec.pop("suitableNodes", None):
                remarks.lost(
                    "suitableNodes has no equivalent: restrict the pods, or the devices by their attributes"
                )
        case "ResourceClaim" | "ResourceClaimTemplate":
            for claim in _claim_specs(document):
                if claim.pop("controller", None):
                    remarks.lost(
                        "controller has no equivalent: drivers no longer allocate, the scheduler does"
                    )
                for request in _requests(claim):
                    if "firstAvailable" in request and not request.get("deviceClassName", True):
                        del request["deviceClassName"]  # v1beta1's servers write it, though it means nothing
                    if "exactly" not in request and "firstAvailable" not in request:
                        into_child(request, "exactly", _others(request, _OF_REQUEST))
        case "ResourceSlice" if version in ("v1alpha3", "v1beta1"):
            for device in spec.get("devices") or ():
                if version == "v1alpha3":
                    _capacity_as_objects(device)
                if isinstance(device.get("basic"), MutableMapping):
                    out_of_child(device, "basic")
                elif "basic" in device:
                    del device["basic"]


def to_v1beta1(document: Tree) -> None:
    """v1's shape to v1beta1's."""
    match document.get("kind"):
        case "ResourceClaim" | "ResourceClaimTemplate":
            for claim in _claim_specs(document):
                for request in _requests(claim):
                    if isinstance(request.get("exactly"), MutableMapping):
                        out_of_child(request, "exactly")
        case "ResourceSlice":
            for device in (document.get("spec") or {}).get("devices") or ():
                if "basic" not in device:
                    into_child(device, "basic", _others(device, _OF_DEVICE))
                    device.setdefault("basic", {})


def _others(tree: Tree, kept: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(key for key in tree if key not in kept)


def claim_spec(document: Tree) -> Tree | None:
    """The claim's own spec, or the one a template holds."""
    spec = document.get("spec")
    if document.get("kind") == "ResourceClaimTemplate" and isinstance(spec, MutableMapping):
        spec = spec.get("spec")
    return spec if isinstance(spec, MutableMapping) else None


def _claim_specs(document: Tree) -> Iterator[Tree]:
    spec = claim_spec(document)
    if spec is not None:
        yield spec


def _requests(claim: Tree) -> Iterator[Tree]:
    for request in (claim.get("devices") or {}).get("requests") or ():
        if isinstance(request, MutableMapping):
            yield request


def _capacity_as_objects(device: Any) -> None:
    capacity = (device.get("basic") or {}).get("capacity")
    if isinstance(capacity, MutableMapping):
        for name in list(capacity):
            if not isinstance(capacity[name], MutableMapping):
                value = new_like(capacity)
                holder = {"value": capacity[name]}
                move(holder, "value", value)
                capacity[name] = value

"""Defaults that several versions share. Each function changes a freshly decoded object in place."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from dray.api.groups.resource import limits
from dray.api.scheme.kinds import Object


def request(value: Object) -> None:
    """How many devices: exactly one unless said otherwise."""
    if not value.get("allocationMode"):
        value["allocationMode"] = "ExactCount"
    if value["allocationMode"] == "ExactCount" and not value.get("count"):
        value["count"] = 1


def tolerations(listed: Iterable[Any] | None) -> None:
    for toleration in listed or ():
        if not toleration.get("operator"):
            toleration["operator"] = "Equal"


def allocation(claim: Object) -> None:
    """What results of an allocation carry over from requests."""
    found = (claim.get("status") or {}).get("allocation") or {}
    for result in (found.get("devices") or {}).get("results") or ():
        tolerations(result.get("tolerations"))


def structured_requests(spec: Object) -> None:
    """Requests with ``exactly`` or ``firstAvailable``."""
    for item in (spec.get("devices") or {}).get("requests") or ():
        if (exact := item.get("exactly")) is not None:
            request(exact)
            tolerations(exact.get("tolerations"))
        for wanted in item.get("firstAvailable") or ():
            request(wanted)
            tolerations(wanted.get("tolerations"))


def flat_requests(spec: Object) -> None:
    """Requests whose fields stand beside their name. Only one with a class is an exact request."""
    for item in (spec.get("devices") or {}).get("requests") or ():
        if item.get("deviceClassName"):
            request(item)
        tolerations(item.get("tolerations"))
        for wanted in item.get("firstAvailable") or ():
            request(wanted)
            tolerations(wanted.get("tolerations"))


def device(value: Object) -> None:
    for mapping in (value.get("nodeAllocatableResourceMappings") or {}).values():
        if mapping.get("allocationMultiplier") is None:
            mapping["allocationMultiplier"] = "1"


def structured_claim(obj: Object) -> None:
    structured_requests(obj.get("spec") or {})
    allocation(obj)


def flat_claim(obj: Object) -> None:
    flat_requests(obj.get("spec") or {})
    allocation(obj)


def structured_template(obj: Object) -> None:
    structured_requests((obj.get("spec") or {}).get("spec") or {})


def flat_template(obj: Object) -> None:
    flat_requests((obj.get("spec") or {}).get("spec") or {})


def flat_slice(obj: Object) -> None:
    """Devices whose fields stand beside their name, as in v1."""
    for item in (obj.get("spec") or {}).get("devices") or ():
        device(item)


def basic_slice(obj: Object) -> None:
    """Devices whose fields stand below ``basic``."""
    for item in (obj.get("spec") or {}).get("devices") or ():
        if item.get("basic") is not None:
            device(item["basic"])


def pool_status_request(obj: Object) -> None:
    spec = obj.get("spec")
    if spec is not None and spec.get("limit") is None:
        spec["limit"] = limits.POOL_STATUS_LIMIT

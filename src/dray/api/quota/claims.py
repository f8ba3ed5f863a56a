"""What a claim costs: the resources a ResourceQuota charges for it.

Charges are counted per device class, for the worst case: a request for all devices counts as many as an allocation
can hold, and of several alternatives the dearest one of each class counts.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from dray.api.groups.resource import limits

if TYPE_CHECKING:
    from dray.api.types.resource import DeviceRequest, DeviceSubRequest, ExactDeviceRequest, ResourceClaim

CLAIM_COUNT: Final = "count/resourceclaims.resource.k8s.io"
PER_CLASS: Final = ".deviceclass.resource.k8s.io/devices"
#: Quota on the extended resource that every class stands for without saying so.
IMPLICIT: Final = "requests.deviceclass.resource.kubernetes.io/"
REQUESTS: Final = "requests."


def devices_of_class(name: str) -> str:
    """``gpu`` → ``gpu.deviceclass.resource.k8s.io/devices``"""
    return f"{name}{PER_CLASS}"


def charges(
    claim: ResourceClaim,
    *,
    extended_resources: Mapping[str, str] | None = None,
    pod_usage: Mapping[str, int] | None = None,
) -> dict[str, int]:
    """What a claim (hub) is charged.

    ``extended_resources`` maps device classes to the extended resources they serve; None leaves extended resources
    out. A claim that was made for a pod's extended resources is charged only what the pod itself (``pod_usage``) has
    not been charged already.
    """
    found = {CLAIM_COUNT: 1}
    for request in ((claim.get("spec") or {}).get("devices") or {}).get("requests") or ():
        for name, count in _of_request(request).items():
            found[name] = found.get(name, 0) + count
    if extended_resources is not None:
        found.update(_extended(found, extended_resources, pod_usage or {}))
    return found


def matching(resources: Iterable[str], *, extended_resources: Mapping[str, str] | None = None) -> list[str]:
    """Those of a quota's resources that claims are charged for."""
    served = set((extended_resources or {}).values())
    return [
        name
        for name in resources
        if name == CLAIM_COUNT
        or name.endswith(PER_CLASS)
        or (name.startswith(IMPLICIT) and (extended_resources or {}).get(name.removeprefix(IMPLICIT)))
        or (name.startswith(REQUESTS) and name.removeprefix(REQUESTS) in served)
    ]


def _of_request(request: DeviceRequest) -> dict[str, int]:
    found: dict[str, int] = {}
    exactly = request.get("exactly")
    alternatives = request.get("firstAvailable")
    wanted: Sequence[ExactDeviceRequest | DeviceSubRequest] = alternatives or (
        () if exactly is None else (exactly,)
    )
    for one in wanted:
        name = devices_of_class(one.get("deviceClassName", ""))
        found[name] = max(found.get(name, 0), _devices(one))
    return found


def _devices(request: ExactDeviceRequest | DeviceSubRequest) -> int:
    mode = request.get("allocationMode")
    if mode == "All":
        return limits.RESULTS
    # Modes of the future are not charged.
    return int(request.get("count", 0)) if mode == "ExactCount" else 0


def _extended(
    charged: Mapping[str, int], served: Mapping[str, str], pod_usage: Mapping[str, int]
) -> dict[str, int]:
    found: dict[str, int] = {}
    for name, count in charged.items():
        class_name = name.removesuffix(PER_CLASS)
        if class_name == name or not class_name:
            continue
        found[IMPLICIT + class_name] = count
        if resource := served.get(class_name):
            found[REQUESTS + resource] = count
    rest = {name: count - pod_usage.get(name, 0) for name, count in found.items()}
    return {name: count for name, count in rest.items() if count > 0}

"""Reading resource claims, and how pods and claims refer to one another: names, ownership, reservations.

Shared by the scheduler, the claim controller and the node agent, which must agree on every one of these rules.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import msgspec

from dray.api.objects import controller_of
from dray.api.release import V1_27, Release, Span

if TYPE_CHECKING:
    from dray.api.types import Object
    from dray.api.types.core import Pod, PodResourceClaim
    from dray.api.types.meta import OwnerReference
    from dray.api.types.resource import (
        AllocationResult,
        DeviceRequestAllocationResult,
        ResourceClaim,
        ResourceClaimConsumerReference,
    )
    from dray.api.types.resource_v1alpha2 import ResourceClaim as ClassicResourceClaim
    from dray.api.types.scheduling_v1beta1 import PodGroup


FINALIZER: Final = "resource.kubernetes.io/delete-protection"
POD_CLAIM_ANNOTATION: Final = "resource.kubernetes.io/pod-claim-name"
EXTENDED_RESOURCE_ANNOTATION: Final = "resource.kubernetes.io/extended-resource-claim"

#: The releases in which a claim made for a pod was called ``<pod>-<entry>``; since then the pod's status names it.
_FIXED_NAMES: Final = Span(until=V1_27)
_MAX_BASE: Final = 57  # leaves room for a hyphen and five random characters in a name of 63


def has_fixed_names(release: Release) -> bool:
    """Whether claims made from templates have names that follow from their pod's."""
    return _FIXED_NAMES.covers(release)


def claim_generate_name(pod: str, entry: str) -> str:
    """``<pod>-<entry>-``, both cut in proportion where that is too long."""
    whole = f"{pod}-{entry}-"
    if len(whole) <= _MAX_BASE:
        return whole
    return f"{pod[: len(pod) * _MAX_BASE // len(whole)]}-{entry[: len(entry) * _MAX_BASE // len(whole)]}"


def legacy_claim_name(pod: Pod, entry: PodResourceClaim) -> str:
    return f"{pod['metadata']['name']}-{entry['name']}"


class ClaimNotCreated(Exception):
    """The claim that a template stands for has not been made yet."""


class ClaimReference(msgspec.Struct, frozen=True, gc=False):
    """One entry of a pod's resourceClaims, resolved."""

    entry: str  # the entry's name inside the pod
    claim: str | None  # the claim's name; None: this entry turned out to need none
    generated: bool  # made from a template, so it must belong to the pod


def claim_and_template_names(entry: PodResourceClaim) -> tuple[str | None, str | None]:
    """(claim name, template name) of an entry, in today's flat form or the nested one of old releases."""
    source = entry.get("source") or entry
    return source.get("resourceClaimName"), source.get("resourceClaimTemplateName")


def reference(pod: Pod, entry: PodResourceClaim, *, fixed_names: bool = False) -> ClaimReference:
    """The claim an entry stands for. Raises ``ClaimNotCreated`` while its template has not been used yet.

    With ``fixed_names``, as old releases have them, the name is known even then.
    """
    found = known_reference(pod, entry, fixed_names=fixed_names)
    if found is None:
        raise ClaimNotCreated(_why_unknown(pod, entry))
    return found


def known_reference(pod: Pod, entry: PodResourceClaim, *, fixed_names: bool = False) -> ClaimReference | None:
    """The claim an entry stands for, or None while there is none. Every handler of pods asks, for each event."""
    source = entry.get("source") or entry
    if (name := source.get("resourceClaimName")) is not None:
        return ClaimReference(entry["name"], name, generated=False)
    if source.get("resourceClaimTemplateName") is None:
        return None
    if fixed_names:
        return ClaimReference(entry["name"], legacy_claim_name(pod, entry), generated=True)
    for status in (pod.get("status") or {}).get("resourceClaimStatuses") or ():
        if status["name"] == entry["name"]:
            return ClaimReference(entry["name"], status.get("resourceClaimName"), generated=True)
    return None


def _why_unknown(pod: Pod, entry: PodResourceClaim) -> str:
    quoted = f'pod "{pod["metadata"]["namespace"]}/{pod["metadata"]["name"]}"'
    if claim_and_template_names(entry) == (None, None):
        return f'{quoted}, spec.resourceClaim "{entry["name"]}": none of the supported fields are set'
    return f"{quoted}: ResourceClaim not created yet"


def references(pod: Pod, *, fixed_names: bool = False) -> Sequence[ClaimReference]:
    """The claims of a pod that are known so far."""
    entries = pod["spec"].get("resourceClaims")
    if not entries:
        return ()
    return [
        known
        for entry in entries
        if (known := known_reference(pod, entry, fixed_names=fixed_names)) is not None
    ]


def not_for_pod(pod: Pod, claim: Object, *, kind: str = "Pod") -> str:
    """Why a generated claim is not this pod's, or an empty string. Old releases write ``kind`` in lower case."""
    owner = controller_of(claim)
    # The pod of a manifest has no uid, and no claim is its own yet.
    if owner is not None and (owner.get("uid") == pod["metadata"].get("uid") or is_of_group(pod, owner)):
        return ""
    mine, its = pod["metadata"], claim["metadata"]
    return (
        f"ResourceClaim {its['namespace']}/{its['name']} was not created for {kind} "
        f"{mine['namespace']}/{mine['name']} ({kind} is not owner)"
    )


def is_of_group(pod: Pod, owner: OwnerReference) -> bool:
    """Whether the owner of a claim is the PodGroup of the pod."""
    if owner.get("kind") != "PodGroup" or "schedulingGroup" not in pod["spec"]:
        return False
    return owner.get("name") == pod["spec"]["schedulingGroup"].get("podGroupName")


def group_reference(group: PodGroup) -> ResourceClaimConsumerReference:
    """The entry that reserves a claim for all pods of a group."""
    metadata = group["metadata"]
    return {
        "apiGroup": "scheduling.k8s.io",
        "resource": "podgroups",
        "name": metadata["name"],
        "uid": metadata["uid"],
    }


def reserved_for(
    claim: ResourceClaim | ClassicResourceClaim,
) -> Sequence[ResourceClaimConsumerReference]:
    """Whom the claim is reserved for: pods, or groups of pods."""
    return (claim.get("status") or {}).get("reservedFor") or ()


def is_reserved_for(claim: ResourceClaim | ClassicResourceClaim, uid: str) -> bool:
    return any(entry.get("uid") == uid for entry in reserved_for(claim))


def may_use(pod: Pod, claim: ResourceClaim | ClassicResourceClaim) -> bool:
    """Whether a claim is reserved for the pod, or for the group that the pod is scheduled with."""
    if is_reserved_for(claim, pod["metadata"]["uid"]):
        return True
    group = (pod["spec"].get("schedulingGroup") or {}).get("podGroupName")
    return group is not None and any(
        entry.get("resource") == "podgroups" and entry.get("name") == group for entry in reserved_for(claim)
    )


def consumer_reference(pod: Pod) -> ResourceClaimConsumerReference:
    """The entry that reserves a claim for a pod."""
    return {"resource": "pods", "name": pod["metadata"]["name"], "uid": pod["metadata"]["uid"]}


def allocation(claim: ResourceClaim) -> AllocationResult | None:
    return (claim.get("status") or {}).get("allocation")


def allocation_results(claim: ResourceClaim) -> Sequence[DeviceRequestAllocationResult]:
    """The devices that are allocated to the claim."""
    return ((allocation(claim) or {}).get("devices") or {}).get("results") or ()


def base_request(name: str) -> str:
    """The request that ``request/alternative`` belongs to; a name without an alternative is that of a request."""
    return name.partition("/")[0]

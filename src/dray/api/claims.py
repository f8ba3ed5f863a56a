"""How pods and resource claims refer to one another: names, ownership, reservations.

Shared by the scheduler, the claim controller and the node agent, which must agree on every one of these rules.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

FINALIZER = "resource.kubernetes.io/delete-protection"
POD_CLAIM_ANNOTATION = "resource.kubernetes.io/pod-claim-name"
EXTENDED_RESOURCE_ANNOTATION = "resource.kubernetes.io/extended-resource-claim"

Document = Mapping[str, Any]


class ClaimNotCreated(Exception):
    """The claim that a template stands for has not been made yet."""


class ClaimReference(NamedTuple):
    """One entry of a pod's resourceClaims, resolved."""

    entry: str  # the entry's name inside the pod
    claim: str | None  # the claim's name; None: this entry turned out to need none
    generated: bool  # made from a template, so it must belong to the pod


def claim_source(entry: Document) -> tuple[str | None, str | None]:
    """(claim name, template name) of an entry, in today's flat form or the nested one of old releases."""
    source = entry.get("source") or entry
    return source.get("resourceClaimName"), source.get("resourceClaimTemplateName")


def reference(pod: Document, entry: Document) -> ClaimReference:
    """The claim an entry stands for. Raises ``ClaimNotCreated`` while its template has not been used yet."""
    name, template = claim_source(entry)
    if name is not None:
        return ClaimReference(entry["name"], name, generated=False)
    who = f'pod "{pod["metadata"]["namespace"]}/{pod["metadata"]["name"]}"'
    if template is None:
        raise ClaimNotCreated(
            f'{who}, spec.resourceClaim "{entry["name"]}": none of the supported fields are set'
        )
    for status in (pod.get("status") or {}).get("resourceClaimStatuses") or ():
        if status["name"] == entry["name"]:
            return ClaimReference(entry["name"], status.get("resourceClaimName"), generated=True)
    raise ClaimNotCreated(f"{who}: ResourceClaim not created yet")


def references(pod: Document) -> Iterator[ClaimReference]:
    """The claims of a pod that are known so far."""
    for entry in pod["spec"].get("resourceClaims") or ():
        try:
            yield reference(pod, entry)
        except ClaimNotCreated:
            continue


def controller_of(document: Document) -> Document | None:
    for owner in document["metadata"].get("ownerReferences") or ():
        if owner.get("controller"):
            return owner  # type: ignore[no-any-return]
    return None


def not_for_pod(pod: Document, claim: Document) -> str:
    """Why a generated claim is not this pod's, or an empty string."""
    owner = controller_of(claim)
    if owner is not None and owner.get("uid") == pod["metadata"]["uid"]:
        return ""
    mine, its = pod["metadata"], claim["metadata"]
    return (
        f"ResourceClaim {its['namespace']}/{its['name']} was not created for Pod "
        f"{mine['namespace']}/{mine['name']} (Pod is not owner)"
    )


def is_reserved_for(claim: Document, uid: str) -> bool:
    return any(entry.get("uid") == uid for entry in (claim.get("status") or {}).get("reservedFor") or ())


def consumer(pod: Document) -> dict[str, str]:
    """The entry that reserves a claim for a pod."""
    return {"resource": "pods", "name": pod["metadata"]["name"], "uid": pod["metadata"]["uid"]}


def allocation(claim: Document) -> Document | None:
    return (claim.get("status") or {}).get("allocation")


def is_done(pod: Document) -> bool:
    """The pod will not run any more: finished, or deleted before it got a node."""
    if (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed"):
        return True
    return "deletionTimestamp" in pod["metadata"] and not pod["spec"].get("nodeName")

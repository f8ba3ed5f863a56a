"""What is to become of a claim, and how claims are counted. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from dray.api import claims, objects, pods
from dray.api.claims import Document
from dray.api.scheme.kinds import Object


def released(claim: Document, remaining: Iterable[Document]) -> Object | None:
    """The status a claim should have when only ``remaining`` consumers are left; None: the one it has.

    The last consumer takes the allocation with it. One that was allocated and never used stays so, until it is deleted.
    """
    status = claim.get("status") or {}
    left = list(remaining)
    protected = claims.FINALIZER in (claim["metadata"].get("finalizers") or ())
    if len(left) < len(status.get("reservedFor") or ()):
        deallocate = not left and protected
    elif protected and "deletionTimestamp" in claim["metadata"] and not left and status.get("allocation"):
        deallocate = True
    else:
        return None
    return {k: v for k, v in status.items() if k != "allocation" or not deallocate} | {"reservedFor": left}


def has_needless_finalizer(claim: Document, finalizer: str = claims.FINALIZER) -> bool:
    """Whether the finalizer has nothing left to protect."""
    status = claim.get("status") or {}
    unused = not status.get("allocation") and not status.get("reservedFor")
    return unused and finalizer in (claim["metadata"].get("finalizers") or ())


def owning_pod(claim: Document) -> Document | None:
    """The reference to the pod for which a claim was made."""
    owner = objects.controller_of(claim)
    return owner if owner is not None and owner["kind"] == "Pod" and owner["apiVersion"] == "v1" else None


def should_reserve(pod: Document, claim: Document) -> bool:
    """Whether a pod that did not get its node from the scheduler has yet to be told of as a consumer."""
    return (
        bool(pod["spec"].get("nodeName"))
        and claims.allocation(claim) is not None
        and not claims.is_reserved_for(claim, pod["metadata"]["uid"])
        and not pods.is_done(pod)
    )


def requests_admin_access(claim: Document) -> bool:
    """Whether a claim asks for administrative access."""
    requests = ((claim.get("spec") or {}).get("devices") or {}).get("requests") or ()
    return any((request.get("exactly") or {}).get("adminAccess") for request in requests)


def count_claims(known: Iterable[Document]) -> Iterator[tuple[tuple[str, str, str], float]]:
    """How many claims there are: allocated or not, for administrators or not, and by whom they were made."""
    counts: Counter[tuple[str, str, str]] = Counter()
    for claim in known:
        notes = claim["metadata"].get("annotations") or {}
        source = ""
        if notes.get(claims.EXTENDED_RESOURCE_ANNOTATION) == "true":
            source = "extended_resource"
        elif notes.get(claims.POD_CLAIM_ANNOTATION):
            source = "resource_claim_template"
        allocated = claims.allocation(claim) is not None
        counts[str(allocated).lower(), str(requests_admin_access(claim)).lower(), source] += 1
    return ((labels, float(n)) for labels, n in counts.items())

"""How the resource claim controller counts claims. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from dray.api import claims

if TYPE_CHECKING:
    from dray.api.types.resource import ResourceClaim


def requests_admin_access(claim: ResourceClaim) -> bool:
    """Whether a claim asks for administrative access."""
    requests = ((claim.get("spec") or {}).get("devices") or {}).get("requests") or ()
    return any((request.get("exactly") or {}).get("adminAccess") for request in requests)


def count_claims(known: Iterable[ResourceClaim]) -> Iterator[tuple[tuple[str, str, str], float]]:
    """The number of claims by whether they are allocated, ask for administrative access, and by who created them."""
    counts: Counter[tuple[str, str, str]] = Counter()
    for claim in known:
        annotations = claim["metadata"].get("annotations") or {}
        source = ""
        if annotations.get(claims.EXTENDED_RESOURCE_ANNOTATION) == "true":
            source = "extended_resource"
        elif annotations.get(claims.POD_CLAIM_ANNOTATION):
            source = "resource_claim_template"
        allocated = claims.allocation(claim) is not None
        counts[str(allocated).lower(), str(requests_admin_access(claim)).lower(), source] += 1
    return ((labels, float(n)) for labels, n in counts.items())

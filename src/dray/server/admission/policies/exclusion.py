"""What no policy is asked about: the policies themselves, and reviews that the cluster cannot do without."""

from __future__ import annotations

from typing import Final

from dray.server.admission import RequestScope

_POLICIES: Final = frozenset(
    f"{family}admissionpolic{ending}"
    for family in ("validating", "mutating")
    for ending in ("ies", "ybindings")
)
_REVIEWS: Final = frozenset(
    {
        ("authentication.k8s.io", "selfsubjectreviews"),
        ("authentication.k8s.io", "tokenreviews"),
        ("authorization.k8s.io", "localsubjectaccessreviews"),
        ("authorization.k8s.io", "selfsubjectaccessreviews"),
        ("authorization.k8s.io", "selfsubjectrulesreviews"),
        ("authorization.k8s.io", "subjectaccessreviews"),
    }
)


def excluded(place: RequestScope) -> bool:
    if place.group == "admissionregistration.k8s.io":
        return place.resource in _POLICIES
    return (place.group, place.resource) in _REVIEWS

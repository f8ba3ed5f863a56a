"""What no policy is asked about: the policies themselves, and reviews that the cluster cannot do without."""

from __future__ import annotations

from typing import Final

from dray.server.admission import Attributes

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


def excluded(attributes: Attributes) -> bool:
    if attributes.group == "admissionregistration.k8s.io":
        return attributes.resource in _POLICIES
    return (attributes.group, attributes.resource) in _REVIEWS

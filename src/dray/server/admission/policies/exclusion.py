"""The resources that no policy is evaluated for: policies themselves, and reviews."""

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


def excluded(scope: RequestScope) -> bool:
    if scope.group == "admissionregistration.k8s.io":
        return scope.resource in _POLICIES
    return (scope.group, scope.resource) in _REVIEWS

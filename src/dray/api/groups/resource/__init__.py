"""resource.k8s.io: every kind of Dynamic Resource Allocation, in every generation.

The modern kinds (v1alpha3 to v1) share a hub of v1's shape, the classic ones (v1alpha1, v1alpha2) one of v1alpha2's.
"""

from __future__ import annotations

from dray.api.quirks import APIQuirks
from dray.api.scheme.kinds import Kind


def kinds(quirks: APIQuirks) -> tuple[Kind, ...]:
    """The kinds as a release has them."""
    from dray.api.groups.resource import modern
    from dray.api.groups.resource.classic import kinds as classic

    return (*classic.kinds(quirks), *modern.kinds(quirks))

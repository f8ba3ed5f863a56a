"""What this API server does and kube-apiserver does not: it books devices and names the claims of new pods.

Upstream leaves both to its schedulers and controllers. Every write passes through the API server, so that here the
first is safer and the second is cheaper.
"""

from __future__ import annotations

from dray.server.beyond_upstream.claim_names import ClaimNames
from dray.server.beyond_upstream.device_booking import DeviceBookings
from dray.server.quirks import Quirks
from dray.server.registry.resources import Resources

_GROUP = "resource.k8s.io"


def install(resources: Resources, quirks: Quirks) -> None:
    """Add both differences to the write path, as begin-write hooks of claims and pods."""
    claims, pods = resources.resource(_GROUP, "resourceclaims"), resources.resource("", "pods")
    templates = resources.resource(_GROUP, "resourceclaimtemplates")
    slices = resources.resource(_GROUP, "resourceslices")
    if quirks.books_devices and claims is not None:
        bookings = DeviceBookings(claims.cache, slices.cache if slices is not None else None)
        claims.begin_write = bookings.begin_write
    if quirks.names_claims_at_pod_creation and templates is not None and pods is not None:
        pods.begin_write = ClaimNames(templates.cache).begin_write

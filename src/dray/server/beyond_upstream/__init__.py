"""What this API server does and kube-apiserver does not: it books devices and names the claims of new pods.

Upstream leaves both to its schedulers and controllers. Every write passes through the API server, so that here the
first is safer and the second is cheaper.
"""

from __future__ import annotations

import logging

from dray.server.apiserver import APIServer
from dray.server.beyond_upstream.claim_names import ClaimNames
from dray.server.beyond_upstream.device_booking.bookings import DeviceBookings
from dray.server.beyond_upstream.device_booking.pools import PublishedPools
from dray.server.beyond_upstream.device_booking.records import PREFIX
from dray.server.beyond_upstream.device_booking.repair import BookingRepair
from dray.server.storage.keycache import KeyCache

log = logging.getLogger(__name__)

_GROUP = "resource.k8s.io"


async def install(api: APIServer) -> None:
    """Add both differences to the write path."""
    resources, quirks = api.resources, api.quirks
    templates, pods = resources.resource(_GROUP, "resourceclaimtemplates"), resources.resource("", "pods")
    groups = resources.resource("scheduling.k8s.io", "podgroups")
    if quirks.names_claims_at_pod_creation and templates is not None and pods is not None:
        pods.begin_write = ClaimNames(
            templates.cache, groups.cache if groups is not None else None
        ).begin_write
    if quirks.books_devices and (repair := await booking_repair(api)) is not None:
        if repaired := await repair.repair():
            log.info("%d booking records were put right at start", repaired)
        api.background.append(repair.run)


async def booking_repair(api: APIServer) -> BookingRepair | None:
    """Device booking on the stored claims, and what compares the two; None where there are no claims."""
    claims = api.resources.resource(_GROUP, "resourceclaims")
    if claims is None:
        return None
    slices = api.resources.resource(_GROUP, "resourceslices")
    records = KeyCache(api.store, PREFIX)
    await records.load()
    api.resources.closers.append(records.close)
    bookings = DeviceBookings(records, PublishedPools(slices.cache if slices is not None else None))
    claims.companions = bookings
    return BookingRepair(api.store, claims.cache, records, bookings)

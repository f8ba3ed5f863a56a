"""Deletes certificate signing requests that nobody needs any more."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Final

from dray.api.errors import NotFound
from dray.api.times import to_epoch
from dray.client.resources import CERTIFICATE_SIGNING_REQUESTS as REQUESTS
from dray.controllers.certificates import certificate_authority
from dray.controllers.certificates.controller import (
    RequestController,
    certificate_of,
    is_decided,
    request_condition,
)

if TYPE_CHECKING:
    from dray.api.types.certificates import (
        CertificateSigningRequest,
    )


_HOUR: Final = 3600.0


_PENDING_SECONDS: Final = 24 * _HOUR


def seconds_until_cleanup(
    request: CertificateSigningRequest, *, now: float, unsigned_too: bool = True
) -> float | None:
    """In how many seconds a request may go, at most 0 if it may now; None: not by itself.

    Without ``unsigned_too``, an approved one is kept until it is signed.
    """
    times = [to_epoch(request["metadata"]["creationTimestamp"]) + _PENDING_SECONDS]
    if is_decided(request) or request_condition(request, "Failed") is not None:
        times = []
    for kind in ("Denied", "Failed", "Approved"):
        decided = request_condition(request, kind)
        unsigned = kind == "Approved" and not certificate_of(request)
        if decided is None or (unsigned and not unsigned_too):
            continue
        since = decided.get("lastUpdateTime") or decided.get("lastTransitionTime")
        if since:
            times.append(to_epoch(since) + (_PENDING_SECONDS if unsigned else _HOUR))
    ends = certificate_authority.expiration(certificate_of(request)) if certificate_of(request) else None
    if ends is not None:
        times.append(ends)
    return min(times) - now if times else None


class CertificateCleaner(RequestController):
    """Deletes requests that were dealt with, or that nobody has dealt with for long."""

    name = "certificatesigningrequest-cleaner-controller"
    workers = 1

    async def sync(self, key: str) -> float | None:
        request = self._requests.get("", key)
        if request is None:
            return None
        unsigned_too = self.context.quirks.cleans_up_unsigned_requests
        left = seconds_until_cleanup(request, now=self.context.clock(), unsigned_too=unsigned_too)
        if left is None or left > 0:
            return left
        with contextlib.suppress(NotFound):
            await self.context.client.delete(REQUESTS, "", key, uid=request["metadata"]["uid"])
        return None

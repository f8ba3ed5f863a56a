"""What the controllers of CertificateSigningRequests share: reading requests, and the queue of their names."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dray.client.resources import CERTIFICATE_SIGNING_REQUESTS as REQUESTS
from dray.controllers.controller import Controller, ControllerContext

if TYPE_CHECKING:
    from dray.api.types.certificates import (
        CertificateSigningRequest,
        CertificateSigningRequestCondition,
    )


# -- decisions ------------------------------------------------------------------------------------------------------


def request_condition(
    request: CertificateSigningRequest, kind: str
) -> CertificateSigningRequestCondition | None:
    found = (request.get("status") or {}).get("conditions") or ()
    return next((c for c in found if c["type"] == kind), None)


def is_decided(request: CertificateSigningRequest) -> bool:
    return (
        request_condition(request, "Approved") is not None or request_condition(request, "Denied") is not None
    )


def certificate_of(request: CertificateSigningRequest) -> str:
    found: str = (request.get("status") or {}).get("certificate") or ""
    return found


# -- controllers ----------------------------------------------------------------------------------------------------


class RequestController(Controller[str]):
    """Keys are names of requests."""

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._requests = context.informers.get(context.resource(REQUESTS))
        self._requests.add_handler(
            on_add=lambda new: self.enqueue(new["metadata"]["name"]),
            on_update=lambda old, new: self.enqueue(new["metadata"]["name"]),
        )


def with_condition(
    request: CertificateSigningRequest, condition: CertificateSigningRequestCondition
) -> CertificateSigningRequest:
    status = request.get("status") or {}
    return {**request, "status": {**status, "conditions": [*(status.get("conditions") or ()), condition]}}

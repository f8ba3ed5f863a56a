"""Certificate signing requests: nodes are let in, what is approved gets signed, and what is over goes."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Final, NamedTuple

from dray.api.errors import NotFound
from dray.api.times import from_epoch, to_epoch
from dray.client.resources import CERTIFICATE_SIGNING_REQUESTS as REQUESTS
from dray.client.resources import SUBJECT_ACCESS_REVIEWS
from dray.controllers.certificates import certificate_authority
from dray.controllers.controller import Controller, ControllerContext, NotConfigured

if TYPE_CHECKING:
    from dray.api.types.authorization import SubjectAccessReview
    from dray.api.types.certificates import (
        CertificateSigningRequest,
        CertificateSigningRequestCondition,
        CertificateSigningRequestStatus,
    )


_HOUR: Final = 3600.0
_PENDING_SECONDS: Final = 24 * _HOUR
_SIGNERS: Final = (
    certificate_authority.CLIENT,
    certificate_authority.KUBELET_CLIENT,
    certificate_authority.KUBELET_SERVING,
    certificate_authority.LEGACY,
)


class NotAllowed(Exception):
    """A node asks for a certificate that its bearer may not have; rights can still come."""


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


class Recognizer(NamedTuple):
    """What the sender of a request must be allowed, and the words under which it is then approved."""

    subresource: str
    message: str


_SELF_NODE_CLIENT: Final = Recognizer(
    "selfnodeclient", "Auto approving self kubelet client certificate after SubjectAccessReview."
)
_NODE_CLIENT: Final = Recognizer(
    "nodeclient", "Auto approving kubelet client certificate after SubjectAccessReview."
)


def recognizers(request: CertificateSigningRequest) -> tuple[Recognizer, ...]:
    """Each of these is enough for a node's client certificate to be approved; none: it is not about one."""
    spec = request["spec"]
    if spec.get("signerName") != certificate_authority.KUBELET_CLIENT:
        return ()
    wanted = certificate_authority.requested_subject(spec["request"])
    if certificate_authority.kubelet_client_problem(wanted, spec.get("usages") or ()):
        return ()
    return (_SELF_NODE_CLIENT, _NODE_CLIENT) if wanted.user == spec.get("username") else (_NODE_CLIENT,)


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


# -- controllers ----------------------------------------------------------------------------------------------------


class _RequestController(Controller[str]):
    """Keys are names of requests."""

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._requests = context.informers.get(context.resource(REQUESTS))
        self._requests.add_handler(
            on_add=lambda new: self.enqueue(new["metadata"]["name"]),
            on_update=lambda old, new: self.enqueue(new["metadata"]["name"]),
        )


class CertificateApprover(_RequestController):
    """Approves the client certificates of nodes, first and later ones, whose senders have the right."""

    name = "certificatesigningrequest-approving-controller"

    async def sync(self, key: str) -> float | None:
        request = self._requests.get("", key)
        if request is None or is_decided(request) or certificate_of(request):
            return None
        offered = recognizers(request)
        for permission in offered:
            if await self._may(request, permission.subresource):
                await self._approve(request, permission.message)
                return None
        if offered:
            kinds = " ".join(permission.subresource for permission in offered)
            raise NotAllowed(f"{key} is recognized as {kinds}, but access review did not approve it")
        return None

    async def _may(self, request: CertificateSigningRequest, subresource: str) -> bool:
        spec = request["spec"]
        review: SubjectAccessReview = {
            "spec": {
                "user": spec.get("username", ""),
                "uid": spec.get("uid", ""),
                "groups": spec.get("groups") or [],
                "extra": spec.get("extra") or {},
                "resourceAttributes": {
                    "group": REQUESTS.group,
                    "version": "*",
                    "resource": REQUESTS.plural,
                    "verb": "create",
                    "subresource": subresource,
                },
            }
        }
        answer = await self.context.client.create(SUBJECT_ACCESS_REVIEWS, "", review)
        return bool(answer["status"].get("allowed"))

    async def _approve(self, request: CertificateSigningRequest, message: str) -> None:
        approved: CertificateSigningRequestCondition = {
            "type": "Approved",
            "status": "True",
            "reason": "AutoApproved",
            "message": message,
        }
        changed = _with_condition(request, approved)
        await self.context.client.update(REQUESTS, "", changed, subresource="approval")


class CertificateSigner(_RequestController):
    """Signs what is approved. ``certificate`` and ``key`` are the authority's, in PEM."""

    name = "certificatesigningrequest-signing-controller"

    def __init__(self, context: ControllerContext, *, certificate: str = "", key: str = "") -> None:
        if not certificate or not key:
            raise NotConfigured("certificate authority")
        super().__init__(context)
        self._authority = certificate_authority.CertificateAuthority(certificate, key)

    async def sync(self, key: str) -> float | None:
        request = self._requests.get("", key)
        if request is None or request_condition(request, "Approved") is None or certificate_of(request):
            return None
        spec = request["spec"]
        if spec["signerName"] not in _SIGNERS or request_condition(request, "Failed") is not None:
            return None
        usages = spec.get("usages") or ()
        refusal = certificate_authority.signer_problem(
            spec["signerName"], certificate_authority.requested_subject(spec["request"]), usages
        )
        if refusal:
            failed: CertificateSigningRequestCondition = {
                "type": "Failed",
                "status": "True",
                "reason": "SignerValidationFailure",
                "message": refusal,
                "lastUpdateTime": from_epoch(self.context.clock()),
            }
            await self.context.client.update_status(REQUESTS, "", _with_condition(request, failed))
            return None
        certificate = certificate_authority.sign(
            self._authority,
            spec["request"],
            usages,
            lasting=certificate_authority.lifetime(spec.get("expirationSeconds")),
            now=self.context.clock(),
        )
        status: CertificateSigningRequestStatus = {
            **(request.get("status") or {}),
            "certificate": certificate,
        }
        await self.context.client.update_status(REQUESTS, "", {**request, "status": status})
        return None


class CertificateCleaner(_RequestController):
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


def _with_condition(
    request: CertificateSigningRequest, condition: CertificateSigningRequestCondition
) -> CertificateSigningRequest:
    status = request.get("status") or {}
    return {**request, "status": {**status, "conditions": [*(status.get("conditions") or ()), condition]}}

"""Certificate signing requests: nodes are let in, what is approved gets signed, and what is over goes."""

from __future__ import annotations

import contextlib
from typing import Any, Final, NamedTuple

from dray.api.errors import NotFound
from dray.api.timefmt import from_epoch, to_epoch
from dray.client.resources import CERTIFICATE_SIGNING_REQUESTS as REQUESTS
from dray.client.resources import SUBJECT_ACCESS_REVIEWS
from dray.controllers import signing
from dray.controllers.framework import Controller, Kit, NotConfigured

Object = Any  # documents have no types here yet

Document = Any  # documents have no types here yet

_HOUR: Final = 3600.0
_PENDING_SECONDS: Final = 24 * _HOUR
_UNSIGNED_GO_SINCE: Final = (1, 35)
_SIGNERS: Final = (signing.CLIENT, signing.KUBELET_CLIENT, signing.KUBELET_SERVING, signing.LEGACY)


class NotAllowed(Exception):
    """A node asks for a certificate that its bearer may not have; rights can still come."""


# -- decisions ------------------------------------------------------------------------------------------------------


def decision(request: Document, kind: str) -> Document | None:
    found = (request.get("status") or {}).get("conditions") or ()
    return next((c for c in found if c["type"] == kind), None)


def is_decided(request: Document) -> bool:
    return decision(request, "Approved") is not None or decision(request, "Denied") is not None


def certificate_of(request: Document) -> str:
    found: str = (request.get("status") or {}).get("certificate") or ""
    return found


class Permission(NamedTuple):
    """What the sender of a request must be allowed, and the words under which it is then approved."""

    subresource: str
    message: str


_RENEWAL: Final = Permission(
    "selfnodeclient", "Auto approving self kubelet client certificate after SubjectAccessReview."
)
_FIRST: Final = Permission(
    "nodeclient", "Auto approving kubelet client certificate after SubjectAccessReview."
)


def permissions(request: Document) -> tuple[Permission, ...]:
    """Each of these is enough for a node's client certificate to be approved; none: it is not about one."""
    spec = request["spec"]
    if spec.get("signerName") != signing.KUBELET_CLIENT:
        return ()
    wanted = signing.asked(spec["request"])
    if signing.kubelet_client_problem(wanted, spec.get("usages") or ()):
        return ()
    return (_RENEWAL, _FIRST) if wanted.user == spec.get("username") else (_FIRST,)


def outlived(request: Document, *, now: float, unsigned_too: bool = True) -> float | None:
    """In how many seconds a request may go, at most 0 if it may now; None: not by itself.

    Without ``unsigned_too``, an approved one is kept until it is signed.
    """
    times = [to_epoch(request["metadata"]["creationTimestamp"]) + _PENDING_SECONDS]
    if is_decided(request) or decision(request, "Failed") is not None:
        times = []
    for kind in ("Denied", "Failed", "Approved"):
        decided = decision(request, kind)
        unsigned = kind == "Approved" and not certificate_of(request)
        if decided is None or (unsigned and not unsigned_too):
            continue
        since = decided.get("lastUpdateTime") or decided.get("lastTransitionTime")
        if since:
            times.append(to_epoch(since) + (_PENDING_SECONDS if unsigned else _HOUR))
    ends = signing.expires(certificate_of(request)) if certificate_of(request) else None
    if ends is not None:
        times.append(ends)
    return min(times) - now if times else None


# -- controllers ----------------------------------------------------------------------------------------------------


class _OfRequests(Controller[str]):
    """Keys are names of requests."""

    def __init__(self, kit: Kit) -> None:
        super().__init__(kit)
        self._requests = kit.informers.get(kit.resource(REQUESTS))
        self._requests.add_handler(
            on_add=lambda new: self.enqueue(new["metadata"]["name"]),
            on_update=lambda old, new: self.enqueue(new["metadata"]["name"]),
        )


class CertificateApprover(_OfRequests):
    """Approves the client certificates of nodes, first and later ones, whose senders have the right."""

    name = "certificatesigningrequest-approving-controller"

    async def sync(self, key: str) -> float | None:
        request = self._requests.get("", key)
        if request is None or is_decided(request) or certificate_of(request):
            return None
        offered = permissions(request)
        for permission in offered:
            if await self._may(request, permission.subresource):
                await self._approve(request, permission.message)
                return None
        if offered:
            kinds = " ".join(permission.subresource for permission in offered)
            raise NotAllowed(f"{key} is recognized as {kinds}, but access review did not approve it")
        return None

    async def _may(self, request: Document, subresource: str) -> bool:
        spec = request["spec"]
        review: Object = {
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
        answer = await self.kit.client.create(SUBJECT_ACCESS_REVIEWS, "", review)
        return bool(answer["status"].get("allowed"))

    async def _approve(self, request: Object, message: str) -> None:
        approved = {"type": "Approved", "status": "True", "reason": "AutoApproved", "message": message}
        changed = _with_condition(request, approved)
        await self.kit.client.update(REQUESTS, "", changed, subresource="approval")


class CertificateSigner(_OfRequests):
    """Signs what is approved. ``certificate`` and ``key`` are the authority's, in PEM."""

    name = "certificatesigningrequest-signing-controller"

    def __init__(self, kit: Kit, *, certificate: str = "", key: str = "") -> None:
        if not certificate or not key:
            raise NotConfigured("certificate authority")
        super().__init__(kit)
        self._authority = signing.Authority(certificate, key)

    async def sync(self, key: str) -> float | None:
        request = self._requests.get("", key)
        if request is None or decision(request, "Approved") is None or certificate_of(request):
            return None
        spec = request["spec"]
        if spec["signerName"] not in _SIGNERS or decision(request, "Failed") is not None:
            return None
        usages = spec.get("usages") or ()
        refusal = signing.problem(spec["signerName"], signing.asked(spec["request"]), usages)
        if refusal:
            failed = {
                "type": "Failed",
                "status": "True",
                "reason": "SignerValidationFailure",
                "message": refusal,
                "lastUpdateTime": from_epoch(self.kit.clock()),
            }
            await self.kit.client.update_status(REQUESTS, "", _with_condition(request, failed))
            return None
        certificate = signing.sign(
            self._authority,
            spec["request"],
            usages,
            lasting=signing.lifetime(spec.get("expirationSeconds")),
            now=self.kit.clock(),
        )
        changed = {**request, "status": {**(request.get("status") or {}), "certificate": certificate}}
        await self.kit.client.update_status(REQUESTS, "", changed)  # type: ignore[arg-type]
        return None


class CertificateCleaner(_OfRequests):
    """Deletes requests that were dealt with, or that nobody has dealt with for long."""

    name = "certificatesigningrequest-cleaner-controller"
    workers = 1

    async def sync(self, key: str) -> float | None:
        request = self._requests.get("", key)
        if request is None:
            return None
        unsigned_too = self.kit.gates.release >= _UNSIGNED_GO_SINCE
        left = outlived(request, now=self.kit.clock(), unsigned_too=unsigned_too)
        if left is None or left > 0:
            return left
        with contextlib.suppress(NotFound):
            await self.kit.client.delete(REQUESTS, "", key, uid=request["metadata"]["uid"])
        return None


def _with_condition(request: Document, condition: Object) -> Object:
    status = request.get("status") or {}
    return {**request, "status": {**status, "conditions": [*(status.get("conditions") or ()), condition]}}

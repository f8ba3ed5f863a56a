"""Approves certificate signing requests of nodes.

Upstream approves any name for whoever has the right. Here the name of a node that is ready is denied to everybody but
that node: whoever has its certificate reads the Secrets of its pods.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from dray.api import nodes
from dray.client.resources import CERTIFICATE_SIGNING_REQUESTS as REQUESTS
from dray.client.resources import NODES, SUBJECT_ACCESS_REVIEWS
from dray.controllers.certificates import certificate_authority
from dray.controllers.certificates.controller import (
    RequestController,
    certificate_of,
    is_decided,
    with_condition,
)
from dray.controllers.controller import ControllerContext

if TYPE_CHECKING:
    from dray.api.types.authorization import SubjectAccessReview
    from dray.api.types.certificates import (
        CertificateSigningRequest,
        CertificateSigningRequestCondition,
    )


class NotAllowed(Exception):
    """A node asks for a certificate that its bearer may not have; rights can still come."""


class Recognizer(NamedTuple):
    """What the sender of a request must be allowed to do, and the message of the approval."""

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


class CertificateApprover(RequestController):
    """Approves the client certificates of nodes, first and later ones, whose senders have the right."""

    name = "certificatesigningrequest-approving-controller"

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._nodes = context.informers.get(context.resource(NODES))

    async def sync(self, key: str) -> float | None:
        request = self._requests.get("", key)
        if request is None or is_decided(request) or certificate_of(request):
            return None
        offered = recognizers(request)
        for permission in offered:
            if await self._may(request, permission.subresource):
                if taken := self._taken_name(request):
                    message = f"the cluster has a node {taken} already, and it is ready; choose another name"
                    await self._decide(request, "Denied", reason="NodeIsReady", message=message)
                else:
                    await self._decide(request, "Approved", reason="AutoApproved", message=permission.message)
                return None
        if offered:
            kinds = " ".join(permission.subresource for permission in offered)
            raise NotAllowed(f"{key} is recognized as {kinds}, but access review did not approve it")
        return None

    def _taken_name(self, request: CertificateSigningRequest) -> str:
        """The ready node whose name somebody else asks for; empty if there is none."""
        spec = request["spec"]
        wanted = certificate_authority.requested_subject(spec["request"])
        found = self._nodes.get("", wanted.node)
        ready = found is not None and nodes.is_ready(found)
        return wanted.node if ready and wanted.user != spec.get("username") else ""

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

    async def _decide(
        self, request: CertificateSigningRequest, decision: str, *, reason: str, message: str
    ) -> None:
        condition: CertificateSigningRequestCondition = {
            "type": decision,
            "status": "True",
            "reason": reason,
            "message": message,
        }
        changed = with_condition(request, condition)
        await self.context.client.update(REQUESTS, "", changed, subresource="approval")

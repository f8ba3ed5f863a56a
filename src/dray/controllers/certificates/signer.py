"""Signs certificate signing requests that are approved."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from dray.api.times import from_epoch
from dray.client.resources import CERTIFICATE_SIGNING_REQUESTS as REQUESTS
from dray.controllers.certificates import certificate_authority
from dray.controllers.certificates.controller import (
    RequestController,
    certificate_of,
    request_condition,
    with_condition,
)
from dray.controllers.controller import ControllerContext, NotConfigured

if TYPE_CHECKING:
    from dray.api.types.certificates import (
        CertificateSigningRequestCondition,
        CertificateSigningRequestStatus,
    )


_SIGNERS: Final = (
    certificate_authority.CLIENT,
    certificate_authority.KUBELET_CLIENT,
    certificate_authority.KUBELET_SERVING,
    certificate_authority.LEGACY,
)


class CertificateSigner(RequestController):
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
            await self.context.client.update_status(REQUESTS, "", with_condition(request, failed))
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

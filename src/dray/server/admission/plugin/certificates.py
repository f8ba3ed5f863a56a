"""CertificateApproval, CertificateSigning and CertificateSubjectRestriction, for certificate signing requests."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from dray.server.admission import CREATE, UPDATE, Attributes, RequestScope
from dray.server.auth import authorizer
from dray.server.auth.authorizer import AuthorizerFunc

if TYPE_CHECKING:
    from dray.api.types.certificates import CertificateSigningRequest

_GROUP: Final = "certificates.k8s.io"
_REQUESTS: Final = "certificatesigningrequests"
_CLIENT: Final = "kubernetes.io/kube-apiserver-client"
_MASTERS: Final = "system:masters"


def _subject(request: str, attribute: str) -> list[str]:
    """The values of one attribute of the subject in a request, which is PEM inside base64."""
    from base64 import b64decode

    from cryptography import x509
    from cryptography.x509.oid import NameOID

    pem = b64decode(request or "")
    if b"-----BEGIN CERTIFICATE REQUEST-----" not in pem:
        raise ValueError("PEM block type must be CERTIFICATE REQUEST")
    subject = x509.load_pem_x509_csr(pem).subject
    return [str(a.value) for a in subject.get_attributes_for_oid(getattr(NameOID, attribute))]


def common_name(request: str) -> str:
    """The common name that a request asks for; ValueError if it is none."""
    return next(iter(_subject(request, "COMMON_NAME")), "")


def may(authorize: AuthorizerFunc, attributes: Attributes, verb: str, signer: str) -> bool:
    """Whether the caller may do this for the signer, or for all signers of its domain."""
    names = (signer, f"{signer.partition('/')[0]}/*")
    return any(
        authorize(authorizer.Attributes(attributes.user, verb, _GROUP, "*", "signers", name=name)).allowed
        for name in names
    )


def _signer(attributes: Attributes) -> str:
    """By the stored object: whoever tries to change the signer on the way is checked by the old one."""
    old: CertificateSigningRequest | None = attributes.old
    return (old or {}).get("spec", {}).get("signerName", "")


class CertificateApproval:
    name = "CertificateApproval"

    def __init__(self, authorize: AuthorizerFunc) -> None:
        self._authorize = authorize

    def handles(self, scope: RequestScope) -> bool:
        return scope.operation == UPDATE and scope.is_for(_GROUP, _REQUESTS, "approval")

    async def validate(self, attributes: Attributes) -> None:
        signer = _signer(attributes)
        if not may(self._authorize, attributes, "approve", signer):
            words = f'user not permitted to approve requests with signerName "{signer}"'
            raise attributes.forbidden(words)


class CertificateSigning:
    name = "CertificateSigning"

    def __init__(self, authorize: AuthorizerFunc) -> None:
        self._authorize = authorize

    def handles(self, scope: RequestScope) -> bool:
        return scope.operation == UPDATE and scope.is_for(_GROUP, _REQUESTS, "status")

    async def validate(self, attributes: Attributes) -> None:
        request: CertificateSigningRequest = attributes.object
        stored: CertificateSigningRequest | None = attributes.old
        new, old = request.get("status", {}), (stored or {}).get("status", {})
        if (new.get("certificate") or None) == (old.get("certificate") or None) and (
            new.get("conditions") or None
        ) == (old.get("conditions") or None):
            return
        signer = _signer(attributes)
        if not may(self._authorize, attributes, "sign", signer):
            raise attributes.forbidden(f'user not permitted to sign requests with signerName "{signer}"')


class CertificateSubjectRestriction:
    """Nobody becomes a superuser by certificate."""

    name = "CertificateSubjectRestriction"

    def handles(self, scope: RequestScope) -> bool:
        return scope.operation == CREATE and scope.is_for(_GROUP, _REQUESTS)

    async def validate(self, attributes: Attributes) -> None:
        request: CertificateSigningRequest = attributes.object
        spec = request.get("spec", {})
        if spec.get("signerName") != _CLIENT:
            return
        try:
            organizations = _subject(spec.get("request", ""), "ORGANIZATION_NAME")
        except ValueError as e:
            raise attributes.forbidden(f"failed to parse CSR: {e}") from None
        if _MASTERS in organizations:
            raise attributes.forbidden(f"use of {_CLIENT} signer with {_MASTERS} group is not allowed")

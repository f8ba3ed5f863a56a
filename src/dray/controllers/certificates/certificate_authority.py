"""Certificate requests: what they ask for, whether a signer may grant it, and the signature itself.

Pure but for the serial numbers. The signers' rules and messages are upstream's.
"""

from __future__ import annotations

import base64
from collections.abc import Collection
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from dray.api.validation.names import dns1123_subdomain

if TYPE_CHECKING:
    from cryptography import x509


CLIENT: Final = "kubernetes.io/kube-apiserver-client"
KUBELET_CLIENT: Final = "kubernetes.io/kube-apiserver-client-kubelet"
KUBELET_SERVING: Final = "kubernetes.io/kubelet-serving"
LEGACY: Final = "kubernetes.io/legacy-unknown"

MAX_LIFETIME: Final = timedelta(days=365)
_MIN_LIFETIME: Final = timedelta(minutes=10)
#: Certificates begin a little in the past, as clocks differ; short ones do not end earlier for it.
_BACKDATE: Final = timedelta(minutes=5)
_SHORT_LIFETIME: Final = timedelta(hours=8)

_NODE_GROUP: Final = "system:nodes"
_NODE_PREFIX: Final = "system:node:"


@dataclass(frozen=True, slots=True)
class RequestedSubject:
    """What a request says about its bearer."""

    user: str  # the last common name, as Go reads it; empty where there is none
    groups: tuple[str, ...]
    names: int = 1  # how many common names there are
    dns: tuple[str, ...] = ()
    emails: tuple[str, ...] = ()
    addresses: tuple[str, ...] = ()
    uris: tuple[str, ...] = ()

    @property
    def node(self) -> str:
        """The node that is meant, where ``user`` begins as the users of nodes do."""
        return self.user.removeprefix(_NODE_PREFIX)


@lru_cache(maxsize=256)
def _parse(encoded: str) -> x509.CertificateSigningRequest:
    from cryptography import x509

    return x509.load_pem_x509_csr(base64.b64decode(encoded))


def requested_subject(encoded: str) -> RequestedSubject:
    """The subject and names of a request in base64 of PEM; ``ValueError`` if it is none."""
    from cryptography import x509
    from cryptography.x509.oid import NameOID

    request = _parse(encoded)
    names = request.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
    groups = request.subject.get_attributes_for_oid(NameOID.ORGANIZATION_NAME)
    try:
        alternatives = request.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        alternatives = x509.SubjectAlternativeName([])
    return RequestedSubject(
        user=str(names[-1].value) if names else "",
        groups=tuple(str(g.value) for g in groups),
        names=len(names),
        dns=tuple(alternatives.get_values_for_type(x509.DNSName)),
        emails=tuple(alternatives.get_values_for_type(x509.RFC822Name)),
        addresses=tuple(str(a) for a in alternatives.get_values_for_type(x509.IPAddress)),
        uris=tuple(alternatives.get_values_for_type(x509.UniformResourceIdentifier)),
    )


# -- what signers grant ---------------------------------------------------------------------------------------------


def signer_problem(signer: str, wanted: RequestedSubject, usages: Collection[str]) -> str:
    """Why a signer refuses a request; empty if it does not."""
    match signer:
        case "kubernetes.io/kube-apiserver-client-kubelet":
            return kubelet_client_problem(wanted, usages)
        case "kubernetes.io/kubelet-serving":
            return _kubelet_serving_problem(wanted, usages)
        case "kubernetes.io/kube-apiserver-client":
            return _client_problem(usages)
    return ""


def kubelet_client_problem(wanted: RequestedSubject, usages: Collection[str]) -> str:
    if wanted.groups != (_NODE_GROUP,):
        return "subject organization is not system:nodes"
    for names, kind in (
        (wanted.dns, "DNS"),
        (wanted.emails, "Email"),
        (wanted.addresses, "IP"),
        (wanted.uris, "URI"),
    ):
        if names:
            return f"{kind} subjectAltNames are not allowed"
    return _node_name_problem(wanted) or _usage_problem(usages, "client auth")


def _kubelet_serving_problem(wanted: RequestedSubject, usages: Collection[str]) -> str:
    if wanted.groups != (_NODE_GROUP,):
        return "subject organization is not system:nodes"
    if not wanted.dns and not wanted.addresses:
        return "DNS or IP subjectAltName is required"
    for names, kind in ((wanted.emails, "Email"), (wanted.uris, "URI")):
        if names:
            return f"{kind} subjectAltNames are not allowed"
    return _usage_problem(usages, "server auth") or _node_name_problem(wanted)


def _node_name_problem(wanted: RequestedSubject) -> str:
    """Upstream asks for the prefix only. A certificate whose readers could see two names, or a name that no Node can have,
    is not given to a node either."""
    if not wanted.user.startswith(_NODE_PREFIX):
        return "subject common name does not begin with system:node:"
    if wanted.names != 1:
        return "subject has more than one common name"
    if problems := dns1123_subdomain(wanted.node):
        return f"subject common name does not name a node: {problems[0]}"
    return ""


def _usage_problem(usages: Collection[str], purpose: str) -> str:
    """Exactly signing and the purpose, and key encipherment for keys that can do that."""
    full = {"digital signature", "key encipherment", purpose}
    if set(usages) in (full, full - {"key encipherment"}):
        return ""
    return f"usages did not match [{' '.join(sorted(full))}]"


def _client_problem(usages: Collection[str]) -> str:
    for usage in usages:
        if usage not in ("digital signature", "key encipherment", "client auth"):
            return f"invalid usage for client certificate: {usage}"
    return "" if "client auth" in usages else "missing required usage for client certificate: client auth"


# -- signing --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class CertificateAuthority:
    """A CA's certificate and key, both in PEM."""

    certificate: str
    key: str


def lifetime(seconds: int | None, *, longest: timedelta = MAX_LIFETIME) -> timedelta:
    """How long a certificate is to last for which so many seconds were asked."""
    return longest if seconds is None else min(max(timedelta(seconds=seconds), _MIN_LIFETIME), longest)


def sign(
    authority: CertificateAuthority, encoded: str, usages: Collection[str], *, lasting: timedelta, now: float
) -> str:
    """The certificate, in base64 of PEM. Of the request only the subject, key and alternative names are taken over."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec, rsa

    ca = x509.load_pem_x509_certificate(authority.certificate.encode())
    key = serialization.load_pem_private_key(authority.key.encode(), None)
    if not isinstance(key, ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey):
        raise ValueError("the authority's key is neither RSA nor of an elliptic curve")
    request, moment = _parse(encoded), datetime.fromtimestamp(now, UTC)
    if moment >= ca.not_valid_after_utc:
        raise ValueError(f"the signer has expired: NotAfter={ca.not_valid_after_utc}")
    ends = moment + lasting - (_BACKDATE if lasting >= _SHORT_LIFETIME else timedelta())
    builder = (
        x509.CertificateBuilder()
        .subject_name(request.subject)
        .issuer_name(ca.subject)
        .public_key(request.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(moment - _BACKDATE)
        .not_valid_after(min(ends, ca.not_valid_after_utc))
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_key_usage(usages), critical=True)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(key.public_key()), critical=False)
    )
    purposes = _extended_key_usages(usages)
    if purposes:
        builder = builder.add_extension(x509.ExtendedKeyUsage(purposes), critical=False)
    try:
        names = request.extensions.get_extension_for_class(x509.SubjectAlternativeName)
        builder = builder.add_extension(names.value, critical=names.critical)
    except x509.ExtensionNotFound:
        pass
    signed = builder.sign(key, hashes.SHA256())
    return base64.b64encode(signed.public_bytes(serialization.Encoding.PEM)).decode()


def expiration(certificate: str) -> float | None:
    """When a certificate (base64 of PEM) ends; None if it cannot be read."""
    from cryptography import x509

    try:
        return x509.load_pem_x509_certificate(base64.b64decode(certificate)).not_valid_after_utc.timestamp()
    except ValueError:
        return None


def _key_usage(usages: Collection[str]) -> x509.KeyUsage:
    from cryptography import x509

    agreement = "key agreement" in usages
    return x509.KeyUsage(
        digital_signature="digital signature" in usages or "signing" in usages,
        content_commitment="content commitment" in usages,
        key_encipherment="key encipherment" in usages,
        data_encipherment="data encipherment" in usages,
        key_agreement=agreement,
        key_cert_sign="cert sign" in usages,
        crl_sign="crl sign" in usages,
        encipher_only=agreement and "encipher only" in usages,
        decipher_only=agreement and "decipher only" in usages,
    )


def _extended_key_usages(usages: Collection[str]) -> list[x509.ObjectIdentifier]:
    from cryptography.x509.oid import ExtendedKeyUsageOID, ObjectIdentifier

    known = {
        "any": ExtendedKeyUsageOID.ANY_EXTENDED_KEY_USAGE,
        "server auth": ExtendedKeyUsageOID.SERVER_AUTH,
        "client auth": ExtendedKeyUsageOID.CLIENT_AUTH,
        "code signing": ExtendedKeyUsageOID.CODE_SIGNING,
        "email protection": ExtendedKeyUsageOID.EMAIL_PROTECTION,
        "s/mime": ExtendedKeyUsageOID.EMAIL_PROTECTION,
        "ipsec end system": ObjectIdentifier("1.3.6.1.5.5.7.3.5"),
        "ipsec tunnel": ObjectIdentifier("1.3.6.1.5.5.7.3.6"),
        "ipsec user": ObjectIdentifier("1.3.6.1.5.5.7.3.7"),
        "timestamping": ExtendedKeyUsageOID.TIME_STAMPING,
        "ocsp signing": ExtendedKeyUsageOID.OCSP_SIGNING,
        "microsoft sgc": ObjectIdentifier("1.3.6.1.4.1.311.10.3.3"),
        "netscape sgc": ObjectIdentifier("2.16.840.1.113730.4.1"),
    }
    return list(dict.fromkeys(known[usage] for usage in sorted(usages) if usage in known))

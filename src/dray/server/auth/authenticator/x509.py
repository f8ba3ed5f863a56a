"""Client certificates: the subject names the user and their groups."""

from __future__ import annotations

import time
from collections.abc import Callable

from dray.api.errors import Unauthorized
from dray.api.user import UserInfo
from dray.server.endpoints.requests import Request


class ClientCertificates:
    """A certificate that TLS has verified against the cluster's CA: the last CN is the user (as Go reads it), each O a
    group.

    TLS looks at a certificate when a connection begins; one that ends later must not outlive itself.
    """

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._known: dict[bytes, tuple[UserInfo | None, float]] = {}

    def authenticate(self, request: Request) -> UserInfo | None:
        der = request.peer.certificate
        if not der:
            return None
        found = self._known.get(der)
        if found is None:
            if len(self._known) > 1000:
                self._known.clear()
            found = self._known[der] = _subject(der)
        user, ends = found
        if user is not None and self._clock() > ends:
            raise Unauthorized("Unauthorized")
        return user


def _subject(der: bytes) -> tuple[UserInfo | None, float]:
    """Whom a certificate stands for, and until when."""
    from cryptography import x509
    from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

    certificate = x509.load_der_x509_certificate(der)
    ends = certificate.not_valid_after_utc.timestamp()
    try:
        usages = certificate.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    except x509.ExtensionNotFound:
        return None, ends
    if ExtendedKeyUsageOID.CLIENT_AUTH not in usages:
        return None, ends
    names = certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
    groups = certificate.subject.get_attributes_for_oid(NameOID.ORGANIZATION_NAME)
    if not names:
        return None, ends
    return UserInfo(str(names[-1].value), groups=tuple(str(g.value) for g in groups)), ends

"""Credentials that are known from the start: the administrator's token, a token file, client certificates."""

from __future__ import annotations

import csv
import hashlib
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from dray.api.errors import Unauthorized
from dray.api.scheme.kinds import UserInfo
from dray.server.auth import MASTERS
from dray.server.auth.authenticator.bearertoken import TokenIdentity, authenticated, bearer
from dray.server.endpoints.requests import Request

ADMIN = UserInfo("admin", groups=(MASTERS,))


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode()).digest()


class StaticTokens:
    """Bearer tokens and the users they stand for."""

    def __init__(self, users: Mapping[str, UserInfo], *, audiences: Sequence[str] = ()) -> None:
        self._audiences = frozenset(audiences)
        # By digest: how long a look-up takes says nothing about a token.
        self._users = {_digest(token): authenticated(user) for token, user in users.items()}

    def authenticate(self, request: Request) -> UserInfo | None:
        token = bearer(request)
        if token is None:
            return None
        user = self._users.get(_digest(token))
        if user is None:
            raise Unauthorized("Unauthorized")
        return user

    def read(self, token: str, audiences: Sequence[str]) -> TokenIdentity | None:
        """Such a token is meant for this server, and for nobody else."""
        user = self._users.get(_digest(token))
        if user is None:
            return None
        return TokenIdentity(user, tuple([a for a in audiences if a in self._audiences]))


def read_token_file(path: Path) -> dict[str, UserInfo]:
    """Upstream's CSV: token, user name, user uid, and optionally a quoted list of groups."""
    users = {}
    with path.open(newline="", encoding="utf-8") as file:
        for number, row in enumerate(csv.reader(file, skipinitialspace=True), 1):
            if not row or row[0].startswith("#"):
                continue
            if len(row) < 3:
                raise ValueError(
                    f"{path}:{number}: token file must have at least 3 columns (token, name, uid)"
                )
            token, name, uid, *rest = (cell.strip() for cell in row)
            groups = tuple(g.strip() for g in rest[0].split(",") if g.strip()) if rest else ()
            if token:
                users[token] = UserInfo(name, uid, groups)
    return users


class ClientCertificates:
    """A certificate that TLS has verified against the cluster's CA: CN is the user, each O a group.

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
    return UserInfo(str(names[0].value), groups=tuple(str(g.value) for g in groups)), ends

"""Static bearer tokens: the administrator's token and those of a token file."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path

from dray.api.errors import Unauthorized
from dray.api.user import UserInfo
from dray.server.auth.authenticator.bearertoken import TokenIdentity, authenticated, bearer
from dray.server.auth.user import MASTERS
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
    import csv

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

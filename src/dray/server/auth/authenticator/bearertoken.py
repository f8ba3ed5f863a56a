"""Bearer tokens: the authenticators of tokens, and the identity that a token gives."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple, Protocol

from dray.api.errors import Unauthorized
from dray.api.user import UserInfo
from dray.server.auth.user import AUTHENTICATED
from dray.server.endpoints.requests import Request
from dray.wire.messages import Headers

_INVALID: Final = "invalid bearer token"


class TokenIdentity(NamedTuple):
    """Whose token it is, and for which of the wanted audiences it is good."""

    user: UserInfo
    audiences: tuple[str, ...]


class InvalidToken(Exception):
    """A token of a sort that the reader knows, but not a good one."""


class TokenAuthenticator(Protocol):
    """Reads one sort of token. None: this is none of that sort. ``TokenRefused``: it is, and it is wrong."""

    def read(self, token: str, audiences: Sequence[str]) -> TokenIdentity | None: ...


def bearer(request: Request) -> str | None:
    """The bearer token of a request, if it has one."""
    return request.headers.once(_bearer)


def _bearer(headers: Headers) -> str | None:
    parts = headers.get("authorization").strip().split(" ", 2)
    if len(parts) < 2 or parts[0].lower() != "bearer":
        return None
    return parts[1] or None


class BearerTokens:
    """Authenticates by the token of the Authorization header; asks each reader in turn."""

    def __init__(self, readers: Sequence[TokenAuthenticator], *, audiences: Sequence[str] = ()) -> None:
        self.audiences = tuple(audiences)  # of this server
        self._readers = tuple(readers)

    def authenticate(self, request: Request) -> UserInfo | None:
        token = bearer(request)
        if token is None:
            return None
        found = self.read(token, self.audiences)
        if isinstance(found, str):
            raise Unauthorized("Unauthorized")
        return found.user

    def read(self, token: str, audiences: Sequence[str]) -> TokenIdentity | str:
        """Whose token this is, or why it is nobody's."""
        problems = [_INVALID]
        for reader in self._readers:
            try:
                found = reader.read(token, audiences)
            except InvalidToken as e:
                problems.append(str(e))
                continue
            if found is not None and (found.audiences or not audiences):
                user = authenticated(found.user)
                return found if user is found.user else found._replace(user=user)
        return problems[0] if len(problems) == 1 else f"[{', '.join(problems)}]"


def authenticated(user: UserInfo) -> UserInfo:
    if AUTHENTICATED in user.groups:
        return user
    return user._replace(groups=(*user.groups, AUTHENTICATED))

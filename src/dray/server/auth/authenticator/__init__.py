"""Authenticators: each reads one sort of credential. The chain asks them in turn."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from dray.api.errors import Unauthorized
from dray.api.user import UserInfo
from dray.server.auth.user import ANONYMOUS, AUTHENTICATED, UNAUTHENTICATED
from dray.server.endpoints.requests import Request


class Authenticator(Protocol):
    """Reads one sort of credential. None: the request carries none of that sort. ``Unauthorized``: it is wrong."""

    def authenticate(self, request: Request) -> UserInfo | None: ...


class AuthenticatorChain:
    """The first authenticator that recognises its credential decides; without any, the caller is anonymous."""

    def __init__(self, authenticators: Sequence[Authenticator], *, anonymous: bool = True) -> None:
        self._authenticators = tuple(authenticators)
        self._anonymous = anonymous

    def authenticate(self, request: Request) -> UserInfo:
        refused: Unauthorized | None = None
        for authenticator in self._authenticators:
            try:
                user = authenticator.authenticate(request)
            except Unauthorized as e:
                refused = e
                continue
            if user is not None:
                if AUTHENTICATED in user.groups or UNAUTHENTICATED in user.groups:
                    return user
                return user._replace(groups=(*user.groups, AUTHENTICATED))
        if refused is not None or not self._anonymous:
            raise refused or Unauthorized("Unauthorized")
        return ANONYMOUS

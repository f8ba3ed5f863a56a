"""Bootstrap tokens: short-lived credentials with which a new node joins the cluster.

A token ``ID.SECRET`` is valid while kube-system has a matching Secret that allows authentication.
"""

from __future__ import annotations

import hmac
import re
from collections.abc import Sequence
from typing import Final

from dray.api import bootstraptoken
from dray.api.user import UserInfo
from dray.server.apiserver import APIServer
from dray.server.auth.authenticator.bearertoken import TokenIdentity

_GROUP: Final = re.compile(r"system:bootstrappers:[a-z0-9:-]{0,255}[a-z0-9]")


class BootstrapTokens:
    def __init__(self, api: APIServer, *, audiences: Sequence[str] = ()) -> None:
        self._api = api
        self._audiences = frozenset(audiences)

    def read(self, token: str, audiences: Sequence[str]) -> TokenIdentity | None:
        """Whose token this is. A wrong one is nobody's, whatever is wrong with it: the caller learns nothing."""
        claimed = bootstraptoken.parse(token)
        resource = self._api.resources.resource("", "secrets")
        if claimed is None or resource is None:
            return None
        document = resource.cache.get(f"{bootstraptoken.NAMESPACE}/{claimed.name}")
        if document is None or document.metadata.get("deletionTimestamp"):
            return None
        known = bootstraptoken.token_of(document.hub, usage="authentication", now=self._api.clock.seconds())
        if known is None or not hmac.compare_digest(known.secret.encode(), claimed.secret.encode()):
            return None
        groups = _groups(bootstraptoken.text(document.hub, "auth-extra-groups"))
        if groups is None:
            return None
        user = UserInfo(f"system:bootstrap:{claimed.id}", groups=groups)
        return TokenIdentity(user, tuple(a for a in audiences if a in self._audiences))


def _groups(listed: str) -> tuple[str, ...] | None:
    """The groups of a token; None where one of them is not for bootstrapping."""
    extra = [group for group in listed.split(",") if group]
    if not all(map(_GROUP.fullmatch, extra)):
        return None
    return tuple(sorted({bootstraptoken.GROUP, *extra}))

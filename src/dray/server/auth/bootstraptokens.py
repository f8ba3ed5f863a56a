"""Bootstrap tokens: short-lived secrets with which a new node introduces itself.

A token ``ID.SECRET`` is good while kube-system has a matching Secret that allows it to authenticate.
"""

from __future__ import annotations

import base64
import binascii
import hmac
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from dray.api import timefmt
from dray.api.kinds import UserInfo
from dray.server.api import API
from dray.server.auth.tokens import Identified

_TOKEN: Final = re.compile(r"([a-z0-9]{6})\.([a-z0-9]{16})")
_GROUP: Final = re.compile(r"system:bootstrappers:[a-z0-9:-]{0,255}[a-z0-9]")
_TYPE: Final = "bootstrap.kubernetes.io/token"
BOOTSTRAPPERS: Final = "system:bootstrappers"


class BootstrapTokens:
    def __init__(self, api: API, *, audiences: Sequence[str] = ()) -> None:
        self._api = api
        self._audiences = frozenset(audiences)

    def read(self, token: str, audiences: Sequence[str]) -> Identified | None:
        """Whose token this is. A wrong one is nobody's, whatever is wrong with it: the caller learns nothing."""
        match = _TOKEN.fullmatch(token)
        resource = self._api.resources.resource("", "secrets")
        if match is None or resource is None:
            return None
        id, secret = match.groups()
        document = resource.stored.get(f"kube-system/bootstrap-token-{id}")
        if document is None or document.hub.get("type") != _TYPE:
            return None
        data = document.hub.get("data") or {}
        if document.metadata.get("deletionTimestamp") or not hmac.compare_digest(
            _text(data, "token-secret").encode(), secret.encode()
        ):
            return None
        groups = _groups(_text(data, "auth-extra-groups"))
        if (
            _text(data, "token-id") != id
            or _text(data, "usage-bootstrap-authentication") != "true"
            or groups is None
            or self._expired(_text(data, "expiration"))
        ):
            return None
        user = UserInfo(f"system:bootstrap:{id}", groups=groups)
        return Identified(user, tuple(a for a in audiences if a in self._audiences))

    def _expired(self, when: str) -> bool:
        if not when:
            return False
        try:
            return timefmt.to_epoch(when) <= self._api.clock.seconds()
        except ValueError:
            return True


def _text(data: Mapping[str, Any], key: str) -> str:
    try:
        return base64.b64decode(data.get(key) or "", validate=True).decode()
    except (binascii.Error, UnicodeDecodeError):
        return ""


def _groups(listed: str) -> tuple[str, ...] | None:
    """The groups of a token; None where one of them is not for bootstrapping."""
    extra = [group for group in listed.split(",") if group]
    if not all(map(_GROUP.fullmatch, extra)):
        return None
    return tuple(sorted({BOOTSTRAPPERS, *extra}))

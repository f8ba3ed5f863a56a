"""Continue tokens: where the next page of a list begins, and at which revision. The format is upstream's."""

from __future__ import annotations

import base64
import binascii
import posixpath
from typing import NamedTuple

from dray.api.errors import BadRequest, Expired
from dray.api.schema import gojson
from dray.server.storage.codec import encode, parse

_VERSION = "meta.k8s.io/v1"
_INVALID = "continue key is not valid"


class ContinueToken(NamedTuple):
    start: str  # the first key of the page, below the cache's prefix
    revision: int  # -1: whatever is newest


def encode_continue(start: str, revision: int) -> str:
    token = encode({"v": _VERSION, "rv": revision, "start": start})
    return base64.urlsafe_b64encode(token).decode().rstrip("=")


def decode_continue(token: str) -> ContinueToken:
    try:
        data = _decode(token)
        found = _object(data)
    except _InvalidToken as e:
        raise BadRequest(f"invalid continue token: {e}") from None
    return found


class _InvalidToken(Exception):
    pass


def _decode(token: str) -> bytes:
    alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
    for at, c in enumerate(token):
        if c not in alphabet:
            raise _InvalidToken(f"{_INVALID}: illegal base64 data at input byte {at}")
    if len(token) % 4 == 1:
        raise _InvalidToken(f"{_INVALID}: illegal base64 data at input byte {len(token) - 1}")
    try:
        return base64.urlsafe_b64decode(token + "=" * (-len(token) % 4))
    except binascii.Error:
        raise _InvalidToken(f"{_INVALID}: illegal base64 data at input byte 0") from None


def _object(data: bytes) -> ContinueToken:
    try:
        body = parse(data)
    except Exception:
        # Go's scanner looks at bytes, one character each.
        raise _InvalidToken(f"{_INVALID}: {gojson.syntax_error(data.decode('latin-1'))}") from None
    if not isinstance(body, dict):
        raise _InvalidToken(_INVALID)
    version, revision, start = body.get("v", ""), body.get("rv", 0), body.get("start", "")
    if not isinstance(version, str) or not isinstance(revision, int) or not isinstance(start, str):
        raise _InvalidToken(_INVALID)
    if version != _VERSION:
        raise _InvalidToken(f"{_INVALID}: server does not recognize this encoded version {version}")
    if revision == 0:
        raise _InvalidToken(f"{_INVALID}: incorrect encoded start resourceVersion (version {_VERSION})")
    if not start:
        raise _InvalidToken(f"{_INVALID}: encoded start key empty (version {_VERSION})")
    rooted = start if start.startswith("/") else "/" + start
    # A key that climbs out of its folder could reach other kinds.
    if posixpath.normpath(rooted) != rooted or rooted.startswith("//"):
        raise _InvalidToken(f"{_INVALID}: {start}")
    return ContinueToken(rooted[1:], revision)


_TOO_OLD = (
    "The provided continue parameter is too old to display a consistent list result. "
    "You can start a new list without the continue parameter, or use the continue token in this response to retrieve "
    "the remainder of the results. Continuing with the provided token results in an inconsistent list - objects that "
    "were created, modified, or deleted between the time the first chunk was returned and now may show up in the list."
)


class ContinueExpired(Expired):
    """410 for a page whose revision is gone; carries a token that goes on from the newest state."""

    def __init__(self, start: str) -> None:
        super().__init__(_TOO_OLD)
        self._token = encode_continue(start, -1)

    def status(self) -> dict[str, object]:
        body = super().status()
        body["metadata"] = {"continue": self._token}
        return body

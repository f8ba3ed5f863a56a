"""Object metadata that the server sets or checks: uid, creation time, generated name, namespace, owner references."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, Literal

from dray.api.errors import BadRequest
from dray.api.objects import SUFFIX_LENGTH, SUFFIX_LETTERS

if TYPE_CHECKING:
    from dray.api.types.meta import ObjectMeta, OwnerReference

_MAX_NAME: Final = 63
_SERVERS_OWN: Final[
    tuple[
        Literal["creationTimestamp", "uid", "deletionTimestamp", "deletionGracePeriodSeconds", "selfLink"],
        ...,
    ]
] = (
    "creationTimestamp",
    "uid",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "selfLink",
)

_VARIANTS: Final = {digit: "89ab"[int(digit, 16) & 3] for digit in "0123456789abcdef"}

_BEFORE: Final = (
    ".metadata.ownerReferences contains duplicate entries; API server dedups owner references in 1.20+, and may "
    "reject such requests as early as 1.24; please fix your requests; duplicate UID(s) observed: "
)
_AFTER: Final = (
    ".metadata.ownerReferences contains duplicate entries after mutating admission happens; API server dedups owner "
    "references in 1.20+, and may reject such requests as early as 1.24; please fix your requests; "
    "duplicate UID(s) observed: "
)


def generate_name(base: str) -> str:
    """A name from a generateName prefix: five random characters, the prefix cut to leave room for them."""
    return base[: _MAX_NAME - SUFFIX_LENGTH] + _suffixes()


class _Suffixes:
    """Random suffixes of names. The kernel is asked for entropy a page at a time, not for each."""

    def __init__(self) -> None:
        self._letters = ""
        self._at = 0

    def __call__(self) -> str:
        start = self._at
        self._at = end = start + SUFFIX_LENGTH
        if end > len(self._letters):
            self._letters = os.urandom(4096).translate(_LETTERS, _UNEVEN).decode()
            self._at = end = SUFFIX_LENGTH
            start = 0
        return self._letters[start:end]


#: Bytes as letters. Some bytes are left out, so that every letter stands for as many as the others.
_LETTERS: Final = bytes(ord(SUFFIX_LETTERS[byte % len(SUFFIX_LETTERS)]) for byte in range(256))
_UNEVEN: Final = bytes(range(256 - 256 % len(SUFFIX_LETTERS), 256))
_suffixes: Final = _Suffixes()


class _Uids:
    """Random version 4 UUIDs as text. The kernel is asked for entropy a page at a time, not for each."""

    def __init__(self) -> None:
        self._digits = ""
        self._at = 0

    def __call__(self) -> str:
        at = self._at
        if at >= len(self._digits):
            self._digits, at = os.urandom(4096).hex(), 0
        self._at = at + 32
        digits = self._digits[at : at + 32]
        variant = _VARIANTS[digits[16]]
        return f"{digits[:8]}-{digits[8:12]}-4{digits[13:16]}-{variant}{digits[17:20]}-{digits[20:]}"


_uids = _Uids()


def wipe_system_fields(metadata: ObjectMeta) -> None:
    """Forget what a client may not choose on creation."""
    for key in _SERVERS_OWN:
        if key in metadata:
            del metadata[key]


def fill_system_fields(metadata: ObjectMeta, now: str) -> None:
    metadata["creationTimestamp"] = now
    metadata["uid"] = _uids()


def dedup_owner_references(metadata: ObjectMeta, warn: Callable[[str], None], *, admitted: bool) -> None:
    owners = metadata.get("ownerReferences")
    if not owners or len(owners) < 2 or len({owner.get("uid") for owner in owners}) == len(owners):
        return
    kept: dict[frozenset[tuple[str, object]], OwnerReference] = {}
    duplicates = []
    for owner in owners:
        content = frozenset(owner.items())
        if content in kept:
            duplicates.append(owner.get("uid", ""))
        else:
            kept[content] = owner
    if duplicates:
        warn((_AFTER if admitted else _BEFORE) + ", ".join(duplicates))
        metadata["ownerReferences"] = list(kept.values())


def ensure_namespace(metadata: ObjectMeta, namespace: str) -> None:
    """Set the namespace of the URL where the object has none; an object that names another one is refused."""
    stated = metadata.get("namespace", "")
    if stated == namespace:
        return
    if not stated:
        metadata["namespace"] = namespace
    elif not namespace:
        del metadata["namespace"]
    else:
        raise BadRequest(
            "the namespace of the provided object does not match the namespace sent on the request"
        )


def check_name(metadata: ObjectMeta, expected: str) -> None:
    """Refuse an object whose name is not the one in the URL."""
    name = metadata.get("name", "")
    if not name:
        words = "was undeterminable: name must be provided"
        raise BadRequest(f"the name of the object ({expected} based on URL) {words}")
    if name != expected:
        raise BadRequest(f"the name of the object ({name}) does not match the name on the URL ({expected})")

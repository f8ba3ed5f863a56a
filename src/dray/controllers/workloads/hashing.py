"""Short names for templates: hashes, spelt without vowels so that they spell no words."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any, Final

import msgspec

Document = Mapping[str, Any]
_SAFE: Final = "bcdfghjklmnpqrstvwxz2456789"
_OFFSET: Final = 2166136261
_PRIME: Final = 16777619
_MASK: Final = 0xFFFFFFFF
_encode = msgspec.json.Encoder(order="deterministic").encode


def safe(number: int) -> str:
    return "".join(_SAFE[ord(digit) % len(_SAFE)] for digit in str(number))


def fnv1(data: bytes) -> int:
    """FNV-1 with 32 bits."""
    found = _OFFSET
    for byte in data:
        found = (found * _PRIME & _MASK) ^ byte
    return found


def template_hash(template: Document, collisions: int = 0) -> str:
    """A short name for a pod template; collisions draw another one."""
    digest = hashlib.blake2s(_encode(template) + collisions.to_bytes(4, "big"), digest_size=4).digest()
    return safe(int.from_bytes(digest, "big"))

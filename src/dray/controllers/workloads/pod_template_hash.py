"""Hashes of pod templates for names. They are written without vowels, so that they form no words."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from dray.api.release import Release
from dray.controllers.workloads import go_dump

if TYPE_CHECKING:
    from dray.api.types.core import PodTemplateSpec


_SAFE: Final = "bcdfghjklmnpqrstvwxz2456789"
_OFFSET: Final = 2166136261
_PRIME: Final = 16777619
_MASK: Final = 0xFFFFFFFF


def safe_encode(number: int) -> str:
    return "".join(_SAFE[ord(digit) % len(_SAFE)] for digit in str(number))


def fnv1(data: bytes) -> int:
    """FNV-1 with 32 bits."""
    found = _OFFSET
    for byte in data:
        found = (found * _PRIME & _MASK) ^ byte
    return found


def fnv1a(data: bytes) -> int:
    """FNV-1a with 32 bits."""
    found = _OFFSET
    for byte in data:
        found = (found ^ byte) * _PRIME & _MASK
    return found


def compute_hash(template: PodTemplateSpec, collisions: int | None, release: Release) -> str:
    """A short name for a pod template, the one it has upstream; collisions draw another one."""
    count = b"" if collisions is None else collisions.to_bytes(8, "little")
    return safe_encode(fnv1a(go_dump.dump_for_hash(template, release).encode() + count))

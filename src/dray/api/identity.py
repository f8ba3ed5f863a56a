"""Names of things: a pool, a device in it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

Document = Mapping[str, Any]


class PoolID(NamedTuple):
    driver: str
    pool: str

    def __str__(self) -> str:
        return f"{self.driver}/{self.pool}"


class DeviceID(NamedTuple):
    driver: str
    pool: str
    device: str

    def __str__(self) -> str:
        return f"{self.driver}/{self.pool}/{self.device}"

    @property
    def pool_id(self) -> PoolID:
        return PoolID(self.driver, self.pool)


def object_name(document: Document) -> str:
    """``namespace/name``, or the name alone for what has no namespace."""
    metadata = document.get("metadata") or {}
    name: str = metadata.get("name") or ""
    namespace = metadata.get("namespace")
    return f"{namespace}/{name}" if namespace else name

"""From what a user writes after ``--store`` to a store that is open."""

from __future__ import annotations

import ipaddress
import logging
from pathlib import Path

from dray.store.interface import Store, StoreError

_log = logging.getLogger(__name__)

_FORMS = "memory, sqlite, sqlite:PATH or etcd://HOST:PORT[,HOST:PORT...]"


async def open_store(spec: str, *, data: Path) -> Store:
    """Open the store that ``spec`` names. A SQLite file without a path is ``store.db`` below ``data``."""
    name, colon, rest = spec.partition(":")
    match name:
        case "memory" if not colon:
            from dray.store.memory import MemoryStore

            return MemoryStore()
        case "sqlite" if not colon or rest:
            from dray.store.sqlite import SqliteStore

            return await SqliteStore.open(Path(rest) if colon else data / "store.db")
        case "etcd" if rest.startswith("//"):
            from dray.store.etcd import EtcdStore

            endpoints = [endpoint for endpoint in rest.removeprefix("//").rstrip("/").split(",") if endpoint]
            if endpoints:
                if far := [endpoint for endpoint in endpoints if not _is_local(endpoint)]:
                    _log.warning(
                        "etcd at %s is reached without TLS: whoever can reach it or listen in controls the "
                        "cluster, so keep that network private, or put a TLS tunnel on this machine before it",
                        ",".join(far),
                    )
                return await EtcdStore.open(endpoints)
    raise StoreError(f"{spec!r} names no store: it is one of {_FORMS}")


def _is_local(endpoint: str) -> bool:
    """Whether what is sent to HOST:PORT stays on this machine."""
    host = endpoint.rpartition(":")[0].strip("[]") or endpoint
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"

"""From what a user writes after ``--store`` to a store that is open."""

from __future__ import annotations

import ipaddress
import logging
from pathlib import Path

from dray.store.access import EtcdAccess
from dray.store.interface import Store, StoreError

_log = logging.getLogger(__name__)

_FORMS = "memory, sqlite, sqlite:PATH or etcd://HOST:PORT[,HOST:PORT...]"


async def open_store(spec: str, *, data: Path, etcd: EtcdAccess | None = None, on_disk: str = "") -> Store:
    """Open the store that ``spec`` names. A SQLite file without a path is ``store.db`` below ``data``; what is below the
    prefix ``on_disk`` stays in the file and is not held in memory."""
    name, colon, rest = spec.partition(":")
    match name:
        case "memory" if not colon:
            from dray.store.memory import MemoryStore

            return MemoryStore()
        case "sqlite" if not colon or rest:
            from dray.store.sqlite import SqliteStore

            return await SqliteStore.open(Path(rest) if colon else data / "store.db", on_disk=on_disk)
        case "etcd" if rest.startswith("//"):
            from dray.store.etcd import EtcdStore

            endpoints = [endpoint for endpoint in rest.removeprefix("//").rstrip("/").split(",") if endpoint]
            if endpoints:
                tls = etcd is not None and etcd.tls
                if not tls and (far := [endpoint for endpoint in endpoints if not _is_local(endpoint)]):
                    _log.warning(
                        "etcd at %s is reached without TLS: whoever can reach it or listen in controls the "
                        "cluster; name an authority with --etcd-cafile, or keep that network private",
                        ",".join(far),
                    )
                return await EtcdStore.open(endpoints, access=etcd)
    raise StoreError(f"{spec!r} names no store: it is one of {_FORMS}")


def _is_local(endpoint: str) -> bool:
    """Whether what is sent to HOST:PORT stays on this machine."""
    host = endpoint.rpartition(":")[0].strip("[]") or endpoint
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"

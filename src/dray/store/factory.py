"""From what a user writes after ``--store`` to a store that is open."""

from __future__ import annotations

from pathlib import Path

from dray.store.interface import Store, StoreError

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
                return await EtcdStore.open(endpoints)
    raise StoreError(f"{spec!r} names no store: it is one of {_FORMS}")

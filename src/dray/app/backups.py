"""Backups of a running cluster or of its store, and how they are restored."""

from __future__ import annotations

import os
import time
from collections.abc import AsyncIterator
from pathlib import Path

from dray.api.scheme.registry import kinds
from dray.app import datadir, shared_pki, store_check
from dray.app.options import OptionError
from dray.app.store_check import StoreReport
from dray.client.client import Client
from dray.server.registry.resources import prefix_of
from dray.server.routes.backup import PATH
from dray.store import backup, open_store
from dray.store.access import EtcdAccess
from dray.store.backup import Header


async def from_server(file: Path, client: Client) -> Header:
    """Ask an API server for a backup."""
    async with client.transport.stream(PATH) as pieces:
        return await _save(file, pieces)


async def from_store(file: Path, spec: str, data: Path, etcd: EtcdAccess | None = None) -> Header:
    async with store_check.opened(spec, data, etcd) as store:
        return await _save(file, backup.pieces(store, clock=time.time))


async def _save(file: Path, pieces: AsyncIterator[bytes]) -> Header:
    """Write a backup aside, check it, and give it its name."""
    aside = file.with_name(f".{file.name}.part")
    try:
        handle = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        with os.fdopen(handle, "wb") as written:
            async for piece in pieces:
                written.write(piece)
            written.flush()
            os.fsync(written.fileno())
        header, _ = backup.read(aside)
        aside.replace(file)
    except OSError as e:
        raise OptionError(f"{file}: {e.strerror}") from e
    finally:
        aside.unlink(missing_ok=True)
    return header


async def restore(file: Path, spec: str, data: Path, etcd: EtcdAccess | None = None) -> StoreReport:
    header, entries = backup.read(file)
    lives = {prefix_of(kind): float(kind.ttl) for kind in kinds() if kind.ttl is not None}
    match spec.partition(":"):
        case ("sqlite", _, named):
            data.mkdir(parents=True, exist_ok=True, mode=0o700)
            with datadir.locked(data):
                now = time.time()
                expiries = {prefix: now + seconds for prefix, seconds in lives.items()}
                backup.restore_sqlite(Path(named or data / "store.db"), header, entries, expiries=expiries)
        case ("etcd", _, _):
            store = await open_store(spec, data=data, etcd=etcd)
            try:
                await backup.restore_store(store, entries, lives=lives)
            finally:
                await store.close()
        case _:
            raise OptionError(f"--store {spec}: a backup is restored into sqlite[:PATH] or etcd://HOST:PORT")
    async with store_check.opened(spec, data, etcd) as store:
        await shared_pki.adopt(store, data / "pki")
        return await store_check.check(store)

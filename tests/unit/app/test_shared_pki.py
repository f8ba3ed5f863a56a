"""The keys that the servers of one store share."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from dray.app import shared_pki
from dray.app.options import OptionError
from dray.store.memory import MemoryStore


class Shared(MemoryStore):
    """As etcd is: what it holds counts, and not what one server has."""

    shared = True


async def test_whoever_writes_to_the_store_names_no_files_on_the_machines_of_servers(tmp_path: Path) -> None:
    store, folder = Shared(), tmp_path / "data" / "pki"
    await shared_pki.adopt(store, tmp_path / "first")
    entry = await store.get(shared_pki.KEY)
    assert entry is not None
    keys = msgspec.json.decode(entry.value)
    forged = {**keys, "../../escaped": "x", str(tmp_path / "absolute"): "x"}
    await store.update(shared_pki.KEY, msgspec.json.encode(forged), expected=entry.mod_revision)
    await shared_pki.adopt(store, folder)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["data", "first"]
    assert {p.name: p.read_text() for p in folder.iterdir()} == keys


async def test_keys_that_cannot_be_read_are_named(tmp_path: Path) -> None:
    store = Shared()
    await store.create(shared_pki.KEY, b'{"ca.crt": 3}')
    with pytest.raises(OptionError, match="does not hold a cluster's keys"):
        await shared_pki.adopt(store, tmp_path / "pki")

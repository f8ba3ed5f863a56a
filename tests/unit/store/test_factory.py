from __future__ import annotations

import subprocess
import sys

import pytest

from dray.store import open_store
from dray.store.etcd import EtcdStore
from dray.store.interface import StoreError, StoreUnavailable
from dray.store.memory import MemoryStore
from dray.store.sqlite import SqliteStore


async def test_a_specification_names_a_store(tmp_path):
    memory = await open_store("memory", data=tmp_path)
    default = await open_store("sqlite", data=tmp_path / "below" / "it")
    chosen = await open_store(f"sqlite:{tmp_path}/mine.db", data=tmp_path)
    assert isinstance(memory, MemoryStore)
    assert isinstance(default, SqliteStore) and (tmp_path / "below" / "it" / "store.db").exists()
    assert isinstance(chosen, SqliteStore) and (tmp_path / "mine.db").exists()
    for store in (memory, default, chosen):
        await store.close()


@pytest.mark.parametrize("spec", ["", "postgres", "memory:x", "sqlite:", "etcd", "etcd:localhost", "etcd://"])
async def test_anything_else_is_refused_with_what_would_do(spec, tmp_path):
    with pytest.raises(StoreError, match="etcd://HOST:PORT"):
        await open_store(spec, data=tmp_path)


async def test_an_etcd_that_is_not_there_is_named(tmp_path, monkeypatch):
    from dray.store.etcd_api import connection

    monkeypatch.setattr(connection, "RETRY_SECONDS", 0.0)
    with pytest.raises(StoreUnavailable, match=r"127\.0\.0\.1:1"):
        await open_store("etcd://127.0.0.1:1", data=tmp_path)


def test_the_embedded_stores_do_not_import_grpc():
    code = "import sys, dray.store.memory, dray.store.sqlite; sys.exit('grpc' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


async def test_an_etcd_on_another_machine_is_reached_without_tls_but_not_silently(
    tmp_path, monkeypatch, caplog
):
    async def opened(cls: type[EtcdStore], endpoints: list[str], access: object) -> list[str]:
        return endpoints

    monkeypatch.setattr(EtcdStore, "open", classmethod(opened))
    await open_store("etcd://127.0.0.1:2379,[::1]:2379,localhost:2379", data=tmp_path)
    assert not caplog.records
    await open_store("etcd://127.0.0.1:2379,192.0.2.7:2379,etcd.example.com:2379", data=tmp_path)
    [said] = [record.getMessage() for record in caplog.records]
    assert said.startswith("etcd at 192.0.2.7:2379,etcd.example.com:2379 is reached without TLS")

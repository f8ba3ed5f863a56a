"""The API server beside others on one store: what it has not heard of yet does not make its answers wrong."""

from __future__ import annotations

import json
from typing import Any

import pytest

from dray.api.errors import NotFound
from dray.store.memory import MemoryStore
from tests.support.apiserver import make_server

PATH = "/api/v1/namespaces/default/configmaps"


class LaggingStore(MemoryStore):
    """A store of several servers: what others have written arrives when somebody waits for it, not before."""

    def __init__(self) -> None:
        super().__init__()
        self.on_its_way: list[tuple[str, dict[str, Any] | None]] = []

    @property
    def shared(self) -> bool:
        return True

    async def wait_until_fresh(self, revision: int = 0) -> int:
        while self.on_its_way:
            key, document = self.on_its_way.pop()
            if document is None:
                current = await self.get(key)
                assert current is not None
                await self.delete(key, expected=current.mod_revision)
            else:
                await self.create(key, json.dumps(document).encode())
        return await super().wait_until_fresh(revision)


def config_map(value: str) -> dict[str, Any]:
    metadata = {"name": "c", "namespace": "default", "uid": "u", "creationTimestamp": "2026-01-01T00:00:00Z"}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"value": value}}


async def test_an_object_that_another_server_has_just_created_can_be_updated() -> None:
    store = LaggingStore()
    root = (await make_server(store=store)).as_user()
    store.on_its_way = [("/registry/configmaps/default/c", config_map("theirs"))]
    answer = await root.request("PUT", f"{PATH}/c", body=config_map("ours"))
    assert answer.status == 200
    assert (await root.request("GET", f"{PATH}/c")).body["data"] == {"value": "ours"}


async def test_a_name_that_another_server_has_just_freed_can_be_taken() -> None:
    store = LaggingStore()
    root = (await make_server(store=store)).as_user()
    assert (await root.request("POST", PATH, body=config_map("first"))).status == 201
    store.on_its_way = [("/registry/configmaps/default/c", None)]
    assert (await root.request("POST", PATH, body=config_map("second"))).status == 201


async def test_a_refusal_stands_when_nothing_was_missed() -> None:
    root = (await make_server(store=LaggingStore())).as_user()
    with pytest.raises(NotFound):
        await root.request("PUT", f"{PATH}/c", body=config_map("ours"))

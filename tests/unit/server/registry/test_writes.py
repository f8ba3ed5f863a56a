"""Conditional writes of one object."""

from __future__ import annotations

from dray.store.memory import MemoryStore
from tests.support.apiserver import make_server

MAPS = "/api/v1/namespaces/default/configmaps"


class Interrupted(MemoryStore):
    """Lets somebody else write the object before the writer hears that its own write is done."""

    armed = False

    async def create(self, key: str, value: bytes, *, ttl: float | None = None) -> int:
        return await self._interrupt(key, value, await super().create(key, value, ttl=ttl))

    async def update(self, key: str, value: bytes, *, expected: int, ttl: float | None = None) -> int:
        return await self._interrupt(key, value, await super().update(key, value, expected=expected, ttl=ttl))

    async def _interrupt(self, key: str, value: bytes, revision: int) -> int:
        if self.armed:
            await super().update(key, value.replace(b"mine", b"else"), expected=revision)
        return revision


async def test_a_writer_is_answered_with_what_it_wrote_although_somebody_has_changed_it_since():
    store = Interrupted()
    client = (await make_server(store=store)).as_user()
    store.armed = True
    made = (
        await client.request("POST", MAPS, body={"metadata": {"name": "m"}, "data": {"by": "mine"}})
    ).object
    assert made["data"] == {"by": "mine"}
    body = {"metadata": {"name": "m"}, "data": {"by": "mine too"}}
    changed = (await client.request("PUT", f"{MAPS}/m", body=body)).object
    found = (await client.request("GET", f"{MAPS}/m")).object
    assert (changed["data"], found["data"]) == ({"by": "mine too"}, {"by": "else too"})
    revisions = [int(one["metadata"]["resourceVersion"]) for one in (made, changed, found)]
    assert revisions == sorted(set(revisions))

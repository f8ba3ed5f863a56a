"""Writing again after a conflict."""

from __future__ import annotations

import pytest

from dray.api.errors import Conflict
from dray.backoff import Backoff
from dray.client.retry import retry_on_conflict

PODS_PATH = "/api/v1/namespaces/a/pods"


async def test_a_conflict_is_retried_with_a_fresh_look(server):
    tries = []

    async def write() -> str:
        tries.append(None)
        if len(tries) < 3:
            raise Conflict("changed")
        return "done"

    assert await retry_on_conflict(write, backoff=Backoff(initial=0)) == "done"
    tries.clear()
    with pytest.raises(Conflict):
        await retry_on_conflict(write, attempts=2, backoff=Backoff(initial=0))
    assert len(tries) == 2

"""Who may read one object by name may list and watch it by a field selector; nobody may delete it that way."""

from __future__ import annotations

from pathlib import Path

import pytest

from dray.api.errors import Forbidden
from tests.support.authorization import guarded, rule

PATH = "/api/v1/namespaces/default/configmaps"
ONE = {"fieldSelector": "metadata.name=one"}


async def test_a_field_selector_names_the_object_for_reading_only(tmp_path: Path) -> None:
    async with guarded(tmp_path) as server:
        await server.post(PATH, {"metadata": {"name": "one"}})
        await server.grant("u", rule("list,watch,deletecollection", "configmaps", names="one"))
        client = server.as_user("u")
        assert len((await client.request("GET", PATH, query=ONE)).object["items"]) == 1
        with pytest.raises(Forbidden):
            await client.request("DELETE", PATH, query=ONE)

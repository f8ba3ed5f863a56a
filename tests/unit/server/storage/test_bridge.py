"""Classic and modern claims side by side."""

from __future__ import annotations

import pytest

from dray.api.errors import AlreadyExists, NotFound
from dray.api.groups.resource.classic import bridge as classic
from tests.support.apiserver import make_server

NEW = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims"
OLD = "/apis/resource.k8s.io/v1alpha2/namespaces/default/resourceclaims"
MODERN = {"spec": {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "c"}}]}}}
CLASSIC = {"spec": {"resourceClassName": "c"}}


async def test_a_classic_claim_shows_through_the_modern_version():
    client = (await make_server()).as_user()
    made = (await client.request("POST", OLD, body={"metadata": {"name": "o"}, **CLASSIC})).object
    shown = (await client.request("GET", f"{NEW}/o")).object
    assert shown["metadata"]["uid"] == made["metadata"]["uid"]
    assert shown["metadata"]["resourceVersion"] == made["metadata"]["resourceVersion"]
    assert shown["spec"] == {"devices": {"requests": None}}
    assert shown["metadata"]["annotations"] == {classic.GENERATION: "v1alpha2"}


async def test_lists_and_watches_have_both_generations():
    client = (await make_server()).as_user()
    version = (await client.request("GET", NEW)).object["metadata"]["resourceVersion"]
    await client.request("POST", NEW, body={"metadata": {"name": "n"}, **MODERN})
    await client.request("POST", OLD, body={"metadata": {"name": "o"}, **CLASSIC})
    await client.request("DELETE", f"{OLD}/o")
    await client.request("POST", OLD, body={"metadata": {"name": "p"}, **CLASSIC})
    listed = (await client.request("GET", NEW)).object["items"]
    assert [i["metadata"]["name"] for i in listed] == ["n", "p"]
    old = (await client.request("GET", OLD)).object["items"]
    assert [i["metadata"]["name"] for i in old] == ["p"]
    seen: list[tuple[str, str]] = []
    async with client.watch(NEW, query={"resourceVersion": version}) as stream:
        async for batch in stream:
            seen += [(e.type, e.object["metadata"]["name"]) for e in batch]
            if len(seen) == 4:
                break
    assert seen == [("ADDED", "n"), ("ADDED", "o"), ("DELETED", "o"), ("ADDED", "p")]


async def test_a_name_belongs_to_one_generation_only():
    client = (await make_server()).as_user()
    await client.request("POST", NEW, body={"metadata": {"name": "n"}, **MODERN})
    await client.request("POST", OLD, body={"metadata": {"name": "o"}, **CLASSIC})
    for path, name, body in ((OLD, "n", CLASSIC), (NEW, "o", MODERN)):
        with pytest.raises(AlreadyExists):
            await client.request("POST", path, body={"metadata": {"name": name}, **body})


async def test_what_is_written_to_the_view_reaches_the_original():
    client = (await make_server()).as_user()
    await client.request("POST", OLD, body={"metadata": {"name": "o"}, **CLASSIC})
    labels = {"metadata": {"labels": {"l": "1"}}}
    await client.request("PATCH", f"{NEW}/o", body=labels, content_type="application/merge-patch+json")
    original = (await client.request("GET", f"{OLD}/o")).object
    assert original["metadata"]["labels"] == {"l": "1"}
    assert original["spec"]["resourceClassName"] == "c"
    assert classic.GENERATION not in (original["metadata"].get("annotations") or {})
    await client.request("DELETE", f"{NEW}/o")
    with pytest.raises(NotFound):
        await client.request("GET", f"{OLD}/o")

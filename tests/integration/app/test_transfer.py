"""All objects of one cluster, made in another through the API."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import pytest

from dray.api.errors import NotFound
from dray.app import transfer
from dray.client.client import Client
from tests.integration.app.test_backup import CLAIMS, EARLIER, MAPS, listed
from tests.support import several_servers
from tests.support.several_servers import servers
from tests.support.wait import wait_for

CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
CARDS = "/apis/example.com/v1/namespaces/default/cards"


async def fill(client: Client) -> None:
    post = client.transport.request
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    definition = {
        "metadata": {"name": "cards.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": {"plural": "cards", "kind": "Card", "singular": "card", "listKind": "CardList"},
            "versions": [version],
        },
    }
    await post("POST", CRDS, body=definition)
    owner = (await listed(client, MAPS))["settings"]
    reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": "settings", "uid": owner["metadata"]["uid"]}
    for name, uid in (("owned", reference["uid"]), ("orphan", "of-nobody")):
        metadata: Any = {"name": name, "ownerReferences": [{**reference, "uid": uid}]}
        await post("POST", MAPS, body={"metadata": metadata})
    pod = (await post("GET", "/api/v1/namespaces/default/pods/pod")).object
    body = {"status": {"reservedFor": [{"resource": "pods", "name": "pod", "uid": pod["metadata"]["uid"]}]}}
    await post("PATCH", f"{CLAIMS}/whole/status", body=body, content_type="application/merge-patch+json")


async def test_everything_arrives_and_refers_to_what_it_did(tmp_path: Path):
    data = tmp_path / "from" / "server-0"
    data.mkdir(parents=True)
    (data / "store.db").write_bytes(gzip.decompress(EARLIER.read_bytes()))
    # The fixture's pod was written without an account.
    quiet = {"disable_plugins": ("ServiceAccount",)}
    async with (
        servers(tmp_path / "from", "sqlite", count=1, **quiet) as (server,),
        several_servers.client(server) as client,
    ):
        await fill(client)
        card = {"apiVersion": "example.com/v1", "kind": "Card", "metadata": {"name": "c"}, "colour": "red"}
        await create_once_served(client, card)
        items = [document async for document in transfer.documents(client)]
    async with (
        servers(tmp_path / "to", "memory", count=1, **quiet) as (server,),
        several_servers.client(server) as client,
    ):
        outcome = await transfer.Importer(client).run(items)
        assert outcome.problems == []
        assert outcome.there > 0, "every cluster has some of them"
        claims = await listed(client, CLAIMS)
        assert claims["whole"]["status"]["allocation"]["devices"]["results"][0]["device"] == "gpu-0"
        pod = (await client.transport.request("GET", "/api/v1/namespaces/default/pods/pod")).object
        assert [who["uid"] for who in claims["whole"]["status"]["reservedFor"]] == [pod["metadata"]["uid"]]
        maps = await listed(client, MAPS)
        (owner,) = maps["owned"]["metadata"]["ownerReferences"]
        assert owner["uid"] == maps["settings"]["metadata"]["uid"]
        assert "ownerReferences" not in maps["orphan"]["metadata"]
        classic = "/apis/resource.k8s.io/v1alpha2/namespaces/default/resourceclaims/classic"
        assert (await client.transport.request("GET", classic)).object["spec"]["resourceClassName"] == "cats"
        assert (await listed(client, CARDS))["c"]["colour"] == "red"
        again = await transfer.Importer(client).run(items)
        assert (again.created, again.problems) == (0, [])


async def create_once_served(client: Client, card: dict[str, Any]) -> None:
    async def created() -> bool:
        try:
            await client.transport.request("POST", CARDS, body=card)
        except NotFound:
            return False
        return True

    await wait_for("the custom kind to be served", created)


@pytest.mark.parametrize(
    "content",
    [
        [], "text", 5, {"kind": 5}, {"kind": "List", "items": [1]}, {"kind": "List", "items": [{}]}, {"kind": "List", "items": None},
        {"kind": [1], "apiVersion": "v1", "metadata": {}}, {"kind": "Pod", "metadata": {"name": "p"}}, {"kind": "Pod", "apiVersion": "v1", "metadata": {"name": 1}},
        {"kind": "Pod", "apiVersion": "v1", "metadata": {"ownerReferences": [1]}},
    ],
)  # fmt: skip
def test_what_is_no_list_of_objects_is_refused(content: Any):
    with pytest.raises(ValueError, match="not a list of objects"):
        transfer.items_of(content)

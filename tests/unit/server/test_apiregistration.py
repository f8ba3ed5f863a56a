"""What the server says about the groups that it serves itself."""

from __future__ import annotations

import pytest

from dray.api.errors import MethodNotAllowed
from dray.server import apiregistration
from tests.support.apiserver import make_server

SERVICES = "/apis/apiregistration.k8s.io/v1/apiservices"


async def test_every_served_version_is_a_local_api_service():
    server = await make_server(served={"namespaces", "pods", "deployments", "apiservices"})
    apiregistration.install(server.api)
    client = server.as_user()
    items = (await client.request("GET", SERVICES)).body["items"]
    assert {item["metadata"]["name"] for item in items} >= {"v1.", "v1.apps", "v1.apiregistration.k8s.io"}
    apps = (await client.request("GET", f"{SERVICES}/v1.apps")).body
    assert apps["spec"] == {
        "group": "apps",
        "version": "v1",
        "groupPriorityMinimum": 17800,
        "versionPriority": 15,
    }
    assert apps["status"]["conditions"][0]["reason"] == "Local"
    with pytest.raises(MethodNotAllowed):
        await client.request("DELETE", f"{SERVICES}/v1.apps")


async def test_groups_of_custom_resources_come_and_go():
    from dray.api.groups.apiextensions import custom_kinds

    server = await make_server(served={"namespaces", "apiservices"})
    apiregistration.install(server.api)
    client = server.as_user()
    definition = {
        "metadata": {"name": "cats.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Cluster",
            "names": {"plural": "cats", "kind": "Cat"},
            "versions": [{"name": "v1", "served": True, "storage": True}],
        },
    }
    await server.api.resources.add_custom(custom_kinds(definition))  # type: ignore[arg-type]
    found = (await client.request("GET", f"{SERVICES}/v1.example.com")).body
    assert found["metadata"]["labels"] == {"kube-aggregator.kubernetes.io/automanaged": "true"}
    await server.api.resources.remove("example.com", "cats")
    names = [i["metadata"]["name"] for i in (await client.request("GET", SERVICES)).body["items"]]
    assert "v1.example.com" not in names

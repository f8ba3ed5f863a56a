from __future__ import annotations

import pytest

from dray.api.errors import NotFound
from dray.client.client import Client
from dray.client.discovery import Discovery
from dray.client.resources import PODS, RESOURCE_CLAIMS, Resource
from dray.client.transport import Reply

VERSIONS = {
    "/api/v1": [("pods", "Pod", True), ("pods/log", "Pod", True), ("nodes", "Node", False)],
    "/apis/resource.k8s.io/v1beta1": [("resourceclaims", "ResourceClaim", True)],
    "/apis/cats.example.com/v1": [("claimparameters", "ClaimParameters", True)],
}


class Server:
    def __init__(self) -> None:
        self.asked: list[str] = []

    async def request(self, method, path, **_):
        self.asked.append(path)
        if path not in VERSIONS:
            raise NotFound("the server could not find the requested resource")
        resources = [{"name": n, "kind": k, "namespaced": ns} for n, k, ns in VERSIONS[path]]
        return Reply(200, {}, {"kind": "APIResourceList", "resources": resources})


@pytest.fixture
def discovery():
    server = Server()
    found = Discovery(Client(server))  # type: ignore[arg-type]
    found.server = server
    return found


async def test_a_kind_known_by_name_is_found(discovery):
    assert await discovery.find("v1", "Pod") == PODS
    assert await discovery.find("cats.example.com/v1", "ClaimParameters") == Resource(
        "cats.example.com", "v1", "claimparameters", "ClaimParameters"
    )
    assert await discovery.find("cats.example.com/v1", "Dog") is None
    assert await discovery.find("dogs.example.com/v1", "Dog") is None


async def test_the_newest_version_served_is_chosen(discovery):
    assert await discovery.first_served(RESOURCE_CLAIMS, ["v1", "v1beta2", "v1beta1"]) == RESOURCE_CLAIMS.at(
        "v1beta1"
    )
    assert await discovery.first_served(RESOURCE_CLAIMS, ["v1"]) is None
    assert not await discovery.serves(RESOURCE_CLAIMS)


async def test_answers_are_kept_until_forgotten(discovery):
    for _ in range(3):
        await discovery.serves(RESOURCE_CLAIMS)
    assert len(discovery.server.asked) == 1
    discovery.invalidate()
    await discovery.serves(RESOURCE_CLAIMS)
    assert len(discovery.server.asked) == 2

"""What a server serves, however it tells."""

from __future__ import annotations

from typing import Any, ClassVar

from dray.api.errors import NotFound, ServiceUnavailable
from dray.client.client import Client
from dray.client.resources import Resource
from dray.client.transport import Reply
from dray.controllers.discovery import APIResource, APIResourceList, discover, preferred_resources

ALL = frozenset({"get", "list", "watch", "delete"})


def offer(group: str, version: str, *plurals: str) -> APIResourceList:
    return APIResourceList(
        group, version, [APIResource(Resource(group, version, p, p.title()), ALL) for p in plurals]
    )


def test_a_kind_counts_once_in_the_first_version_that_has_it():
    found = preferred_resources([offer("g", "v1", "cats"), offer("g", "v1beta1", "cats", "dogs")])
    assert [(s.resource.plural, s.resource.version) for s in found.resources] == [
        ("cats", "v1"),
        ("dogs", "v1beta1"),
    ]


def test_a_kind_is_found_in_every_version_it_has():
    found = preferred_resources([offer("g", "v1", "cats"), offer("g", "v1beta1", "cats")])
    cats = Resource("g", "v2", "cats", "Cats")
    assert found.first_served(cats, ("v2", "v1beta1", "v1")) == cats.at("v1beta1")
    assert found.first_served(cats, ("v2",)) is None
    assert found.kinds["g/v1beta1", "Cats"] == cats.at("v1beta1")


def test_groups_that_do_not_answer_are_named():
    found = preferred_resources([offer("", "v1", "pods"), APIResourceList("metrics", "v1", None)])
    assert found.failed == ("metrics/v1",)
    assert found.problem == (
        "unable to retrieve the complete list of server APIs: metrics/v1: stale GroupVersion discovery: metrics/v1"
    )


class OldServer:
    """One that knows the legacy form only."""

    pages: ClassVar[dict[str, Any]] = {
        "/api": {"kind": "APIVersions", "versions": ["v1"]},
        "/api/v1": {
            "resources": [
                {"name": "pods", "kind": "Pod", "namespaced": True, "verbs": ["get", "delete"]},
                {"name": "pods/status", "kind": "Pod", "namespaced": True, "verbs": ["get"]},
            ]
        },
        "/apis": {
            "kind": "APIGroupList",
            "groups": [
                {
                    "name": "g",
                    "versions": [{"version": "v1"}, {"version": "v2"}, {"version": "v3"}],
                    "preferredVersion": {"version": "v2"},
                }
            ],
        },
        "/apis/g/v1": {"resources": [{"name": "cats", "kind": "Cat", "namespaced": True, "verbs": ["get"]}]},
        "/apis/g/v2": {"resources": [{"name": "cats", "kind": "Cat", "namespaced": True, "verbs": ["get"]}]},
    }

    async def request(self, method: str, path: str, **options: Any) -> Reply:
        if path == "/apis/g/v3":
            raise ServiceUnavailable("down")
        if path not in self.pages:
            raise NotFound(path)
        return Reply(200, {}, self.pages[path])


async def test_an_old_server_is_asked_piece_by_piece():
    found = await discover(Client(OldServer()))
    assert [str(s.resource) for s in found.resources] == ["pods", "cats.g"]
    assert found.resources[1].resource.version == "v2"
    assert found.failed == ("g/v3",)

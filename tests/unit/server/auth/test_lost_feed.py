"""What is derived from objects survives a store that loses track of changes."""

from __future__ import annotations

from pathlib import Path

import pytest

from dray.api.errors import Forbidden
from dray.server.auth.nodes import Graph
from tests.support.authorization import guarded, rule

PODS = "/api/v1/namespaces/default/pods"


async def test_a_grant_that_went_while_the_feed_was_lost_counts_no_longer(tmp_path: Path) -> None:
    async with guarded(tmp_path) as server:
        await server.grant("alice", rule("list", "pods"))
        alice = server.as_user("alice")
        assert (await alice.request("GET", PODS)).status == 200
        bindings = server.api.resource("rbac.authorization.k8s.io", "rolebindings").cache
        bindings.close()
        known = bindings.documents["default/given"].revision
        await server.api.store.delete(bindings.prefix + "default/given", expected=known)
        assert (await alice.request("GET", PODS)).status == 200, "nobody has told the server yet"
        await bindings.load()
        with pytest.raises(Forbidden):
            await alice.request("GET", PODS)


async def test_pods_that_came_and_went_meanwhile_are_known_by_their_nodes(tmp_path: Path) -> None:
    async with guarded(tmp_path, disable_plugins=("ServiceAccount",)) as server:
        spec = {"nodeName": "n1", "containers": [{"name": "c", "image": "registry.example.com/c:1"}]}
        await server.post(PODS, {"metadata": {"name": "gone"}, "spec": spec})
        relations = Graph(server.api.resources)
        assert relations.related("n1", "pods", "default", "gone")
        pods = server.api.resource("", "pods").cache
        pods.close()
        known = pods.documents["default/gone"].revision
        await server.api.store.delete(pods.prefix + "default/gone", expected=known)
        await pods.load()
        assert not relations.related("n1", "pods", "default", "gone")

"""News for the garbage collector from an informer that others have, too: what it passes over changes nothing."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from dray.client.informers import Informer
from dray.client.resources import CONFIGMAPS, CUSTOM_RESOURCE_DEFINITIONS
from dray.controllers.garbagecollector.graph import Graph
from dray.controllers.garbagecollector.monitors import Monitors

versions = st.fixed_dictionaries(
    {"uid": st.sampled_from(["1", "2"])},
    optional={
        "owners": st.lists(st.sampled_from("ab"), unique=True),
        "labels": st.dictionaries(st.just("l"), st.sampled_from("xy")),
        "deleting": st.lists(st.sampled_from(["orphan", "foregroundDeletion"]), unique=True),
    },
)


def obj(name: str, version: dict[str, Any]) -> dict[str, Any]:
    metadata = {"namespace": "n", "name": name, "uid": f"{name}-{version['uid']}"}
    if version.get("owners"):
        metadata["ownerReferences"] = [
            {"apiVersion": "v1", "kind": "ConfigMap", "name": o, "uid": f"{o}-1"} for o in version["owners"]
        ]
    if "labels" in version:
        metadata["labels"] = version["labels"]
    if "deleting" in version:
        metadata |= {"deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": version["deleting"]}
    return {"metadata": metadata}


class Source:
    """An informer with somebody's interest in it, without a server."""

    def __init__(self, resource) -> None:
        self.informer = Informer(None, resource)
        self.reported: list[Any] = []
        self.graph = Graph()
        informers = SimpleNamespace(existing=lambda wanted: self.informer)
        self.monitors = Monitors(None, informers, self.graph, self.reported.extend)
        self.monitors.sync({"it": resource}, None)

    def tell(self, kind: str, document: dict[str, Any]) -> None:
        self.informer._apply([SimpleNamespace(type=kind, object=document)])


def drawn(graph: Graph) -> dict[str, Any]:
    return {
        n.identity.uid: (n.identity, n.owners, n.virtual, n.deleting, n.orphaning, sorted(n.dependents))
        for n in graph.nodes()
    }


@given(st.lists(st.tuples(st.sampled_from("abc"), versions), max_size=12))
def test_updates_that_are_passed_over_would_have_changed_nothing(steps):
    source, plain, reported = Source(CONFIGMAPS), Graph(), []
    known: dict[str, dict[str, Any]] = {}
    for name, version in steps:
        old, new = known.get(name), obj(name, version)
        same = old is not None and old["metadata"]["uid"] == new["metadata"]["uid"]
        if same and "deletionTimestamp" in old["metadata"] and "deletionTimestamp" not in new["metadata"]:
            continue  # no deletion is ever taken back
        known[name] = new
        source.tell("MODIFIED", new)
        if old is not None and not same:
            reported += plain.deleted(old["metadata"]["uid"])
        reported += plain.observed("ConfigMap", "v1", new["metadata"])
        assert drawn(source.graph) == drawn(plain)
        assert source.reported == reported


async def test_every_change_of_a_definition_is_news():
    source = Source(CUSTOM_RESOURCE_DEFINITIONS)
    changed: asyncio.Event = source.monitors.crds_changed
    document = obj("widgets.example.com", {"uid": "1"})
    for kind in ("ADDED", "MODIFIED"):
        changed.clear()
        source.tell(kind, document)
        assert changed.is_set()

"""Who owns whom, and what deserves a look."""

from __future__ import annotations

import time

from hypothesis import given
from hypothesis import strategies as st

from dray.controllers.garbagecollector.graph import (
    AttemptToDelete,
    AttemptToOrphan,
    Graph,
    InvalidOwnerNamespace,
    ObjectReference,
)


def reference(name: str, *, uid: str = "", kind: str = "ConfigMap", blocking: bool = False) -> dict:
    return {
        "apiVersion": "v1",
        "kind": kind,
        "name": name,
        "uid": uid or name,
        "blockOwnerDeletion": blocking,
    }


def meta(name: str, *owners: dict, namespace: str = "ns", uid: str = "", **more) -> dict:
    return {"name": name, "namespace": namespace, "uid": uid or name, "ownerReferences": list(owners), **more}


def identity(name: str, *, kind: str = "ConfigMap", namespace: str = "ns", uid: str = "") -> ObjectReference:
    return ObjectReference(kind, "v1", namespace, name, uid or name)


def see(graph: Graph, metadata: dict, kind: str = "ConfigMap"):
    return list(graph.observed(kind, "v1", metadata))


def test_a_known_owner_is_nothing_to_look_at():
    graph = Graph()
    assert see(graph, meta("owner")) == []
    assert see(graph, meta("child", reference("owner"))) == []
    assert see(graph, meta("child", reference("owner"))) == []


def test_an_owner_never_seen_is_looked_for():
    graph = Graph()
    assert see(graph, meta("child", reference("owner"))) == [AttemptToDelete("owner")]
    assert graph.get("owner").virtual
    assert see(graph, meta("owner")) == []
    assert not graph.get("owner").virtual


def test_when_the_owner_goes_its_dependents_are_looked_at():
    graph = Graph()
    see(graph, meta("owner"))
    see(graph, meta("a", reference("owner")))
    see(graph, meta("b", reference("owner")))
    assert list(graph.deleted("owner")) == [AttemptToDelete("a"), AttemptToDelete("b")]
    assert graph.is_absent(identity("owner"))
    assert graph.deleted("owner") == ()


def test_an_owner_that_is_missing_from_the_server_is_like_one_that_goes():
    graph = Graph()
    see(graph, meta("child", reference("owner")))
    assert list(graph.absent(identity("owner"))) == [AttemptToDelete("child")]
    assert graph.get("owner") is None


def test_an_owner_in_another_namespace_is_told_of():
    graph = Graph()
    see(graph, meta("owner", namespace="other"))
    first, second = see(graph, meta("child", reference("owner")))
    assert isinstance(first, InvalidOwnerNamespace)
    assert first.dependent == identity("child")
    assert second == AttemptToDelete("child")


def test_an_owner_that_shows_up_in_another_namespace_is_told_of():
    graph = Graph()
    see(graph, meta("child", reference("owner")))
    first, second = see(graph, meta("owner", namespace="other"))
    assert isinstance(first, InvalidOwnerNamespace)
    assert second == AttemptToDelete("child")


def test_a_cluster_scoped_owner_may_own_anything():
    graph = Graph()
    see(graph, meta("node", namespace=""), kind="Node")
    assert see(graph, meta("child", reference("node", kind="Node"))) == []


def test_dependents_that_disagree_about_their_owner_are_judged_one_by_one():
    graph = Graph()
    see(graph, meta("right", reference("owner")))
    see(graph, meta("wrong", reference("other-name", uid="owner")))
    # The name that "right" uses is not there: it has lost its owner. Perhaps the other name is the true one.
    assert list(graph.absent(identity("owner"))) == [
        AttemptToDelete("right"),
        AttemptToDelete("owner", rate_limited=True),
    ]
    assert graph.get("owner").identity == identity("other-name", uid="owner")
    assert graph.is_absent(identity("owner"))
    # It is not, either, and comes round to the first again, which is known to be absent.
    assert list(graph.absent(identity("other-name", uid="owner"))) == [
        AttemptToDelete("wrong"), AttemptToDelete("owner", rate_limited=True),
    ]  # fmt: skip


def test_a_wrong_name_does_not_remove_an_owner_that_was_seen():
    graph = Graph()
    see(graph, meta("owner"))
    assert see(graph, meta("child", reference("misspelt", uid="owner"))) == [AttemptToDelete("child")]
    assert list(graph.absent(identity("misspelt", uid="owner"))) == [AttemptToDelete("child")]
    assert graph.get("owner") is not None


def test_a_deletion_in_the_foreground_begins_once():
    graph = Graph()
    see(graph, meta("owner"))
    see(graph, meta("child", reference("owner")))
    deleting = meta("owner", deletionTimestamp="now", finalizers=["foregroundDeletion"])
    assert see(graph, deleting) == [AttemptToDelete("child"), AttemptToDelete("owner")]
    assert see(graph, deleting) == []
    assert graph.get("owner").deleting_dependents


def test_orphaning_comes_before_deletion_in_the_foreground():
    graph = Graph()
    both = meta("owner", deletionTimestamp="now", finalizers=["foregroundDeletion", "orphan"])
    assert see(graph, both) == [AttemptToOrphan("owner")]


def test_only_blocking_references_hold_an_owner():
    graph = Graph()
    see(graph, meta("owner"))
    see(graph, meta("free", reference("owner")))
    see(graph, meta("held", reference("owner", blocking=True)))
    assert [n.identity.name for n in graph.blocking(graph.get("owner"))] == ["held"]
    assert see(graph, meta("held", reference("owner"))) == [AttemptToDelete("owner")]
    assert graph.blocking(graph.get("owner")) == []


def test_the_last_dependent_to_go_lets_a_waiting_owner_be_looked_at():
    graph = Graph()
    see(graph, meta("owner", deletionTimestamp="now", finalizers=["foregroundDeletion"]))
    see(graph, meta("child", reference("owner", blocking=True)))
    assert list(graph.deleted("child")) == [AttemptToDelete("owner")]


def test_references_that_change_are_followed():
    graph = Graph()
    see(graph, meta("a"))
    see(graph, meta("b"))
    see(graph, meta("child", reference("a")))
    see(graph, meta("child", reference("b")))
    assert list(graph.deleted("a")) == []
    assert list(graph.deleted("b")) == [AttemptToDelete("child")]


names = st.sampled_from("abcde")
news = st.one_of(
    st.tuples(
        st.just("seen"), names, st.lists(names, max_size=3), st.sampled_from(["n", "m"]), st.booleans()
    ),
    st.tuples(st.just("gone"), names),
    st.tuples(st.just("missing"), names, st.sampled_from(["n", "m"])),
)


@given(st.lists(news, max_size=40))
def test_whatever_happens_dependents_exist_and_name_their_owner(events):
    graph = Graph()
    for event in events:
        match event:
            case ("seen", name, owners, namespace, deleting):
                extra = {"deletionTimestamp": "now", "finalizers": ["foregroundDeletion"]} if deleting else {}
                see(graph, meta(name, *map(reference, owners), namespace=namespace, **extra))
            case ("gone", name):
                graph.deleted(name)
            case ("missing", name, namespace):
                graph.absent(identity(name, namespace=namespace))
        for node in graph.nodes():
            for dependent in graph.dependents(node):
                assert node.identity.uid in {o.uid for o in dependent.owners}
            assert not node.virtual or list(node.dependents), (
                "a virtual owner without dependents is forgotten"
            )


def test_thousands_of_owners_of_one_object_are_looked_up_not_looked_through():
    graph, count = Graph(), 20_000
    started = time.process_time()
    effects = see(graph, meta("child", *(reference(f"o-{i}") for i in range(count))))
    for effect in effects:
        graph.absent(graph.get(effect.uid).identity)
    assert len(effects) == count and len(graph) == 1
    assert time.process_time() - started < 5  # 30 s where each owner goes through all references

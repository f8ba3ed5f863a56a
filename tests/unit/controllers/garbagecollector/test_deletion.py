"""What becomes of an object, given how its owners are."""

from __future__ import annotations

import pytest

from dray.controllers.garbagecollector.deletion import (
    Delete,
    Keep,
    OwnerState,
    RemoveOwners,
    decide,
    owner_state,
)
from dray.controllers.garbagecollector.patch import unblocked, without_finalizer, without_owners_merge

SOLID, ABSENT, WAITING = OwnerState.SOLID, OwnerState.ABSENT, OwnerState.WAITING


@pytest.mark.parametrize(
    ("owners", "dependents", "decision"),
    [
        ([], False, Keep()),
        ([SOLID], False, Keep()),
        ([SOLID, SOLID], True, Keep()),
        ([SOLID, ABSENT], False, RemoveOwners(("1",))),
        ([WAITING, SOLID, ABSENT], True, RemoveOwners(("0", "2"))),
        ([ABSENT], False, Delete("Background")),
        ([ABSENT, ABSENT], True, Delete("Background")),
        ([WAITING], False, Delete("Background")),
        ([WAITING], True, Delete("Foreground")),
        ([ABSENT, WAITING], True, Delete("Foreground")),
    ],
)
def test_an_object_lives_as_long_as_one_owner_does(owners, dependents, decision):
    states = [(str(i), state) for i, state in enumerate(owners)]
    assert decide({}, states, has_dependents=dependents, dependent_waits=False) == decision


def test_a_circle_of_waiting_objects_is_broken():
    decision = decide({}, [("o", WAITING)], has_dependents=True, dependent_waits=True)
    assert decision == Delete("Foreground", unblock=True)


@pytest.mark.parametrize(
    ("finalizers", "policy"),
    [
        (["orphan", "foregroundDeletion"], "Orphan"),
        (["foregroundDeletion"], "Foreground"),
        (["x"], "Background"),
    ],
)
def test_finalizers_of_the_object_say_how_it_is_deleted(finalizers, policy):
    decision = decide(
        {"finalizers": finalizers}, [("o", ABSENT)], has_dependents=False, dependent_waits=False
    )
    assert decision == Delete(policy)


def test_an_owner_waits_only_while_it_is_deleted_in_the_foreground():
    assert owner_state({"finalizers": ["foregroundDeletion"]}) is SOLID
    assert owner_state({"deletionTimestamp": "now", "finalizers": ["x"]}) is SOLID
    assert owner_state({"deletionTimestamp": "now", "finalizers": ["foregroundDeletion"]}) is WAITING


def test_patches_without_merge_keys_are_bound_to_a_version():
    metadata = {"resourceVersion": "7", "uid": "u", "ownerReferences": [{"uid": "a"}, {"uid": "b"}]}
    assert without_owners_merge(metadata, ["a"]) == {
        "metadata": {"resourceVersion": "7", "ownerReferences": [{"uid": "b"}]}
    }
    assert without_owners_merge(metadata, ["a", "b"])["metadata"]["ownerReferences"] is None


def test_a_finalizer_that_is_not_there_needs_no_patch():
    metadata = {"resourceVersion": "7", "finalizers": ["a", "b"]}
    assert without_finalizer(metadata, "c") is None
    assert without_finalizer(metadata, "a") == {"metadata": {"resourceVersion": "7", "finalizers": ["b"]}}


def test_only_blocking_references_are_unblocked():
    references = [{"uid": "a", "blockOwnerDeletion": True}, {"uid": "b"}]
    assert unblocked({"uid": "u", "ownerReferences": references}) == {
        "metadata": {"uid": "u", "ownerReferences": [{"uid": "a", "blockOwnerDeletion": False}]}
    }

"""Reading pods, and objects in general."""

from __future__ import annotations

import pytest

from dray.api import objects, pods

DELETED = {"deletionTimestamp": "2026-01-01T00:00:00Z"}


@pytest.mark.parametrize(
    ("metadata", "node", "phase", "terminal", "active", "done"),
    [
        ({}, "", None, False, True, False),
        ({}, "n", "Running", False, True, False),
        ({}, "n", "Succeeded", True, False, True),
        (DELETED, "n", "Failed", True, False, True),
        (DELETED, "n", "Running", False, False, False),
        (DELETED, "", None, False, False, True),
    ],
)
def test_when_a_pod_is_terminal_active_or_done_with_its_claims(metadata, node, phase, terminal, active, done):
    pod = {"metadata": metadata, "spec": {"nodeName": node}, "status": {"phase": phase} if phase else {}}
    assert (pods.is_terminal(pod), pods.is_active(pod), pods.is_done(pod)) == (terminal, active, done)
    assert pods.phase(pod) == (phase or "Pending")


def test_the_grace_period_of_a_deletion_wins():
    assert pods.grace_period({"metadata": {}, "spec": {}}) == 30
    assert pods.grace_period({"metadata": {}, "spec": {"terminationGracePeriodSeconds": 5}}) == 5
    deleted = {"metadata": {"deletionGracePeriodSeconds": 0}, "spec": {"terminationGracePeriodSeconds": 5}}
    assert pods.grace_period(deleted) == 0


def test_containers_come_in_the_order_in_which_they_start():
    spec = {
        "containers": [{"name": "c"}],
        "initContainers": [{"name": "i"}],
        "ephemeralContainers": [{"name": "e"}],
    }
    assert [c["name"] for c in pods.containers(spec)] == ["i", "c"]
    assert [c["name"] for c in pods.all_containers(spec)] == ["i", "c", "e"]


def test_conditions_are_found_by_their_type():
    pod = {"status": {"conditions": [{"type": "A", "status": "False"}, {"type": "Ready", "status": "True"}]}}
    assert pods.is_ready(pod)
    assert pods.condition(pod, "A") == {"type": "A", "status": "False"}
    assert not pods.is_ready({})
    assert not objects.is_condition_true(pod["status"]["conditions"], "A")


def test_a_clone_shares_nothing_that_could_change():
    value = {"a": [{"b": 1}], "c": "d"}
    copied = objects.clone(value)
    assert copied == value
    copied["a"][0]["b"] = 2
    assert value["a"][0]["b"] == 1

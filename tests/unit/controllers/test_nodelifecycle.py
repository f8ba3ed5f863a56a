"""Conditions, taints and labels of nodes."""

from __future__ import annotations

from typing import Any

from dray.controllers import nodelifecycle

Object = dict[str, Any]
UNREACHABLE = {"key": nodelifecycle.UNREACHABLE, "effect": "NoExecute", "timeAdded": "1970-01-01T00:01:40Z"}


def node(ready: str = "True", *, name: str = "n", taints: list[Object] | None = None, **spec: Any) -> Object:
    conditions = [{"type": "Ready", "status": ready, "lastTransitionTime": "x"}] if ready else []
    metadata = {"name": name, "creationTimestamp": "made"}
    return {
        "metadata": metadata,
        "spec": {"taints": taints or [], **spec},
        "status": {"conditions": conditions},
    }


def keys(taints: list[Object] | None) -> set[tuple[str, str]]:
    assert taints is not None
    return {(t["key"].removeprefix("node.kubernetes.io/"), t["effect"]) for t in taints}


def test_a_silent_node_knows_nothing_any_more():
    conditions = {c["type"]: c for c in nodelifecycle.unknown_conditions(node(), now="now") or ()}
    assert set(conditions) == {"Ready", "MemoryPressure", "DiskPressure", "PIDPressure"}
    assert conditions["Ready"]["reason"] == "NodeStatusUnknown"
    assert conditions["PIDPressure"]["reason"] == "NodeStatusNeverUpdated"
    silent = node()
    silent["status"]["conditions"] = list(conditions.values())
    assert nodelifecycle.unknown_conditions(silent, now="later") is None


def test_taints_follow_conditions_and_leave_others_alone():
    own = {"key": "dedicated", "effect": "NoExecute"}
    away = nodelifecycle.reconciled_taints(node("Unknown", taints=[own]), evict=True, now="t")
    assert keys(away) == {
        ("unreachable", "NoSchedule"),
        ("unreachable", "NoExecute"),
        ("dedicated", "NoExecute"),
    }
    waiting = nodelifecycle.reconciled_taints(node("Unknown"), evict=False, now="t")
    assert keys(waiting) == {("unreachable", "NoSchedule")}
    assert nodelifecycle.reconciled_taints(node("True", taints=away), evict=True, now="t") == [own]
    assert nodelifecycle.reconciled_taints(node("True", taints=[own]), evict=True, now="t") is None
    cordoned = nodelifecycle.reconciled_taints(node(unschedulable=True), evict=False, now="t")
    assert keys(cordoned) == {("unschedulable", "NoSchedule")}
    swapped = nodelifecycle.reconciled_taints(node("False", taints=[UNREACHABLE]), evict=True, now="t")
    assert keys(swapped) == {("not-ready", "NoSchedule"), ("not-ready", "NoExecute")}


def test_the_more_nodes_are_ill_the_slower_pods_are_driven_off():
    def zone(ready: int, ill: int) -> list[Object]:
        return [node()] * ready + [node("Unknown")] * ill

    assert nodelifecycle.eviction_rate(zone(8, 2), any_ready=True) == nodelifecycle.EVICTION_RATE
    assert nodelifecycle.eviction_rate(zone(0, 3), any_ready=True) == nodelifecycle.EVICTION_RATE, (
        "another zone is well: this one is lost"
    )
    assert nodelifecycle.eviction_rate(zone(4, 6), any_ready=True) == 0.0
    assert nodelifecycle.eviction_rate(zone(40, 60), any_ready=True) == nodelifecycle.SECONDARY_EVICTION_RATE
    assert nodelifecycle.eviction_rate(zone(0, 3), any_ready=False) == 0.0, "it is rather us who are cut off"


def test_old_labels_follow_new_ones():
    labelled = node()
    labelled["metadata"]["labels"] = {"kubernetes.io/os": "linux", "beta.kubernetes.io/os": "plan9"}
    assert nodelifecycle.reconciled_labels(labelled) == {"beta.kubernetes.io/os": "linux"}

"""How many pods a PodDisruptionBudget allows to evict."""

from __future__ import annotations

from typing import Any

import pytest

from dray.controllers import disruption

Object = dict[str, Any]


def pod(name: str, *, ready: bool = True, ip: str = "10.0.0.1", **labels: str) -> Object:
    condition = {"type": "Ready", "status": "True" if ready else "False"}
    metadata = {"name": name, "namespace": "default", "uid": name, "labels": labels}
    status = {"phase": "Running", "podIP": ip, "conditions": [condition]}
    return {"metadata": metadata, "spec": {"containers": [{"name": "c"}]}, "status": status}


def budget(**spec: Any) -> Object:
    metadata = {"name": "b", "namespace": "default", "generation": 2}
    return {"metadata": metadata, "spec": {"selector": {}, **spec}}


@pytest.mark.parametrize(
    ("spec", "scale", "wanted"),
    [
        ({"minAvailable": 2}, None, (3, 2)),
        ({"minAvailable": "50%"}, 5, (5, 3)),
        ({"maxUnavailable": 1}, 5, (5, 4)),
        ({"maxUnavailable": "30%"}, 5, (5, 3)),
        ({"maxUnavailable": 9}, 5, (5, 0)),
        ({}, None, (3, 0)),
    ],
)
def test_budgets_ask_for_so_many_healthy_pods(spec: Object, scale: int | None, wanted: tuple[int, int]):
    pods = [pod("a"), pod("b"), pod("c")]
    assert disruption.expected_pods(budget(**spec), pods, scale) == disruption.ExpectedPods(*wanted)


def test_a_pod_whose_eviction_was_granted_is_not_counted_until_that_is_stale():
    one = budget(minAvailable=1)
    one["status"] = {"disruptedPods": {"a": "1970-01-01T00:00:00Z"}}
    pods, wanted = [pod("a"), pod("b"), pod("c", ready=False)], disruption.ExpectedPods(3, 1)
    soon = disruption.status_of(one, pods, wanted, now=60.0)
    assert (soon["currentHealthy"], soon["disruptionsAllowed"], soon["disruptedPods"]) == (
        1,
        0,
        {"a": "1970-01-01T00:00:00Z"},
    )
    assert soon["conditions"][0]["reason"] == "InsufficientPods"
    late = disruption.status_of(one, pods, wanted, now=600.0)
    assert (late["currentHealthy"], late["disruptionsAllowed"]) == (2, 1) and "disruptedPods" not in late


def test_nothing_may_be_evicted_by_unknown_numbers():
    failed = disruption.status_of(
        budget(), [pod("a")], disruption.ExpectedPods(0, 0), now=0.0, problem="no owner"
    )
    assert failed["disruptionsAllowed"] == 0 and failed["conditions"][0]["reason"] == "SyncFailed"
    nobody = disruption.status_of(budget(), [], disruption.ExpectedPods(0, 0), now=0.0)
    assert nobody["disruptionsAllowed"] == 0

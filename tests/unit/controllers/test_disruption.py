"""Budgets, endpoints and aggregated roles: what the numbers and lists should be."""

from __future__ import annotations

from typing import Any

import pytest

from dray.controllers import clusterroleaggregation, disruption, endpoints, endpointslice

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


def service(**spec: Any) -> Object:
    ports = [{"port": 80, "protocol": "TCP"}]
    return {
        "metadata": {"name": "s", "namespace": "default"},
        "spec": {"selector": {"app": "x"}, "ports": ports, **spec},
    }


def test_services_lead_to_running_pods_with_their_labels_and_an_address():
    ended = pod("ended", app="x")
    ended["status"]["phase"] = "Failed"
    pods = [pod("b", app="x"), pod("a", app="x"), pod("c", app="y"), pod("d", ip="", app="x"), ended]
    assert [p["metadata"]["name"] for p in endpointslice.service_pods(service(), pods)] == ["a", "b"]
    assert endpointslice.service_pods(service(selector=None), pods) == []


def test_slices_hold_a_hundred_endpoints_of_one_family_each():
    pods = [pod(f"p{i:03}", ip=f"10.0.{i // 250}.{i % 250}", app="x") for i in range(150)]
    made = endpointslice.slices_for(service(), pods)
    assert [len(s["endpoints"]) for s in made] == [100, 50]
    assert {s["addressType"] for s in made} == {"IPv4"}
    assert [s["endpoints"] for s in endpointslice.slices_for(service(), [])] == [[]]


def test_pods_that_are_not_ready_are_listed_apart():
    (subset,) = endpoints.subsets_for(service(), [pod("a"), pod("b", ready=False, ip="10.0.0.2")])
    assert [a["ip"] for a in subset["addresses"]] == ["10.0.0.1"]
    assert [a["ip"] for a in subset["notReadyAddresses"]] == ["10.0.0.2"]
    eager = service(publishNotReadyAddresses=True)
    assert len(endpoints.subsets_for(eager, [pod("b", ready=False)])[0]["addresses"]) == 1


def test_aggregated_rules_come_in_order_once_and_never_from_the_role_itself():
    def role(name: str, *resources: str, **labels: str) -> Object:
        return {
            "metadata": {"name": name, "labels": labels},
            "rules": [{"resources": [r]} for r in resources],
        }

    selectors = [{"matchLabels": {"late": "y"}}, {"matchLabels": {"part": "y"}}]
    whole = {**role("whole", "old", part="y"), "aggregationRule": {"clusterRoleSelectors": selectors}}
    others = [
        role("b", "pods", "nodes", part="y"),
        role("a", "nodes", part="y"),
        role("z", "jobs", late="y"),
        whole,
    ]
    assert [r["resources"][0] for r in clusterroleaggregation.aggregated_rules(whole, others)] == [
        "jobs",
        "nodes",
        "pods",
    ]

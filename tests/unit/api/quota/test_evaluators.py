"""What quotas charge for pods, services and volume claims, and which objects they are about."""

from __future__ import annotations

from typing import Any

import pytest

from dray.api.quota import evaluators

Object = dict[str, Any]


def pod(*containers: Object, phase: str = "Running", **spec: Any) -> Object:
    named = [{"name": f"c{i}", "resources": resources} for i, resources in enumerate(containers)]
    return {"metadata": {"name": "p"}, "spec": {"containers": named, **spec}, "status": {"phase": phase}}


def asks(requests: Object, limits: Object | None = None) -> Object:
    return {"requests": requests, "limits": limits or {}}


def told(usage: evaluators.Usage) -> dict[str, str]:
    return {name: str(amount) for name, amount in usage.items()}


def test_a_pod_is_charged_for_what_its_containers_ask_together():
    one = pod(
        asks({"cpu": "500m", "memory": "1Gi"}, {"cpu": "1"}), asks({"cpu": "250m", "example.com/gpu": "2"})
    )
    assert told(evaluators.pod_usage(one, now=0)) == {
        "count/pods": "1",
        "pods": "1",
        "cpu": "750m",
        "requests.cpu": "750m",
        "limits.cpu": "1",
        "memory": "1Gi",
        "requests.memory": "1Gi",
        "requests.example.com/gpu": "2",
    }


def test_init_containers_count_where_they_need_more_and_sidecars_always():
    init = [
        {"name": "sidecar", "restartPolicy": "Always", "resources": asks({"cpu": "100m"})},
        {"name": "init", "resources": asks({"cpu": "2"})},
    ]
    one = pod(asks({"cpu": "500m"}), initContainers=init, overhead={"cpu": "10m"})
    assert told(evaluators.pod_usage(one, now=0))["cpu"] == "2110m"


def test_what_the_whole_pod_asks_for_replaces_the_sum():
    one = pod(asks({"cpu": "500m", "memory": "1Gi"}), resources=asks({"cpu": "3"}))
    usage = told(evaluators.pod_usage(one, now=0))
    assert (usage["cpu"], usage["memory"]) == ("3", "1Gi")


def test_a_resize_is_charged_at_its_larger_end():
    one = pod(asks({"cpu": "1"}))
    one["status"]["containerStatuses"] = [
        {"name": "c0", "resources": {"requests": {"cpu": "3"}}, "allocatedResources": {"cpu": "2"}}
    ]
    assert told(evaluators.pod_usage(one, now=0))["cpu"] == "3"


def test_pods_that_have_ended_count_only_as_objects():
    assert told(evaluators.pod_usage(pod(asks({"cpu": "1"}), phase="Succeeded"), now=0)) == {
        "count/pods": "1"
    }
    stuck = pod(asks({"cpu": "1"}))
    stuck["metadata"] |= {"deletionTimestamp": "1970-01-01T00:00:10Z", "deletionGracePeriodSeconds": 30}
    assert evaluators.is_charged(stuck, now=40) and not evaluators.is_charged(stuck, now=41)


@pytest.mark.parametrize(
    ("spec", "node_ports", "balancers"),
    [
        ({"type": "ClusterIP", "ports": [{"port": 1}]}, "0", "0"),
        ({"type": "NodePort", "ports": [{"port": 1}, {"port": 2}]}, "2", "0"),
        ({"type": "LoadBalancer", "ports": [{"port": 1}]}, "1", "1"),
        (
            {
                "type": "LoadBalancer",
                "allocateLoadBalancerNodePorts": False,
                "ports": [{"port": 1, "nodePort": 9}, {"port": 2}],
            },
            "1",
            "1",
        ),
    ],
)
def test_services_are_charged_by_their_type(spec: Object, node_ports: str, balancers: str):
    usage = told(evaluators.service_usage({"spec": spec}))
    assert (usage["services.nodeports"], usage["services.loadbalancers"]) == (node_ports, balancers)


def test_volume_claims_are_charged_in_all_and_by_class():
    claim = {
        "metadata": {"name": "v"},
        "spec": {"storageClassName": "gold", "resources": {"requests": {"storage": "5Gi"}}},
        "status": {"allocatedResources": {"storage": "8Gi"}},
    }
    usage = told(evaluators.volume_claim_usage(claim))
    assert usage["requests.storage"] == usage["gold.storageclass.storage.k8s.io/requests.storage"] == "8Gi"
    assert usage["gold.storageclass.storage.k8s.io/persistentvolumeclaims"] == "1"


def test_each_kind_answers_for_its_own_resources():
    names = [
        "pods",
        "cpu",
        "requests.example.com/gpu",
        "services",
        "count/deployments.apps",
        "secrets",
        "count/secrets",
    ]
    assert evaluators.matching_resources("", "pods", names) == ["pods", "cpu", "requests.example.com/gpu"]
    assert evaluators.matching_resources("", "services", names) == ["services"]
    assert evaluators.matching_resources("apps", "deployments", names) == ["count/deployments.apps"]
    assert evaluators.matching_resources("", "secrets", names) == ["secrets", "count/secrets"]


def test_containers_must_state_what_a_quota_counts():
    one = pod(asks({"cpu": "1"}), asks({}))
    words = "must specify limits.cpu for: c0,c1; requests.cpu for: c1"
    assert evaluators.constraint_problem(one, ["requests.cpu", "limits.cpu", "pods"]) == words
    assert evaluators.constraint_problem(one, ["pods", "requests.example.com/gpu"]) == ""
    assert evaluators.constraint_problem(pod(asks({}), resources=asks({"cpu": "1"})), ["requests.cpu"]) == ""


def scoped(*scopes: str, terms: list[Object] | None = None) -> Object:
    return {"spec": {"scopes": list(scopes), "scopeSelector": {"matchExpressions": terms or []}}}


def test_scopes_choose_pods():
    best_effort, limited = pod(asks({})), pod(asks({"cpu": "1"}), activeDeadlineSeconds=5)

    def about(one: Object, *scopes: str, terms: list[Object] | None = None) -> bool:
        return evaluators.in_scope("", "pods", one, scoped(*scopes, terms=terms))

    assert about(best_effort, "BestEffort", "NotTerminating") and not about(best_effort, "NotBestEffort")
    assert about(limited, "NotBestEffort", "Terminating") and not about(limited, "NotTerminating")
    important = pod(asks({}), priorityClassName="high")
    term = {"scopeName": "PriorityClass", "operator": "In", "values": ["high"]}
    assert about(important, terms=[term]) and not about(best_effort, terms=[term])
    assert about(best_effort, terms=[{**term, "operator": "NotIn"}])
    elsewhere = {"labelSelector": {}, "namespaceSelector": {}, "topologyKey": "zone"}
    affinity = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [elsewhere]}}
    assert about(pod(asks({}), affinity=affinity), "CrossNamespacePodAffinity")
    assert not evaluators.in_scope("", "services", {"spec": {}}, scoped("BestEffort"))

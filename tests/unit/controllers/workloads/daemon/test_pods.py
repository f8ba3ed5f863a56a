"""The pod that a DaemonSet has on a node."""

from __future__ import annotations

from dray.controllers.workloads.daemon import pods


def test_a_daemon_can_only_go_to_its_node():
    term = {"matchExpressions": [{"key": "disk", "operator": "Exists"}]}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
    pinned = pods.with_node_affinity({"nodeAffinity": required}, "n1")
    assert pods.node_of({"spec": {"affinity": pinned}}) == "n1"
    kept = pinned["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    assert kept == [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]}]


def test_a_toleration_that_all_daemons_have_replaces_the_one_of_the_template():
    mine = {
        "key": "node.kubernetes.io/not-ready",
        "operator": "Exists",
        "effect": "NoExecute",
        "tolerationSeconds": 5,
    }
    found = pods.tolerations({"tolerations": [mine, {"operator": "Exists"}]})
    assert found[:2] == [
        {k: v for k, v in mine.items() if k != "tolerationSeconds"},
        {"operator": "Exists"},
    ]
    assert len(found) == 7

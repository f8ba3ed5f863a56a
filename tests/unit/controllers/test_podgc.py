"""Which pods the pod garbage collector deletes."""

from __future__ import annotations

from typing import Any

from dray.api.scheme.kinds import Object
from dray.controllers.podgc import excess_terminated, is_stuck_terminating


def pod(name: str = "p", phase: str = "Running", *, node: str = "n", **metadata: Any) -> Object:
    spec = {"nodeName": node} if node else {}
    return {"metadata": {"name": name, "uid": name, **metadata}, "spec": spec, "status": {"phase": phase}}


def test_evicted_pods_go_first_and_then_the_oldest():
    evicted = pod("evicted", "Failed", creationTimestamp="9")
    evicted["status"]["reason"] = "Evicted"
    pods = [
        pod("young", "Succeeded", creationTimestamp="3"),
        pod("running"),
        evicted,
        pod("b", "Failed", creationTimestamp="1"),
        pod("a", "Succeeded", creationTimestamp="1"),
    ]
    assert [p["metadata"]["name"] for p in excess_terminated(pods, threshold=1)] == ["evicted", "a", "b"]
    assert excess_terminated(pods, threshold=4) == []
    assert excess_terminated(pods, threshold=0) == [], "no threshold, no surplus"


def test_a_pod_is_stuck_when_nobody_can_finish_its_deletion():
    taint = {"key": "node.kubernetes.io/out-of-service", "effect": "NoExecute"}
    dead = {"spec": {"taints": [taint]}, "status": {"conditions": [{"type": "Ready", "status": "Unknown"}]}}
    alive = {"spec": {"taints": [taint]}, "status": {"conditions": [{"type": "Ready", "status": "True"}]}}
    going = pod(deletionTimestamp="now")
    assert is_stuck_terminating(pod(node="", deletionTimestamp="now"), None)
    assert is_stuck_terminating(going, dead)
    assert not is_stuck_terminating(going, alive)
    assert not is_stuck_terminating(going, {"spec": {}})
    assert not is_stuck_terminating(going, None), "a node that is not known is for another to judge"
    assert not is_stuck_terminating(pod(node=""), None)

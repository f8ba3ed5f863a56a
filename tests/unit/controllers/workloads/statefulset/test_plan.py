"""Which pods a StatefulSet creates and deletes next."""

from __future__ import annotations

from typing import Any

from dray.controllers.workloads.statefulset import plan
from tests.unit.controllers.workloads.objects import Object, names, pod, terminating


def stateful(*pods: Object, replicas: int = 3, update: str = "r1", **spec: Any) -> plan.Plan:
    owner = {"metadata": {"name": "s"}, "spec": {"replicas": replicas, **spec}}
    numbered = {plan.ordinal(owner, p) or 0: p for p in pods}
    return plan.plan(plan.StatefulSetState(owner, numbered, "r1", update, 100.0))


def is_idle(made: plan.Plan) -> bool:
    return not made.make and not made.delete


def test_stateful_pods_start_one_after_the_other():
    assert stateful().make == [0]
    assert is_idle(stateful(pod("s-0", ready=False)))
    assert stateful(pod("s-0")).make == [1]
    assert is_idle(stateful(pod("s-0"), terminating(pod("s-1")))), "its name is still taken"
    assert stateful(podManagementPolicy="Parallel").make == [0, 1, 2]
    assert stateful(replicas=2, ordinals={"start": 5}).make == [5]


def test_stateful_pods_that_have_ended_are_made_anew():
    assert names(stateful(pod("s-0", phase="Failed"), pod("s-1"), pod("s-2")).delete) == ["s-0"]


def test_stateful_sets_shrink_from_the_end_and_wait_for_each():
    pods = [pod(f"s-{i}") for i in range(4)]
    assert names(stateful(*pods, replicas=2).delete) == ["s-3"]
    assert names(stateful(*pods[:3], terminating(pods[3]), replicas=2).delete) == []
    assert names(stateful(*pods, replicas=2, podManagementPolicy="Parallel").delete) == ["s-3", "s-2"]


def test_stateful_sets_update_from_the_end_down_to_the_partition():
    pods = [pod(f"s-{i}") for i in range(3)]
    assert names(stateful(*pods, update="r2").delete) == ["s-2"]
    updated = pod("s-2", revision="r2")
    assert names(stateful(*pods[:2], updated, update="r2").delete) == ["s-1"]
    unready = pod("s-2", revision="r2", ready=False)
    assert is_idle(stateful(*pods[:2], unready, update="r2"))
    partition = {"rollingUpdate": {"partition": 2}}
    assert is_idle(stateful(*pods[:2], updated, update="r2", updateStrategy=partition))
    assert is_idle(stateful(*pods, update="r2", updateStrategy={"type": "OnDelete"}))


def test_only_pods_named_like_a_set_are_its_members():
    owner = {"metadata": {"name": "web"}}
    assert plan.ordinal(owner, pod("web-12")) == 12
    assert plan.ordinal(owner, pod("web-x")) is None
    assert plan.ordinal(owner, pod("other-web-1")) is None

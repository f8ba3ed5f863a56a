"""Which nodes get a pod of a DaemonSet, how an update replaces pods, and the status."""

from __future__ import annotations

from typing import Any

from dray.controllers.workloads.daemon import pod_plan
from dray.controllers.workloads.daemon import pods as daemon_pods
from tests.unit.controllers.workloads.objects import Object, names, pod, terminating


def daemons(nodes: list[str], *pods: Object, digest: str = "r1", **rolling: Any) -> pod_plan.Plan:
    spec = {"template": {"spec": {}}, "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": rolling}}
    owner = {"metadata": {"name": "d"}, "spec": spec}
    listed = [{"metadata": {"name": name}} for name in nodes]
    return pod_plan.plan(pod_plan.DaemonSetState.of(owner, digest, listed, pods, now=100.0))


def is_idle(made: pod_plan.Plan) -> bool:
    return not made.start and not made.stop


def test_every_node_has_one_daemon_and_what_cannot_reach_its_node_goes():
    unscheduled = pod("d")
    unscheduled["spec"]["affinity"] = daemon_pods.with_node_affinity({}, "gone")
    there = [pod("a", node="n1"), pod("b", node="n1"), pod("c", node="gone"), unscheduled, pod("stray")]
    made = daemons(["n1", "n2"], *there)
    assert list(made.start) == ["n2"]
    assert names(made.stop) == ["b", "d"], "the pod garbage collector takes those that were on the node"


def test_a_daemon_that_ended_is_removed_before_another_is_made():
    for phase in ("Failed", "Succeeded"):
        made = daemons(["n1"], pod("a", node="n1", phase=phase, ready=False))
        assert (list(made.start), names(made.stop), names(made.ended)) == ([], ["a"], ["a"])
    over = terminating(pod("a", node="n1", phase="Failed", ready=False))
    assert list(daemons(["n1"], over).start) == ["n1"], "what keeps it is not the daemons' business"
    assert is_idle(daemons(["n1"], terminating(pod("a", node="n1"))))


def test_daemons_are_counted_by_the_oldest_pod_of_each_node_until_it_is_gone():
    owner = {"metadata": {"name": "d", "generation": 2}, "spec": {"template": {"spec": {}}}}
    nodes = [{"metadata": {"name": name}} for name in ("n1", "n2")]
    pods = [terminating(pod("a", node="n1")), pod("b", node="n2", revision="r0", ready=False)]
    situation = pod_plan.DaemonSetState.of(owner, "r1", nodes, pods, now=100.0)
    assert pod_plan.status_of(situation) == {
        "currentNumberScheduled": 2,
        "numberMisscheduled": 0,
        "desiredNumberScheduled": 2,
        "numberReady": 1,
        "observedGeneration": 2,
        "updatedNumberScheduled": 1,
        "numberAvailable": 1,
        "numberUnavailable": 1,
    }
    assert "observedGeneration" not in pod_plan.status_of(situation, is_observed=False)


def test_daemons_are_replaced_a_few_at_a_time_and_broken_ones_at_once():
    old = [pod(f"p{i}", node=f"n{i}") for i in range(4)]
    nodes = [f"n{i}" for i in range(4)]
    assert names(daemons(nodes, *old, digest="r2", maxUnavailable=2).stop) == ["p0", "p1"]
    broken = pod("p3", node="n3", ready=False)
    assert names(daemons(nodes, *old[:3], broken, digest="r2", maxUnavailable=1).stop) == ["p3"]
    assert names(daemons(nodes, *old, digest="r2", maxUnavailable="50%").stop) == ["p0", "p1"]


def test_surging_daemons_come_before_the_old_ones_go():
    old = [pod("a", node="n1"), pod("b", node="n2")]
    assert list(daemons(["n1", "n2"], *old, digest="r2", maxSurge=1, maxUnavailable=0).start) == ["n1"]
    unready = pod("c", node="n1", revision="r2", ready=False)
    waiting = daemons(["n1", "n2"], *old, unready, digest="r2", maxSurge=1, maxUnavailable=0)
    assert is_idle(waiting)
    ready = pod("c", node="n1", revision="r2")
    moved = daemons(["n1", "n2"], *old, ready, digest="r2", maxSurge=1, maxUnavailable=0)
    assert (list(moved.start), names(moved.stop)) == ([], ["a"])
    rest = daemons(["n1", "n2"], old[1], ready, digest="r2", maxSurge=1, maxUnavailable=0)
    assert (list(rest.start), names(rest.stop)) == (["n2"], [])
    unwell = pod("b", node="n2", ready=False)
    assert names(
        daemons(["n2"], unwell, pod("d", node="n2", revision="r2", ready=False), digest="r2", maxSurge=1).stop
    ) == ["b"]


def test_daemons_tolerate_taints_of_unhealthy_nodes_but_not_every_taint():
    owner = {"spec": {"template": {"spec": {}}}}

    def verdict(*taints: Object) -> pod_plan.ShouldRun:
        return pod_plan.should_run(owner, {"metadata": {"name": "n"}, "spec": {"taints": list(taints)}})

    assert verdict({"key": "node.kubernetes.io/unreachable", "effect": "NoExecute"}) == (True, True)
    assert verdict({"key": "dedicated", "effect": "NoSchedule"}) == (False, True)
    assert verdict({"key": "dedicated", "effect": "NoExecute"}) == (False, False)

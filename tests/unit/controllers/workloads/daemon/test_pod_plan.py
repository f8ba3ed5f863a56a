"""StatefulSets, DaemonSets, CronJobs: the next step, given what is there; and expectations."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from dray.controllers.workloads import cronjob, history, owned_pods
from dray.controllers.workloads.daemon import pod_plan
from dray.controllers.workloads.expectations import EXPECTATIONS_TIMEOUT_SECONDS, Expectations
from dray.controllers.workloads.statefulset import controller

Object = dict[str, Any]
READY = [{"type": "Ready", "status": "True", "lastTransitionTime": "1970-01-01T00:00:00Z"}]


def pod(
    name: str, *, ready: bool = True, phase: str = "Running", node: str = "", revision: str = "r1"
) -> Object:
    metadata: Object = {"name": name, "uid": name, "labels": {history.REVISION_HASH_LABEL: revision}}
    status = {"phase": phase, "conditions": READY if ready else []}
    return {"metadata": metadata, "spec": {"nodeName": node} if node else {}, "status": status}


def leaving(one: Object) -> Object:
    return {**one, "metadata": {**one["metadata"], "deletionTimestamp": "1970-01-01T00:00:00Z"}}


# -- StatefulSets


def stateful(*pods: Object, replicas: int = 3, update: str = "r1", **spec: Any) -> controller.Plan:
    owner = {"metadata": {"name": "s"}, "spec": {"replicas": replicas, **spec}}
    numbered = {controller.ordinal(owner, p) or 0: p for p in pods}
    return controller.plan(controller.StatefulSetState(owner, numbered, "r1", update, 100.0))


def is_idle(made: controller.Plan | pod_plan.Plan) -> bool:
    if isinstance(made, controller.Plan):
        return not made.make and not made.delete
    return not made.start and not made.stop


def names(pods: Any) -> list[str]:
    return [p["metadata"]["name"] for p in pods]


def test_stateful_pods_start_one_after_the_other():
    assert stateful().make == [0]
    assert is_idle(stateful(pod("s-0", ready=False)))
    assert stateful(pod("s-0")).make == [1]
    assert is_idle(stateful(pod("s-0"), leaving(pod("s-1")))), "its name is still taken"
    assert stateful(podManagementPolicy="Parallel").make == [0, 1, 2]
    assert stateful(replicas=2, ordinals={"start": 5}).make == [5]


def test_stateful_pods_that_have_ended_are_made_anew():
    assert names(stateful(pod("s-0", phase="Failed"), pod("s-1"), pod("s-2")).delete) == ["s-0"]


def test_stateful_sets_shrink_from_the_end_and_wait_for_each():
    pods = [pod(f"s-{i}") for i in range(4)]
    assert names(stateful(*pods, replicas=2).delete) == ["s-3"]
    assert names(stateful(*pods[:3], leaving(pods[3]), replicas=2).delete) == []
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
    assert controller.ordinal(owner, pod("web-12")) == 12
    assert controller.ordinal(owner, pod("web-x")) is None
    assert controller.ordinal(owner, pod("other-web-1")) is None


# -- DaemonSets


def daemons(nodes: list[str], *pods: Object, digest: str = "r1", **rolling: Any) -> pod_plan.Plan:
    spec = {"template": {"spec": {}}, "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": rolling}}
    owner = {"metadata": {"name": "d"}, "spec": spec}
    listed = [{"metadata": {"name": name}} for name in nodes]
    return pod_plan.plan(pod_plan.DaemonSetState.of(owner, digest, listed, pods, now=100.0))


def test_every_node_has_one_daemon_and_what_cannot_reach_its_node_goes():
    unscheduled = pod("d")
    unscheduled["spec"]["affinity"] = pod_plan.with_node_affinity({}, "gone")
    there = [pod("a", node="n1"), pod("b", node="n1"), pod("c", node="gone"), unscheduled, pod("stray")]
    made = daemons(["n1", "n2"], *there)
    assert list(made.start) == ["n2"]
    assert names(made.stop) == ["b", "d"], "the pod garbage collector takes those that were on the node"


def test_a_daemon_that_ended_is_removed_before_another_is_made():
    for phase in ("Failed", "Succeeded"):
        made = daemons(["n1"], pod("a", node="n1", phase=phase, ready=False))
        assert (list(made.start), names(made.stop), names(made.ended)) == ([], ["a"], ["a"])
    over = leaving(pod("a", node="n1", phase="Failed", ready=False))
    assert list(daemons(["n1"], over).start) == ["n1"], "what keeps it is not the daemons' business"
    assert is_idle(daemons(["n1"], leaving(pod("a", node="n1"))))


def test_daemons_are_counted_by_the_oldest_pod_of_each_node_until_it_is_gone():
    owner = {"metadata": {"name": "d", "generation": 2}, "spec": {"template": {"spec": {}}}}
    nodes = [{"metadata": {"name": name}} for name in ("n1", "n2")]
    pods = [leaving(pod("a", node="n1")), pod("b", node="n2", revision="r0", ready=False)]
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


def test_daemons_bear_ill_nodes_but_not_every_taint():
    owner = {"spec": {"template": {"spec": {}}}}

    def place(*taints: Object) -> pod_plan.ShouldRun:
        return pod_plan.place(owner, {"metadata": {"name": "n"}, "spec": {"taints": list(taints)}})

    assert place({"key": "node.kubernetes.io/unreachable", "effect": "NoExecute"}) == (True, True)
    assert place({"key": "dedicated", "effect": "NoSchedule"}) == (False, True)
    assert place({"key": "dedicated", "effect": "NoExecute"}) == (False, False)


def test_a_daemon_can_only_go_to_its_node():
    term = {"matchExpressions": [{"key": "disk", "operator": "Exists"}]}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
    pinned = pod_plan.with_node_affinity({"nodeAffinity": required}, "n1")
    assert pod_plan.node_of({"spec": {"affinity": pinned}}) == "n1"
    kept = pinned["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    assert kept == [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]}]


def test_what_a_daemon_bears_anyway_is_not_said_twice():
    mine = {
        "key": "node.kubernetes.io/not-ready",
        "operator": "Exists",
        "effect": "NoExecute",
        "tolerationSeconds": 5,
    }
    borne = pod_plan.tolerations({"tolerations": [mine, {"operator": "Exists"}]})
    assert borne[:2] == [
        {k: v for k, v in mine.items() if k != "tolerationSeconds"},
        {"operator": "Exists"},
    ]
    assert len(borne) == 7


# -- CronJobs


def cron(schedule: str, last: str, **spec: Any) -> Object:
    return {
        "metadata": {"name": "c"},
        "spec": {"schedule": schedule, **spec},
        "status": {"lastScheduleTime": last},
    }


def at(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def test_what_is_due_is_the_latest_time_that_was_missed():
    times = cronjob.most_recent_schedule_time(
        cron("*/10 * * * *", "2024-03-01T00:00:00Z"), at("2024-03-01T00:35:00")
    )
    assert times == (at("2024-03-01T00:30:00"), at("2024-03-01T00:40:00"), 3)
    nothing = cronjob.most_recent_schedule_time(
        cron("*/10 * * * *", "2024-03-01T00:30:00Z"), at("2024-03-01T00:35:00")
    )
    assert nothing.latest is None and nothing.missed == 0


def test_times_before_the_starting_deadline_are_let_go():
    late = cron("0 * * * *", "2024-03-01T00:00:00Z", startingDeadlineSeconds=60)
    assert cronjob.most_recent_schedule_time(late, at("2024-03-01T05:30:00")).latest is None


def test_a_schedule_means_its_time_zone_also_when_clocks_change():
    paris = cron("30 9 * * *", "2024-03-30T00:00:00Z", timeZone="Europe/Paris")
    times = cronjob.most_recent_schedule_time(paris, at("2024-03-30T12:00:00"))
    assert times.latest == at("2024-03-30T08:30:00") and times.following == at("2024-03-31T07:30:00")


def test_a_schedule_far_behind_is_caught_up_without_counting_every_minute():
    times = cronjob.most_recent_schedule_time(
        cron("* * * * *", "2020-01-01T00:00:00Z"), at("2024-03-01T00:00:30")
    )
    assert times.latest == at("2024-03-01T00:00:00") and times.missed > 100


# -- what all of them share


def test_news_that_is_late_is_waited_for_but_not_for_ever():
    now = [0.0]
    expected = Expectations(lambda: now[0])
    expected.made("rs", "a")
    assert not expected.met("rs", [])
    assert expected.met("rs", [pod("a")])
    expected.deleted("rs", "a")
    assert not expected.met("rs", [pod("a")])
    assert expected.met("rs", [leaving(pod("a"))])
    expected.made("rs", "b")
    expected.there("rs", pod("b"))
    expected.gone("rs", "b")
    assert expected.met("rs", []), "it came and went between two looks"
    expected.made("rs", "c")
    now[0] = EXPECTATIONS_TIMEOUT_SECONDS + 1
    assert expected.met("rs", [])


def test_the_cheapest_pods_go_first():
    pods = [
        pod("ready-alone", node="n1"),
        pod("ready-crowded", node="n2"),
        pod("also-crowded", node="n2"),
        pod("unready", node="n1", ready=False),
        pod("unscheduled", ready=False, phase="Pending"),
    ]
    costly = pod("costly", node="n2")
    costly["metadata"]["annotations"] = {"controller.kubernetes.io/pod-deletion-cost": "10"}
    order = names(owned_pods.ranked_for_deletion([costly, *pods], {"n1": 1, "n2": 3}))
    assert order == ["unscheduled", "unready", "also-crowded", "ready-crowded", "ready-alone", "costly"]


def test_revisions_in_use_are_kept_and_the_oldest_others_go():
    known = [{"metadata": {"name": f"r{i}"}, "revision": i} for i in range(5)]
    gone = history.truncation_candidates(known, in_use={"r0"}, limit=2)
    assert [r["metadata"]["name"] for r in gone] == ["r1", "r2"]

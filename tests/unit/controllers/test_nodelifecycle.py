"""Silent nodes: conditions, taints, the pace of evictions, and how long pods bear it."""

from __future__ import annotations

from typing import Any

import pytest

from dray.client.resources import EVENTS, LEASES, NODES, PODS
from dray.controllers import nodelifecycle, tainteviction
from dray.controllers.pod_status import pod_condition
from tests.support.controlplane import ControlPlane, control_plane
from tests.support.wait import wait_for

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


def toleration(seconds: int | None = None, key: str = nodelifecycle.UNREACHABLE) -> Object:
    found: Object = {"key": key, "operator": "Exists", "effect": "NoExecute"}
    return found if seconds is None else {**found, "tolerationSeconds": seconds}


def test_pods_bear_taints_as_long_as_they_say():
    other = {"key": "fire", "effect": "NoExecute"}
    assert tainteviction.min_toleration_seconds([UNREACHABLE], []) == 0.0
    assert tainteviction.min_toleration_seconds([UNREACHABLE], [toleration()]) is None
    assert tainteviction.min_toleration_seconds([UNREACHABLE], [toleration(300)]) == 300.0
    assert tainteviction.min_toleration_seconds([UNREACHABLE], [toleration(-5)]) == 0.0
    assert tainteviction.min_toleration_seconds([UNREACHABLE, other], [toleration(300)]) == 0.0
    assert (
        tainteviction.min_toleration_seconds([UNREACHABLE, other], [toleration(300), toleration(20, "fire")])
        == 20.0
    )
    assert tainteviction.min_toleration_seconds([], []) is None


def test_time_runs_from_the_taint_or_from_the_pod_that_came_later():
    pod = {"metadata": {"creationTimestamp": "1970-01-01T00:00:10Z"}}
    assert tainteviction.tainted_since([UNREACHABLE], pod, seen=500.0) == 100.0
    late = {"metadata": {"creationTimestamp": "1970-01-01T00:03:20Z"}}
    assert tainteviction.tainted_since([UNREACHABLE], late, seen=500.0) == 200.0
    assert tainteviction.tainted_since([{"key": "k", "effect": "NoExecute"}], pod, seen=500.0) == 500.0


FIRE = {"key": "fire", "effect": "NoExecute"}


async def told(s: ControlPlane) -> list[str]:
    found = (await s.client.list(EVENTS, "default")).items
    return [e["message"] for e in found if e["reason"] == "TaintManagerEviction"]


async def test_a_pod_that_does_not_bear_a_taint_is_marked_and_deleted_though_it_was_going_anyway():
    async with control_plane("taint-eviction-controller", emulate="1.36") as s:
        await s.node("n")
        for name in ("p", "going"):
            await s.pod(name, nodeName="n", metadata={"finalizers": ["example.com/hold"]})
        await s.client.delete(PODS, "default", "going")
        await s.client.patch(NODES, "", "n", {"spec": {"taints": [FIRE]}})

        async def marked(name: str) -> Object | None:
            pod = await s.get(PODS, name)
            return (
                pod
                if "deletionTimestamp" in pod["metadata"] and pod_condition(pod, "DisruptionTarget")
                else None
            )

        for name, generation in (("p", 1), ("going", 2)):
            pod = await wait_for(f"node {name} to be tainted", lambda name=name: marked(name))
            condition = pod_condition(pod, "DisruptionTarget")
            assert condition["message"] == "Taint manager: deleting due to NoExecute taint"
            assert condition["observedGeneration"] == generation


async def test_events_about_evictions_name_the_pod_alone():
    async with control_plane("taint-eviction-controller") as s:
        await s.node("n", taints=[FIRE])
        await s.pod("p", nodeName="n")

        async def events() -> list[Object]:
            return [e for e in (await s.client.list(EVENTS, "default")).items if e["type"] == "Normal"]

        [event] = await wait_for("Normal events", events)
        assert event["message"] == "Marking for deletion Pod default/p"
        assert event["involvedObject"] == {
            "apiVersion": "v1", "kind": "Pod", "namespace": "default", "name": "p"
        }  # fmt: skip


@pytest.mark.parametrize("end", ["the taint goes", "the pod goes", "the pod has to go at once"])
async def test_an_eviction_that_was_to_come_is_called_off_aloud(end):
    async with control_plane("taint-eviction-controller") as s:
        await s.node("n", taints=[{"key": "drought", "effect": "NoExecute"}])
        await s.pod("p", nodeName="n", tolerations=[toleration(3600, "drought")])
        await s.wait_quiet()
        if end == "the pod goes":
            await s.client.delete(PODS, "default", "p")
        else:
            taints = [FIRE] if end == "the pod has to go at once" else None
            await s.client.patch(NODES, "", "n", {"spec": {"taints": taints}})
        count = 2 if end == "the pod has to go at once" else 1
        await wait_for(f"{count} lease renewals", lambda: enough(s, count))
        assert sorted(await told(s))[0] == "Cancelling deletion of Pod default/p"


async def enough(s: ControlPlane, count: int) -> bool:
    return len(await told(s)) == count


async def test_what_is_said_of_a_node_names_it_without_a_version_and_its_pods_keep_what_they_know():
    settings = {"node-lifecycle-controller": {"grace_seconds": 0.05}}
    async with control_plane("node-lifecycle-controller", emulate="1.36", settings=settings) as s:
        await s.pod("p", nodeName="n")
        ready = {"type": "Ready", "status": "True", "observedGeneration": 1, "reason": "r", "message": "m"}
        await s.client.patch_status(PODS, "default", "p", {"status": {"conditions": [ready]}})
        status = {"conditions": [{"type": "Ready", "status": "True"}]}
        made = await s.client.create(NODES, "", {"metadata": {"name": "n"}, "status": status})
        lease = {"metadata": {"name": "n"}, "spec": {"renewTime": "2026-01-01T00:00:00.000000Z"}}
        await s.client.create(LEASES, "kube-node-lease", lease)

        async def unready() -> Object | None:
            condition = pod_condition(await s.get(PODS, "p"), "Ready")
            return condition if condition["status"] == "False" else None

        condition = await wait_for("pod p to be marked as not ready", unready)
        assert {**condition, "status": "True"}.items() >= ready.items()

        async def events() -> dict[str, Object]:
            found = (await s.client.list(EVENTS, "default")).items
            about = {
                e["message"]: e["involvedObject"] for e in found if e["involvedObject"]["kind"] == "Node"
            }
            return about if len(about) == 2 else {}

        node = {"apiVersion": "v1", "kind": "Node", "name": "n", "uid": made["metadata"]["uid"]}
        assert await wait_for("events about both nodes", events) == {
            "Node n event: Registered Node n in Controller": node,
            "Node n status is now: NodeNotReady": node,
        }

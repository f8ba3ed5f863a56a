from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dray.placement.cache.nodes import ClusterCache, NodeInfo
from dray.placement.cache.pods import PodInfo
from dray.placement.placement import Placement
from dray.placement.plugins.pod_topology_spread import SpreadConstraint
from dray.placement.status import Diagnosis, Rejection, ScheduleResult, fit_error_message
from tests.support.scheduler import cluster, node, pod


def placement(where: ClusterCache) -> Placement:
    return Placement(where)


def place(p: Placement, wanted: PodInfo) -> ScheduleResult | Diagnosis:
    outcome = p.find(wanted, None)
    if isinstance(outcome, ScheduleResult):
        p.cluster.add_pod(wanted, outcome.node)
    return outcome


def reasons(outcome: ScheduleResult | Diagnosis) -> set[str]:
    assert isinstance(outcome, Diagnosis)
    return {reason for r in outcome.rejections.values() for reason in r.reasons}


def test_pods_spread_over_equal_nodes() -> None:
    p = placement(cluster(*(node(f"n{i}") for i in range(4))))
    chosen = [place(p, pod(requests={"cpu": "1"})) for _ in range(4)]
    assert {c.node for c in chosen if isinstance(c, ScheduleResult)} == {"n0", "n1", "n2", "n3"}


def test_the_message_names_the_resources_that_are_insufficient() -> None:
    p = placement(cluster(node("a", cpu="1"), node("b", memory="1Gi")))
    outcome = place(p, pod(requests={"cpu": "2", "memory": "2Gi"}))
    assert isinstance(outcome, Diagnosis)
    assert fit_error_message(outcome.nodes, outcome.rejections.values()) == (
        "0/2 nodes are available: 1 Insufficient cpu, 1 Insufficient memory."
    )


def test_resources_that_a_pod_frees_are_used_again() -> None:
    p = placement(cluster(node("a", cpu="1")))
    first = pod(requests={"cpu": "1"})
    assert isinstance(place(p, first), ScheduleResult)
    assert reasons(place(p, pod(requests={"cpu": "1"}))) == {"Insufficient cpu"}
    p.cluster.remove_pod(first.uid)
    assert isinstance(place(p, pod(requests={"cpu": "1"})), ScheduleResult)


def test_a_node_that_arrives_later_is_used() -> None:
    p = placement(cluster(node("a", cpu="1")))
    assert isinstance(place(p, pod(requests={"cpu": "2"})), Diagnosis)
    p.cluster.set_node(node("b", cpu="2"))
    assert place(p, pod(requests={"cpu": "2"})) == ScheduleResult("b")


def test_a_deleted_node_is_not_used() -> None:
    p = placement(cluster(node("a"), node("b")))
    assert isinstance(place(p, pod()), ScheduleResult)
    p.cluster.remove_node("a")
    for _ in range(3):
        assert place(p, pod()) == ScheduleResult("b")


@pytest.mark.parametrize(
    ("document", "spec", "reason"),
    [
        (node("a", spec={"unschedulable": True}), {}, "node(s) were unschedulable"),
        (
            node("a", spec={"taints": [{"key": "k", "effect": "NoSchedule"}]}),
            {},
            "node(s) had untolerated taint(s)",
        ),
        (node("a"), {"nodeSelector": {"disk": "ssd"}}, "node(s) didn't match Pod's node affinity/selector"),
        (node("a", pods="0"), {}, "Too many pods"),
        (node("a"), {"requests": {"vendor.com/gpu": "1"}}, "Insufficient vendor.com/gpu"),
    ],
)
def test_a_node_is_rejected_in_upstreams_words(
    document: dict[str, Any], spec: dict[str, Any], reason: str
) -> None:
    assert reasons(place(placement(cluster(document)), pod(**spec))) == {reason}


def test_a_toleration_opens_a_tainted_node() -> None:
    where = cluster(node("a", spec={"taints": [{"key": "k", "value": "v", "effect": "NoSchedule"}]}))
    assert place(placement(where), pod(tolerations=[{"key": "k", "operator": "Exists"}])) == ScheduleResult(
        "a"
    )


def test_host_ports_exclude_each_other() -> None:
    p = placement(cluster(node("a")))
    container = {"name": "c", "image": "i", "ports": [{"containerPort": 80, "hostPort": 80}]}
    assert isinstance(place(p, pod(containers=[container])), ScheduleResult)
    assert reasons(place(p, pod(containers=[container]))) == {
        "node(s) didn't have free ports for the requested pod ports"
    }


def test_anti_affinity_of_running_pods_holds_for_new_pods() -> None:
    p = placement(cluster(node("a"), node("b")))
    term = {"labelSelector": {"matchLabels": {"app": "x"}}, "topologyKey": "kubernetes.io/hostname"}
    lonely = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    for _ in range(2):
        assert isinstance(place(p, pod(labels={"app": "x"}, affinity=lonely)), ScheduleResult)
    assert reasons(place(p, pod(labels={"app": "x"}, affinity=lonely))) == {
        "node(s) didn't match pod anti-affinity rules"
    }
    assert reasons(place(p, pod(labels={"app": "x"}))) == {
        "node(s) didn't satisfy existing pods anti-affinity rules"
    }
    assert isinstance(place(p, pod(labels={"app": "y"})), ScheduleResult)


def test_affinity_brings_pods_together() -> None:
    p = placement(cluster(node("a", labels={"zone": "1"}), node("b", labels={"zone": "2"})))
    term = {"labelSelector": {"matchLabels": {"app": "x"}}, "topologyKey": "zone"}
    social = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    chosen = {place(p, pod(labels={"app": "x"}, affinity=social)) for _ in range(3)}
    assert len({c.node for c in chosen if isinstance(c, ScheduleResult)}) == 1


def test_topology_spread_rejects_skew() -> None:
    p = placement(cluster(node("a", labels={"zone": "1"}), node("b", labels={"zone": "2"})))
    spec = {
        "topologyKey": "zone", "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "x"}},
    }  # fmt: skip
    zones = []
    for _ in range(4):
        wanted = pod(labels={"app": "x"}, topologySpreadConstraints=[spec])
        outcome = p.find(wanted, None, spread=[SpreadConstraint.of(spec, wanted.labels)])
        assert isinstance(outcome, ScheduleResult)
        p.cluster.add_pod(wanted, outcome.node)
        zones.append(outcome.node)
    assert zones.count("a") == zones.count("b") == 2


def test_preferred_node_affinity_decides_between_equals() -> None:
    p = placement(cluster(node("a"), node("b", labels={"disk": "ssd"})))
    preference = {
        "weight": 10,
        "preference": {"matchExpressions": [{"key": "disk", "operator": "In", "values": ["ssd"]}]},
    }
    affinity = {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [preference]}}
    assert place(p, pod(affinity=affinity)).node == "b"  # type: ignore[union-attr]


def test_soft_taints_are_avoided() -> None:
    taint = {"key": "k", "effect": "PreferNoSchedule"}
    p = placement(cluster(node("a", spec={"taints": [taint]}), node("b")))
    assert place(p, pod()).node == "b"  # type: ignore[union-attr]


def test_resources_for_a_nominated_pod_of_higher_priority_are_kept() -> None:
    p = placement(cluster(node("a", cpu="1")))
    p.nominator.nominate(pod(priority=10, requests={"cpu": "1"}), "a")
    assert reasons(place(p, pod(requests={"cpu": "1"}))) == {"Insufficient cpu"}
    assert isinstance(place(p, pod(priority=20, requests={"cpu": "1"})), ScheduleResult)


class Devices:
    """A stand-in for the allocator: one device a node."""

    shape = b"one"
    scores_matter = False

    def __init__(self, free: dict[str, int]) -> None:
        self.free = free
        self.asked: list[str] = []

    def filter(self, where: NodeInfo) -> Any:
        self.asked.append(where.name)
        if self.free[where.name] <= 0:
            return Rejection("DynamicResources", ("cannot allocate all claims",), resolvable=False)
        return f"device of {where.name}"

    def score(self, plan: Any) -> int:
        return 0


def test_devices_are_filtered_once_per_placement_not_once_per_node() -> None:
    names = [f"n{i}" for i in range(200)]
    p = placement(cluster(*(node(n) for n in names)))
    devices: Any = Devices(dict.fromkeys(names, 1))
    for _ in range(200):
        wanted = pod()
        outcome = p.find(wanted, devices)
        assert isinstance(outcome, ScheduleResult)
        devices.free[outcome.node] -= 1
        p.cluster.add_pod(wanted, outcome.node)
    assert len(devices.asked) <= 2 * 200
    assert reasons(p.find(pod(), devices)) == {"cannot allocate all claims"}


def test_for_a_spread_pod_devices_are_filtered_on_the_best_nodes_first() -> None:
    names = [f"n{i:03}" for i in range(300)]
    spec = {
        "topologyKey": "kubernetes.io/hostname", "maxSkew": 1, "whenUnsatisfiable": "ScheduleAnyway",
        "labelSelector": {"matchLabels": {"app": "x"}},
    }  # fmt: skip
    wanted = pod(labels={"app": "x"}, topologySpreadConstraints=[spec])
    spread = [SpreadConstraint.of(spec, wanted.labels)]
    p = placement(cluster(*(node(n, labels={"kubernetes.io/hostname": n}) for n in names)))
    plenty: Any = Devices(dict.fromkeys(names, 1))
    assert isinstance(p.find(wanted, plenty, spread=spread), ScheduleResult)
    assert len(plenty.asked) == 1
    scarce: Any = Devices({**dict.fromkeys(names, 0), "n277": 1})
    found = p.find(wanted, scarce, spread=spread)
    assert isinstance(found, ScheduleResult) and (found.node, found.plan) == ("n277", "device of n277")
    assert len(scarce.asked) == len(set(scarce.asked))
    nothing: Any = Devices(dict.fromkeys(names, 0))
    none = p.find(wanted, nothing, spread=spread)
    assert isinstance(none, Diagnosis) and set(none.rejections) == set(names)


_actions = st.lists(
    st.tuples(
        st.sampled_from(["pod", "gone", "node", "cordon", "uncordon"]), st.integers(0, 5), st.integers(1, 3)
    ),
    max_size=40,
)


@given(_actions)
@settings(max_examples=150, deadline=None)
def test_the_shape_index_agrees_with_filtering_every_node(actions: list[tuple[str, int, int]]) -> None:
    p = placement(cluster(node("n0"), node("n1", cpu="2")))
    placed: list[PodInfo] = []
    for action, which, size in actions:
        match action:
            case "pod":
                wanted = pod(requests={"cpu": str(size)})
                outcome = p.find(wanted, None)
                fitting = {n.name for n in p.cluster if p.run_filters(wanted, n) is None}
                if isinstance(outcome, ScheduleResult):
                    assert outcome.node in fitting
                    best = max(p.score_of(wanted, n, None) for n in p.cluster if n.name in fitting)
                    chosen = p.cluster.get(outcome.node)
                    assert chosen is not None
                    assert p.score_of(wanted, chosen, None) == best
                    p.cluster.add_pod(wanted, outcome.node)
                    placed.append(wanted)
                else:
                    assert not fitting
                    assert set(outcome.rejections) == {n.name for n in p.cluster}
            case "gone" if placed:
                p.cluster.remove_pod(placed.pop(which % len(placed)).uid)
            case "node":
                p.cluster.set_node(node(f"n{which}", cpu=str(size * 2)))
            case "cordon" | "uncordon" if p.cluster.get(f"n{which}"):
                p.cluster.set_node(node(f"n{which}", spec={"unschedulable": action == "cordon"}))

from __future__ import annotations

from typing import Any

from dray.placement.cache.nodes import ClusterCache, NodeInfo
from dray.placement.cache.pods import PodInfo
from dray.placement.outcome import Unschedulable
from dray.placement.placement import Placement
from dray.placement.plugins import filters
from dray.placement.plugins.pod_topology_spread import SpreadConstraint
from dray.placement.preemption import Candidate, DisruptionBudget, NoCandidate, preempt
from dray.placement.status import Diagnosis, Rejection
from tests.support.scheduler import Harness, cluster, node, pod

FULL = Rejection("NodeResourcesFit", ("Insufficient cpu",))


def attempt(
    wanted: PodInfo, where: ClusterCache, budgets: tuple[DisruptionBudget, ...] = ()
) -> Candidate | NoCandidate:
    def fits(n: NodeInfo) -> Rejection | None:
        return filters.node_resources_fit(wanted, n)

    rejections = {n.name: FULL for n in where}
    return preempt(wanted, where, rejections, fits=fits, budgets=budgets)


def test_the_cheapest_victims_are_chosen() -> None:
    where = cluster(node("a", cpu="2"), node("b", cpu="2"))
    cheap, dear, other = pod(priority=1, requests={"cpu": "1"}), pod(priority=5, requests={"cpu": "2"}), pod()
    where.add_pod(cheap, "a")
    where.add_pod(pod(priority=2, requests={"cpu": "1"}), "a")
    where.add_pod(other, "b")
    where.add_pod(dear, "b")
    assert attempt(pod(priority=10, requests={"cpu": "1"}), where) == Candidate("a", (cheap,))


def test_no_more_pods_are_evicted_than_necessary() -> None:
    where = cluster(node("a", cpu="4"))
    pods = [pod(priority=i, requests={"cpu": "1"}) for i in range(4)]
    for p in pods:
        where.add_pod(p, "a")
    outcome = attempt(pod(priority=10, requests={"cpu": "2"}), where)
    assert isinstance(outcome, Candidate)
    assert set(outcome.victims) == set(pods[:2])


def test_equals_are_never_preempted() -> None:
    where = cluster(node("a", cpu="1"))
    where.add_pod(pod(priority=5, requests={"cpu": "1"}), "a")
    outcome = attempt(pod(priority=5, requests={"cpu": "1"}), where)
    assert outcome == NoCandidate("0/1 nodes are available: 1 No preemption victims found for incoming pod.")


def test_nodes_that_eviction_cannot_help_are_not_considered() -> None:
    where = cluster(node("a"))
    where.add_pod(pod(), "a")
    stubborn = Rejection("DynamicResources", ("cannot allocate all claims",), resolvable=False)
    outcome = preempt(pod(priority=5), where, {"a": stubborn}, fits=lambda n: None)
    assert outcome == NoCandidate("0/1 nodes are available: 1 Preemption is not helpful for scheduling.")


def test_a_pod_may_decline_to_preempt() -> None:
    outcome = attempt(pod(priority=5, preemptionPolicy="Never"), cluster(node("a")))
    assert outcome == NoCandidate("not eligible due to preemptionPolicy=Never.", eligible=False)


def test_disruption_budgets_are_not_violated_where_possible() -> None:
    where = cluster(node("a", cpu="1"), node("b", cpu="1"))
    guarded, free = pod(labels={"app": "db"}, requests={"cpu": "1"}), pod(priority=1, requests={"cpu": "1"})
    where.add_pod(guarded, "a")
    where.add_pod(free, "b")
    budget = DisruptionBudget.of(
        {
            "metadata": {"namespace": "default", "name": "db"},
            "spec": {"selector": {"matchLabels": {"app": "db"}}},
            "status": {"disruptionsAllowed": 0},
        }
    )
    assert attempt(pod(priority=10, requests={"cpu": "1"}), where, (budget,)) == Candidate("b", (free,))


def test_a_node_that_was_not_rejected_for_its_pods_has_no_victims() -> None:
    where = cluster(node("a"))
    where.add_pod(pod(), "a")
    outcome = preempt(pod(priority=5), where, {"a": FULL}, fits=lambda n: None)
    assert outcome == NoCandidate("0/1 nodes are available: 1 No preemption victims found for incoming pod.")


def apart_from(**labels: str) -> dict[str, Any]:
    term = {"labelSelector": {"matchLabels": labels}, "topologyKey": "kubernetes.io/hostname"}
    return {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}


def test_pods_that_the_pod_has_anti_affinity_to_are_evicted_and_no_others() -> None:
    stage = Harness({"a": []})
    disliked, other = pod(labels={"app": "noisy"}), pod()
    stage.cluster.add_pod(other, "a")
    stage.cluster.add_pod(disliked, "a")
    decision = stage.decide(pod(priority=5, affinity=apart_from(app="noisy")))
    assert isinstance(decision, Unschedulable)
    assert decision.candidate == Candidate("a", (disliked,))


def test_pods_with_anti_affinity_to_the_pod_are_evicted() -> None:
    stage = Harness({"a": []})
    disliking = pod(affinity=apart_from(app="noisy"))
    stage.cluster.add_pod(disliking, "a")
    decision = stage.decide(pod(priority=5, labels={"app": "noisy"}))
    assert isinstance(decision, Unschedulable)
    assert decision.candidate == Candidate("a", (disliking,))


def test_as_many_pods_are_evicted_as_topology_spread_needs() -> None:
    where = cluster(node("a"), node("b", cpu="0"))
    alike = [pod(priority=i, labels={"app": "web"}) for i in range(2)]
    for one in alike:
        where.add_pod(one, "a")
    wanted = pod(
        priority=5, labels={"app": "web"}, requests={"cpu": "1"},
    )  # fmt: skip
    spec = {
        "topologyKey": "kubernetes.io/hostname",
        "maxSkew": 2,
        "labelSelector": {"matchLabels": {"app": "web"}},
    }
    placement = Placement(where)
    spread = [SpreadConstraint.of(spec, wanted.labels)]
    outcome = placement.find(wanted, None, spread=spread)
    assert isinstance(outcome, Diagnosis)
    chosen = preempt(
        wanted, where, outcome.rejections, fits=placement.filters_without_victims(wanted, spread=spread)
    )
    assert chosen == Candidate("a", (alike[0],))


def test_volumes_are_filtered_before_inter_pod_affinity() -> None:
    where = cluster(node("a"))
    where.add_pod(pod(labels={"app": "noisy"}), "a")
    unreachable = Rejection("VolumeBinding", ("elsewhere",), resolvable=False)
    placement = Placement(where)
    outcome = placement.find(pod(affinity=apart_from(app="noisy")), None, volumes=lambda n: unreachable)
    assert isinstance(outcome, Diagnosis)
    assert outcome.rejections == {"a": unreachable}

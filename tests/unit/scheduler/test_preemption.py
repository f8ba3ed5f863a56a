from __future__ import annotations

from dray.scheduler import filters
from dray.scheduler.nodes import Cluster, Node
from dray.scheduler.pods import Pod
from dray.scheduler.preemption import Budget, NoRoom, Preempt, preempt
from dray.scheduler.verdicts import Rejection

from .making import cluster, node, pod

FULL = Rejection("NodeResourcesFit", ("Insufficient cpu",))


def attempt(wanted: Pod, where: Cluster, budgets: tuple[Budget, ...] = ()) -> Preempt | NoRoom:
    def fits(n: Node) -> Rejection | None:
        return filters.resources_fit(wanted, n)

    rejections = {n.name: FULL for n in where}
    return preempt(wanted, where, rejections, fits=fits, budgets=budgets)


def test_the_cheapest_victims_are_chosen() -> None:
    where = cluster(node("a", cpu="2"), node("b", cpu="2"))
    cheap, dear, other = pod(priority=1, requests={"cpu": "1"}), pod(priority=5, requests={"cpu": "2"}), pod()
    where.place(cheap, "a")
    where.place(pod(priority=2, requests={"cpu": "1"}), "a")
    where.place(other, "b")
    where.place(dear, "b")
    assert attempt(pod(priority=10, requests={"cpu": "1"}), where) == Preempt("a", (cheap,))


def test_no_more_pods_go_than_must() -> None:
    where = cluster(node("a", cpu="4"))
    pods = [pod(priority=i, requests={"cpu": "1"}) for i in range(4)]
    for p in pods:
        where.place(p, "a")
    outcome = attempt(pod(priority=10, requests={"cpu": "2"}), where)
    assert isinstance(outcome, Preempt)
    assert set(outcome.victims) == set(pods[:2])


def test_equals_are_never_preempted() -> None:
    where = cluster(node("a", cpu="1"))
    where.place(pod(priority=5, requests={"cpu": "1"}), "a")
    outcome = attempt(pod(priority=5, requests={"cpu": "1"}), where)
    assert outcome == NoRoom("0/1 nodes are available: 1 No preemption victims found for incoming pod.")


def test_what_eviction_cannot_mend_is_not_tried() -> None:
    where = cluster(node("a"))
    where.place(pod(), "a")
    stubborn = Rejection("DynamicResources", ("cannot allocate all claims",), resolvable=False)
    outcome = preempt(pod(priority=5), where, {"a": stubborn}, fits=lambda n: None)
    assert outcome == NoRoom("0/1 nodes are available: 1 Preemption is not helpful for scheduling.")


def test_a_pod_may_decline_to_preempt() -> None:
    outcome = attempt(pod(priority=5, preemptionPolicy="Never"), cluster(node("a")))
    assert outcome == NoRoom("not eligible due to preemptionPolicy=Never.", eligible=False)


def test_budgets_are_spared_where_possible() -> None:
    where = cluster(node("a", cpu="1"), node("b", cpu="1"))
    guarded, free = pod(labels={"app": "db"}, requests={"cpu": "1"}), pod(priority=1, requests={"cpu": "1"})
    where.place(guarded, "a")
    where.place(free, "b")
    budget = Budget.of(
        {
            "metadata": {"namespace": "default", "name": "db"},
            "spec": {"selector": {"matchLabels": {"app": "db"}}},
            "status": {"disruptionsAllowed": 0},
        }
    )
    assert attempt(pod(priority=10, requests={"cpu": "1"}), where, (budget,)) == Preempt("b", (free,))

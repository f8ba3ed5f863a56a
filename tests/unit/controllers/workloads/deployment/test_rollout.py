"""Sizes and conditions of deployments: bounds hold at every step, and every rollout comes to its end."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from dray.controllers.workloads.deployment import progress, rollout

Object = dict[str, Any]


def deployment(replicas: int = 4, *, status: Object | None = None, **spec: Any) -> Object:
    template = {"metadata": {"labels": {"app": "x"}}, "spec": {"containers": []}}
    metadata = {"name": "d", "uid": "d", "generation": 1}
    return {
        "metadata": metadata,
        "spec": {"replicas": replicas, "template": template, **spec},
        "status": status or {},
    }


def rs(
    name: str, size: int, available: int = 0, *, created: str = "2024-01-01T00:00:00Z", **more: Any
) -> Object:
    metadata = {
        "name": name,
        "uid": name,
        "creationTimestamp": created,
        "annotations": more.pop("annotations", {}),
    }
    status = {"replicas": size, "readyReplicas": available, "availableReplicas": available}
    return {"metadata": metadata, "spec": {"replicas": size}, "status": status}


def rolling(surge: Any, unavailable: Any) -> Object:
    return {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": surge, "maxUnavailable": unavailable}}


def test_percentages_are_rounded_in_favour_of_running_pods():
    assert rollout.bounds(deployment(10, strategy=rolling("25%", "25%"))) == rollout.RollingLimits(3, 2)
    assert rollout.bounds(deployment(1, strategy=rolling("0%", "0%"))) == rollout.RollingLimits(0, 1)
    assert rollout.bounds(deployment(2, strategy=rolling(0, 5))) == rollout.RollingLimits(0, 2)


@given(
    replicas=st.integers(0, 12),
    surge=st.integers(0, 5),
    unavailable=st.integers(0, 5),
    start=st.integers(0, 12),
    available=st.data(),
)
def test_a_rolling_update_keeps_its_bounds_at_every_step_and_ends(
    replicas: int, surge: int, unavailable: int, start: int, available: st.DataObject
):
    wanted = deployment(replicas, strategy=rolling(surge, unavailable))
    limits = rollout.bounds(wanted)
    sizes = {"new": 0, "old": start}
    alive = {"new": 0, "old": start}
    for step in range(100):
        new, old = rs("new", sizes["new"], alive["new"]), rs("old", sizes["old"], alive["old"])
        changed = rollout.rolling_sizes(wanted, new, [old])
        total, running = sum(sizes.values()), sum(alive.values())
        sizes |= changed
        assert sum(sizes.values()) <= max(replicas + limits.surge, total)
        # What is given up runs no longer; what is new does so when it likes.
        alive = {name: min(alive[name], size) for name, size in sizes.items()}
        assert sum(alive.values()) >= min(replicas - limits.unavailable, running)
        fresh = sizes["new"] if step > 50 else available.draw(st.integers(alive["new"], sizes["new"]))
        alive["new"] = fresh
        if sizes == {"new": replicas, "old": 0} and alive["new"] == replicas:
            return
    raise AssertionError(f"it does not end: {sizes} {alive}")


def test_a_set_that_shrinks_is_not_counted_twice():
    wanted = deployment(10, strategy=rolling(3, 2))
    shrinking = rs("old", 8, 10)
    assert rollout.rolling_sizes(wanted, rs("new", 5), [shrinking]) == {}


def test_recreating_waits_for_the_last_old_pod():
    wanted = deployment(3, strategy={"type": "Recreate"})
    assert rollout.rolling_sizes(wanted, rs("new", 0), [rs("old", 3, 3)]) == {"old": 0}
    assert rollout.rolling_sizes(wanted, rs("new", 0), [rs("old", 0)], old_pods_left=True) == {}
    assert rollout.rolling_sizes(wanted, rs("new", 0), [rs("old", 0)]) == {"new": 3}


def test_a_change_of_size_in_a_rollout_is_shared_by_proportion():
    noted = {rollout.DESIRED_REPLICAS: "10", rollout.MAX_REPLICAS: "13"}
    sets = [rs("new", 5, annotations=noted), rs("old", 8, 8, annotations=noted)]
    wanted = deployment(15, strategy=rolling(3, 2))
    assert rollout.is_scaling_event(wanted, sets)
    assert rollout.scaled_sizes(wanted, sets[0], sets) == {"old": 11, "new": 7}
    assert rollout.scaled_sizes(deployment(0, strategy=rolling(3, 2)), sets[0], sets) == {"old": 0, "new": 0}


@given(replicas=st.integers(0, 40), sizes=st.lists(st.integers(1, 20), min_size=2, max_size=5))
def test_proportions_add_up(replicas: int, sizes: list[int]):
    noted = {rollout.DESIRED_REPLICAS: "10", rollout.MAX_REPLICAS: str(sum(sizes))}
    sets = [rs(f"s{i}", size, annotations=noted) for i, size in enumerate(sizes)]
    wanted = deployment(replicas, strategy=rolling(2, 0))
    resized = rollout.scaled_sizes(wanted, sets[0], sets)
    assert all(size >= 0 for size in resized.values())
    total, target = sum(resized.values()), replicas + 2 if replicas else 0
    # What rounding leaves over is the largest set's to bear, as far as it has pods to give.
    assert total == target or (total > target and resized[f"s{sizes.index(max(sizes))}"] == 0)


def test_a_roll_back_gets_a_new_number_and_remembers_the_old_ones():
    first = rs("a", 0, annotations={rollout.REVISION: "1"})
    second = rs("b", 3, annotations={rollout.REVISION: "2"})
    assert rollout.next_revision(first, [first, second]) == 3
    assert rollout.next_revision(second, [first, second]) == 2
    assert rollout.revision_annotations(first, 3) == {rollout.REVISION: "3", rollout.REVISION_HISTORY: "1"}


def progressing(status: Object) -> tuple[str, str]:
    found = next(c for c in status["conditions"] if c["type"] == "Progressing")
    return found["status"], found["reason"]


def test_progress_is_told_until_the_deadline_and_completion_is_final():
    new = rs("new", 2)
    young = deployment(2, progressDeadlineSeconds=60)
    made = progress.status_of(young, new, [new], now=1000.0, created=True)
    assert progressing(made) == ("True", "ReplicaSetUpdated")
    waiting = deployment(2, status=made, progressDeadlineSeconds=60)
    assert progress.seconds_until_timed_out(waiting, made, 1010.0) == 50.0
    assert progressing(progress.status_of(waiting, new, [new], now=1061.0)) == (
        "False",
        "ProgressDeadlineExceeded",
    )
    done = progress.status_of(waiting, rs("new", 2, 2), [rs("new", 2, 2)], now=1020.0)
    assert progressing(done) == ("True", "NewReplicaSetAvailable")
    later = progress.status_of(deployment(2, status=done), rs("new", 2, 1), [rs("new", 2, 1)], now=9000.0)
    assert progressing(later) == ("True", "NewReplicaSetAvailable"), (
        "a pod that fails later is no failed rollout"
    )


def test_conditions_keep_their_times_while_nothing_changes():
    new = rs("new", 2, 2)
    first = progress.status_of(deployment(2), new, [new], now=1000.0)
    again = progress.status_of(deployment(2, status=first), new, [new], now=2000.0)
    assert again == first

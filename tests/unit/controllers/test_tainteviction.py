"""For how long a pod tolerates the taints of its node."""

from __future__ import annotations

from typing import Any

from dray.controllers import nodelifecycle, tainteviction

Object = dict[str, Any]
UNREACHABLE = {"key": nodelifecycle.UNREACHABLE, "effect": "NoExecute", "timeAdded": "1970-01-01T00:01:40Z"}


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

"""What the cache of the classic generation counts."""

from __future__ import annotations

from typing import Any

from dray.placement.classic.attempt import ClassicPlan
from dray.placement.classic.cache import FINALIZER, ClassicCache
from dray.placement.status import Rejection
from tests.support.classic import begun, claim, node, plugin, pod


def test_assumed_instances_are_taken_until_they_are_forgotten() -> None:
    found: Any = plugin(claim("a"), claim("b"), structured=True)
    slice_ = {"metadata": {"name": "s"}, "nodeName": "n", "driverName": "d", "namedResources": {"instances": [{"name": "i"}]}}  # fmt: skip
    found.classic_cache.set_slice(slice_)
    plan = begun(found, pod("a")).filter(node("n"))
    assert isinstance(plan, ClassicPlan)
    found.classic_cache.assume(claim("a"), plan.results[0])
    assert isinstance(begun(found, pod("b")).filter(node("n")), Rejection)
    assert isinstance(found.pre_filter(pod("a")), Rejection)  # in the process of being allocated
    found.classic_cache.forget(claim("a"))
    assert isinstance(begun(found, pod("b")).filter(node("n")), ClassicPlan)


def test_an_older_version_of_a_claim_is_ignored() -> None:
    cache: Any = ClassicCache()
    cache.set_claim(claim("a", metadata={"resourceVersion": "5", "finalizers": [FINALIZER]}))
    cache.set_claim(claim("a", metadata={"resourceVersion": "4"}))
    assert cache.claim("ns", "a")["metadata"]["resourceVersion"] == "5"

"""What the message of a pending pod tells beyond upstream's words."""

from __future__ import annotations

from typing import Any

from dray.placement.cache.pods import PodInfo
from dray.placement.outcome import Unschedulable
from dray.placement.quirks import PlacementQuirks
from tests.support.scheduler import Harness, claim

UPSTREAM = (
    "0/2 nodes are available: 2 cannot allocate all claims. "
    "preemption: 0/2 nodes are available: 2 Preemption is not helpful for scheduling."
)
BIG = 'device.capacity["gpu.example.com"].memory.compareTo(quantity("80Gi")) >= 0'


def gpu(name: str, memory: str = "40Gi", **more: Any) -> dict[str, Any]:
    return {"name": name, "capacity": {"memory": {"value": memory}}, **more}


def two_nodes(*devices: dict[str, Any], advice: bool = True) -> Harness:
    return Harness({"a": devices, "b": devices}, quirks=PlacementQuirks(adds_reason_summary=advice))


def failed(stage: Harness, pod: PodInfo) -> Unschedulable:
    decision = stage.decide(pod)
    assert isinstance(decision, Unschedulable)
    return decision


def hint(stage: Harness, pod: PodInfo) -> str:
    message = failed(stage, pod).message
    assert message.startswith(UPSTREAM)
    return message.removeprefix(UPSTREAM).strip()


def test_an_emulated_release_gives_no_advice() -> None:
    stage = two_nodes(gpu("d0"), advice=False)
    decision = failed(stage, stage.user(claim(selector=BIG)))
    assert decision.message == UPSTREAM
    assert set(decision.reasons) == {"a", "b"}  # which go into the annotation all the same


def test_the_selector_that_removes_the_devices_is_named() -> None:
    stage = two_nodes(gpu("d0"), gpu("d1"))
    assert hint(stage, stage.user(claim("big", selector=BIG))) == (
        f"Request gpu of claim big wants 1 device; of 4 on 2 nodes: 4 not matching {BIG}."
    )


def test_devices_in_use_and_devices_that_do_not_suit_are_counted_apart() -> None:
    stage = two_nodes(gpu("d0"), gpu("d1", "96Gi"))
    for _ in range(2):
        stage.place(stage.user(claim(selector=BIG)))
    assert hint(stage, stage.user(claim("c", selector=BIG))) == (
        "Request gpu of claim c wants 1 device; of 4 on 2 nodes: "
        f"2 not matching {BIG}, 2 allocated to other claims."
    )


def test_advice_says_that_one_node_has_too_few_devices() -> None:
    stage = two_nodes(gpu("d0"), gpu("d1"))
    assert hint(stage, stage.user(claim("c", count=3))) == (
        "Request gpu of claim c wants 3 devices; of 4 on 2 nodes: 4 free, but not enough on one node."
    )


def test_a_taint_is_named() -> None:
    stage = two_nodes(gpu("d0", taints=[{"key": "broken", "effect": "NoSchedule"}]))
    assert "2 tainted broken:NoSchedule, which the claim does not tolerate" in hint(
        stage, stage.user(claim())
    )


def test_advice_says_that_a_cluster_has_no_devices() -> None:
    stage = two_nodes()
    assert hint(stage, stage.user(claim("c"))) == (
        "Request gpu of claim c wants 1 device, and there are none on 2 nodes."
    )


def test_the_second_pod_of_a_shape_gets_the_same_advice_as_the_first() -> None:
    stage = two_nodes(gpu("d0"))
    first, second = stage.user(claim("c", selector=BIG)), stage.user(claim("d", selector=BIG))
    assert hint(stage, first).replace("claim c ", "claim d ") == hint(stage, second)


def test_advice_stays_short_in_a_large_cluster() -> None:
    long = " || ".join(f'device.driver == "d{i}"' for i in range(40))
    stage = Harness({f"n{i}": [gpu("d0")] for i in range(200)})
    message = failed(stage, stage.user(claim("c", selector=long))).message
    assert "on 8 of 200 nodes" in message
    assert len(message) < 600

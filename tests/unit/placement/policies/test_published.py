"""The scores of the published policies, worked out by hand."""

from __future__ import annotations

from typing import Any

import pytest

from dray.placement.policies.model import DevicePolicy, Held, NodeState, Request, Setting
from dray.placement.policies.published import BestFit, DotProd, GpuClustering, GpuPacking
from dray.placement.policies.registry import policy_names, policy_type
from dray.placement.policies.workload import KnownWorkload

KIND: Any = object()
KINDS = {number: (KIND,) * number for number in range(9)}


def node(*free: int, cpu: int = 64_000, held: frozenset[Held] = frozenset()) -> NodeState:
    return NodeState(cpu=cpu, memory=0, free=free, kinds=KINDS[len(free)], held=held)


def request(count: int = 1, share: int = 1000, cpu: int = 4_000) -> Request:
    return Request(cpu=cpu, count=count, share_of=lambda kind: share)


def score(policy: type[DevicePolicy], asked: Request, state: NodeState) -> float:
    return policy(Setting(KnownWorkload())).score(asked, state)


@pytest.mark.parametrize(
    ("asked", "state", "expected"),
    [
        (request(share=500), node(1000, 500), 70),  # 100 - 60/128/2 - 1.0/8/2
        (request(count=2), node(1000, 1000), 76),
        (request(count=0, cpu=64_000), node(1000, 1000), 87),
    ],
)
def test_bestfit_scores_what_is_left(asked: Request, state: NodeState, expected: int) -> None:
    assert score(BestFit, asked, state) == expected


def test_dotprod_prefers_nodes_that_have_little_of_what_is_asked_for() -> None:
    full, empty = node(0, 1000, cpu=8_000), node(*[1000] * 8, cpu=128_000)
    assert score(DotProd, request(cpu=32_000), full) > score(DotProd, request(cpu=32_000), empty)
    assert score(DotProd, request(count=8, cpu=128_000), empty) == 0


@pytest.mark.parametrize(
    ("asked", "state", "expected"),
    [
        (request(share=300), node(1000, 400), 96),  # the device in use, of which 40 % are free
        (request(share=600), node(1000, 400), 49),  # an idle device of a node in use
        (request(count=2), node(1000, 1000, 1000, 1000), 29),  # an idle node with four devices
        (request(count=0), node(1000, 400), 0),
    ],
)
def test_gpupacking_prefers_devices_in_use_then_nodes_in_use(
    asked: Request, state: NodeState, expected: int
) -> None:
    assert score(GpuPacking, asked, state) == expected


def test_gpuclustering_keeps_like_requests_together() -> None:
    share, pair = Held(1, whole=False), Held(2, whole=True)
    asked = request(share=500)
    alone, among, idle, others = (
        score(GpuClustering, asked, node(500, 1000, held=frozenset(held)))
        for held in ({share}, {share, pair}, (), {pair})
    )
    assert alone > among > idle > others


def test_every_published_policy_takes_the_fullest_device() -> None:
    for name in ("bestfit", "dotprod", "gpupacking", "gpuclustering"):
        policy = policy_type(name)(Setting(KnownWorkload()))
        assert list(policy.order(request(share=200), node(1000, 300, 700)) or ()) == [1, 2, 0]


def test_names_of_policies_that_come_with_dray() -> None:
    assert policy_names()[:9] == [
        "default", "pack", "spread", "random", "bestfit", "dotprod", "gpupacking", "gpuclustering", "fgd",
    ]  # fmt: skip

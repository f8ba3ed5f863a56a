"""Fragmentation and FGD, against a plain reading of their definition."""

from __future__ import annotations

from math import exp
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dray.allocation import Features
from dray.placement.policies import fragmentation
from dray.placement.policies.fragmentation import FGD, Fragmentation
from dray.placement.policies.model import NodeState, PolicyError, Request, Setting, TypicalRequest
from dray.placement.policies.scorer import Scorer
from dray.placement.policies.workload import KnownWorkload, ObservedWorkload, parse_typical
from tests.support.scheduler import Harness

T4: Any = "T4"
P100: Any = "P100"
KINDS: dict[tuple[Any, ...], tuple[Any, ...]] = {}


def node(cpu: int, free: list[int], kinds: list[Any] | None = None) -> NodeState:
    chosen = tuple(kinds or [T4] * len(free))
    return NodeState(cpu=cpu, memory=0, free=tuple(free), kinds=KINDS.setdefault(chosen, chosen))


def request(cpu: int, count: int, share: int, only: Any = None) -> Request:
    def share_of(kind: Any) -> int | None:
        return share if only is None or kind is only else None

    return Request(cpu=cpu, count=count, share_of=share_of, key=(cpu, count, share, only))


requests = st.builds(
    request,
    st.sampled_from([1000, 4000, 8000]),
    st.integers(0, 4),
    st.sampled_from([200, 500, 1000]),
    st.sampled_from([None, T4, P100]),
)
free_parts = st.sampled_from([0, 200, 300, 500, 1000])
nodes = st.lists(st.tuples(free_parts, st.sampled_from([T4, P100])), min_size=1, max_size=5).flatmap(
    lambda devices: st.builds(
        node,
        st.sampled_from([0, 1000, 6000, 9000]),
        st.just([free for free, _ in devices]),
        st.just([kind for _, kind in devices]),
    )
)


def plainly(state: NodeState, typical: list[TypicalRequest]) -> float:
    amount = 0.0
    for asked, frequency in typical:
        usable = [
            free
            for free, share in zip(state.free, asked.shares(state.kinds), strict=True)
            if asked.count and share is not None and free >= share
        ]
        fits = asked.count and len(usable) >= asked.count and asked.cpu <= state.cpu
        amount += frequency * (sum(state.free) - sum(usable) if fits else sum(state.free))
    return amount


@given(nodes, st.lists(requests, min_size=1, max_size=6))
def test_fragmentation_is_what_typical_requests_cannot_use(state: NodeState, asked: list[Request]) -> None:
    typical = [TypicalRequest(one, 1 / len(asked)) for one in asked]
    found = Fragmentation(KnownWorkload(typical)).of(state)
    assert abs(found - plainly(state, typical)) < 1e-6


def test_what_is_remembered_of_states_is_bounded_by_its_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fragmentation, "_KEPT_BYTES", 10_000)
    typical = [TypicalRequest(request(1000, 1, 500), 1.0)]
    found = Fragmentation(KnownWorkload(typical))
    for left in range(1000):
        state = node(2000, [left] * 8)
        assert abs(found.of(state) - plainly(state, typical)) < 1e-6
        assert sum(len(each.known) for each in found._by_kinds.values()) <= 10_000 // (220 + 8 * 36) + 1


def test_fgd_keeps_whole_devices_whole_for_those_who_need_them() -> None:
    whole, half = request(1000, 1, 1000), request(1000, 1, 500)
    workload = KnownWorkload([TypicalRequest(whole, 0.5), TypicalRequest(half, 0.5)])
    policy = FGD(Setting(workload))
    state = node(8000, [1000, 500, 1000])
    assert next(iter(policy.order(half, state) or ())) == 1
    assert policy.order(whole, state) is None
    # 500 thousandths that a whole request cannot use, at a frequency of 1/2, are gone
    assert policy.score(half, state) == int(100 / (1 + exp(-0.25)))


def test_typical_requests_make_up_95_percent_of_the_pods() -> None:
    pods = [request(1000, 1, 1000)] * 70 + [request(4000, 1, 500)] * 25 + [request(8000, 2, 1000)] * 5
    typical = KnownWorkload.of(pods).typical
    assert [(one.request.cpu, round(one.frequency, 3)) for one in typical] == [(1000, 0.737), (4000, 0.263)]


def test_an_observed_workload_follows_the_pods_that_are_there() -> None:
    workload = ObservedWorkload()
    for number in range(4):
        workload.add(f"a{number}", request(1000, 1, 500))
    assert [one.request.cpu for one in workload.typical] == [1000]
    for number in range(4):
        workload.remove(f"a{number}")
        workload.add(f"b{number}", request(8000, 1, 500))
    assert [one.request.cpu for one in workload.typical] == [8000]


def test_typical_pods_can_be_declared_and_are_read_with_the_device_classes_that_are_there() -> None:
    shapes = parse_typical(
        [
            {
                "cpu": "6",
                "weight": 3,
                "devices": {"requests": [{"name": "g", "exactly": {"deviceClassName": "gpu"}}]},
            },
            {"cpu": "500m"},
        ],
        "file",
    )
    harness = Harness({"n": ["a", "b"]})
    scorer = Scorer(FGD, harness.claim_cache.inventory, harness.claim_cache.usage, Features(), typical=shapes)
    (gpu, part), (cpu, rest) = scorer.policy.setting.workload.typical
    assert (gpu.cpu, gpu.count, part) == (6000, 1, 0.75)
    assert (cpu.cpu, cpu.count, rest) == (500, 0, 0.25)
    assert scorer.observed is None


@pytest.mark.parametrize(
    ("document", "complaint"),
    [
        ([{"gpus": 1}], "file: Object contains unknown field `gpus`"),
        ([{"cpu": "many"}], "file: quantities must match"),
        ([], "file: it needs pods, each with a positive weight"),
    ],
)
def test_typical_pods_that_make_no_sense_are_one_line(document: Any, complaint: str) -> None:
    with pytest.raises(PolicyError, match=complaint):
        parse_typical(document, "file")

"""Rules that hold for every allocation, tried on random problems and judged by the independent checker."""

from __future__ import annotations

from typing import Any

from hypothesis import assume, given, settings
from hypothesis import strategies as st

from dray.allocation.problems import solve
from dray.api.release import V1_37
from tests.support.allocation import (
    DRIVER,
    claim,
    counter_set,
    device_class,
    draws,
    first_available,
    node,
    request,
    resource_slice,
)
from tests.support.allocation import device as a_device
from tests.support.allocation import wants as wanting
from tests.support.allocation_checker import has_solution, violations

FEATURES = [
    "DRAConsumableCapacity",
    "DRADeviceBindingConditions+DRAResourceClaimDeviceStatus",
    "DRADeviceTaints",
    "DRAListTypeAttributes",
    "DRAPartitionableDevices",
    "DRAPrioritizedList",
]
ATTRIBUTES = [f"{DRIVER}/{name}" for name in ("numa", "model", "links")]
SELECTORS = [
    "true",
    f'device.attributes["{DRIVER}"].numa < 2',
    f'device.attributes["{DRIVER}"].model == "a"',
    f'device.attributes["{DRIVER}"].numa != 0 || device.attributes["{DRIVER}"].model == "b"',
]
TAINT = {"key": "t", "value": "v", "effect": "NoSchedule"}

rarely = st.sampled_from([False, False, False, True])


@st.composite
def devices(draw: st.DrawFn, name: str) -> dict[str, Any]:
    attributes: dict[str, Any] = {"numa": draw(st.integers(0, 2)), "model": draw(st.sampled_from("ab"))}
    if draw(st.booleans()):
        attributes["links"] = draw(
            st.lists(st.sampled_from(["n0", "n1", "n2"]), min_size=1, max_size=2, unique=True)
        )
    fields: dict[str, Any] = {"attributes": attributes}
    if draw(rarely):
        fields["allowMultipleAllocations"] = True
        policy = {"default": "2", "validRange": {"min": "1", "step": "1"}}
        fields["capacity"] = {
            "bw": draw(st.sampled_from([{"value": "4"}, {"value": "4", "requestPolicy": policy}]))
        }
    if draw(st.booleans()):
        fields["consumesCounters"] = draws("set", mem=draw(st.integers(1, 3)))
    if draw(rarely):
        fields["taints"] = [TAINT]
    return a_device(name, **fields)


@st.composite
def wants(draw: st.DrawFn, *, largest: int) -> dict[str, Any]:
    count = draw(st.sampled_from([*range(1, largest + 1), 1]))
    fields: dict[str, Any] = {}
    if draw(st.booleans()):
        fields["tolerations"] = [{"key": "t", "operator": "Exists"}]
    if draw(rarely):
        fields["capacity"] = {"requests": {"bw": draw(st.sampled_from(["1", "3"]))}}
    selectors = draw(st.lists(st.sampled_from(SELECTORS), max_size=1))
    if not fields.get("capacity") and draw(rarely) and draw(st.booleans()):
        return wanting("All", *selectors, **fields)
    return wanting(count, *selectors, **fields)


@st.composite
def claims(draw: st.DrawFn, number: int, *, largest: int) -> dict[str, Any]:
    requests = []
    for position in range(draw(st.integers(1, 2))):
        if draw(rarely):
            alternatives = {f"s{i}": draw(wants(largest=largest)) for i in range(2)}
            requests.append(first_available(f"r{position}", **alternatives))
        else:
            requests.append({"name": f"r{position}", "exactly": draw(wants(largest=largest))})
    constraints = [
        {draw(st.sampled_from(["matchAttribute", "matchAttribute", "distinctAttribute"])): attribute}
        for attribute in draw(st.lists(st.sampled_from(ATTRIBUTES), max_size=2))
    ]
    return claim(*requests, name=f"c{number}", constraints=constraints)


@st.composite
def problems(draw: st.DrawFn, *, most: int, largest: int = 2) -> dict[str, Any]:
    stock = [draw(devices(f"d{i}")) for i in range(draw(st.integers(1, most)))]
    split = draw(st.integers(0, len(stock)))
    counters = [counter_set("set", mem=draw(st.integers(1, 6)))]
    slices = [
        resource_slice(name="counters", counters=counters, of=3),
        resource_slice(*stock[:split], name="a", of=3),
        resource_slice(*stock[split:], name="b", of=3),
    ]
    taken = [
        d["name"]
        for d in stock
        if not d.get("allowMultipleAllocations") and draw(rarely) and draw(st.booleans())
    ]
    return {
        "name": "random",
        "features": FEATURES,
        "node": node(),
        "resourceSlices": slices,
        "deviceClasses": [device_class()],
        "claims": [draw(claims(i, largest=largest)) for i in range(draw(st.integers(1, 2)))],
        "allocatedDevices": [{"driver": DRIVER, "pool": "pool", "device": name} for name in taken],
    }


@settings(max_examples=150, deadline=None)
@given(problems(most=12, largest=3))
def test_a_plan_breaks_no_rule(problem: dict[str, Any]) -> None:
    answer = solve(problem, release=V1_37)
    assume(answer["results"] is not None)
    assert violations(problem, answer["results"]) == []


@settings(max_examples=120, deadline=None)
@given(problems(most=5))
def test_there_is_no_plan_only_if_there_is_no_solution(problem: dict[str, Any]) -> None:
    answer = solve(problem, release=V1_37)
    assume(
        not answer["error"]
    )  # a constraint that forbids "all devices" ends the search, whatever else is possible
    assert (answer["results"] is not None) == has_solution(problem)


@settings(max_examples=50, deadline=None)
@given(problems(most=8))
def test_the_same_problem_has_the_same_answer(problem: dict[str, Any]) -> None:
    first, second = solve(problem), solve(problem)
    assert (first["results"], first["error"]) == (second["results"], second["error"])


@settings(max_examples=50, deadline=None)
@given(problems(most=8), st.permutations(range(3)))
def test_the_order_of_slices_makes_no_difference(problem: dict[str, Any], order: list[int]) -> None:
    shuffled = {**problem, "resourceSlices": [problem["resourceSlices"][i] for i in order]}
    assert solve(shuffled)["results"] == solve(problem)["results"]


def test_the_checker_finds_what_is_wrong() -> None:
    problem = {
        "features": FEATURES,
        "node": node(),
        "resourceSlices": [
            resource_slice(name="counters", counters=[counter_set("set", mem=1)], of=2),
            resource_slice(
                a_device("d0", attributes={"numa": 0}, consumesCounters=draws("set", mem=1)),
                a_device("d1", attributes={"numa": 1}, consumesCounters=draws("set", mem=1), taints=[TAINT]),
                name="devices",
                of=2,
            ),
        ],
        "deviceClasses": [device_class()],
        "claims": [claim(request("r", 2), constraints=[{"matchAttribute": f"{DRIVER}/numa"}])],
    }
    entry = {"request": "r", "driver": DRIVER, "pool": "pool"}
    found = violations(
        problem, [{"devices": {"results": [{**entry, "device": "d0"}, {**entry, "device": "d1"}]}}]
    )
    assert any("tainted" in v for v in found)
    assert any("overdrawn" in v for v in found)
    assert any("nothing in common" in v for v in found)
    twice = violations(problem, [{"devices": {"results": [{**entry, "device": "d0"}] * 2}}])
    assert any("twice" in v for v in twice)
    assert not has_solution(problem)

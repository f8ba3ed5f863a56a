"""The search on problems that are built to be hard."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from dray.allocation import AllocationTimeout, Inventory, Plan, Unallocatable, Usage, allocate
from tests.support.allocation import (
    DRIVER,
    EVERYTHING,
    claim,
    counter_set,
    device,
    devices_of,
    draws,
    first_available,
    inventory,
    node,
    request,
    resource_slice,
    run,
    wants,
)


def stock(*devices: dict[str, Any]) -> Inventory:
    return inventory(resource_slice(*devices))


class Steps:
    """A clock that counts how often it is looked at."""

    def __init__(self) -> None:
        self.looks = 0

    def __call__(self) -> float:
        self.looks += 1
        return float(self.looks)


def work(where: Inventory, *claims: dict[str, Any]) -> tuple[Plan | Unallocatable, int]:
    """The outcome, and how often the search looked at the clock on the way: once in many steps."""
    clock = Steps()
    outcome = allocate(
        where,
        Usage(),
        node(),
        claims,
        features=EVERYTHING,
        new_share_id=lambda: "share",
        deadline=1e9,
        monotonic=clock,
    )
    return outcome, clock.looks


def test_too_few_equivalent_devices_fail_without_search() -> None:
    alike = stock(*(device(f"d{i}") for i in range(31)))
    outcome, looks = work(alike, claim(*(request(f"r{i}", 8) for i in range(4))))
    assert isinstance(outcome, Unallocatable)
    assert looks <= 2


def test_competing_requests_are_bounded_without_trying_all_combinations() -> None:
    devices = [device(f"d{i:02}", attributes={"i": i}) for i in range(20)]
    small = f'device.attributes["{DRIVER}"].i < 9'
    requests = [request("any", 8), request("a", 5, small), request("b", 4, small)]
    outcome, looks = work(stock(*devices), claim(*requests))
    assert devices_of(outcome) == [
        [f"d{i:02}" for i in (*range(9, 17), *range(5), *range(5, 9))],
    ]
    assert looks <= 5
    outcome, looks = work(stock(*devices), claim(*requests, request("c", 1, small)))
    assert isinstance(outcome, Unallocatable)
    assert looks <= 2


def test_match_constraints_are_bounded_by_value() -> None:
    devices = [device(f"d{i:02}", attributes={"root": f"r{i % 5}", "i": i}) for i in range(20)]
    devices += [device(f"e{i}", attributes={"root": "r4", "i": 100 + i}) for i in range(3)]
    asks = claim(request("r", 6), constraints=[{"matchAttribute": f"{DRIVER}/root"}])
    outcome, looks = work(stock(*devices), asks)
    assert devices_of(outcome) == [["d04", "d09", "d14", "d19", "e0", "e1"]]
    assert looks <= 5


def test_counters_bound_the_search() -> None:
    devices = [
        device(f"d{i:02}", attributes={"i": i}, consumesCounters=draws("set", mem=2)) for i in range(24)
    ]
    where = inventory(
        resource_slice(name="counters", counters=[counter_set("set", mem=21)], of=2),
        resource_slice(*devices, name="devices", of=2),
    )
    outcome, looks = work(where, claim(request("a", 5), request("b", 6)))
    assert isinstance(outcome, Unallocatable)
    assert looks <= 2
    outcome, _ = work(where, claim(request("a", 5), request("b", 5)))
    assert isinstance(outcome, Plan)


def test_a_claim_that_cannot_be_allocated_fails_before_others_are_tried() -> None:
    devices = [device(f"d{i:02}", attributes={"i": i, "pair": i // 2}) for i in range(16)]
    impossible = claim(
        request("r", 2),
        name="impossible",
        constraints=[{"matchAttribute": f"{DRIVER}/pair"}, {"matchAttribute": f"{DRIVER}/i"}],
    )
    outcome, looks = work(stock(*devices), claim(request("a", 4), request("b", 4), name="easy"), impossible)
    assert isinstance(outcome, Unallocatable)
    assert looks <= 3


def test_distinct_values_bound_the_search() -> None:
    devices = [device(f"d{i:02}", attributes={"hole": i % 7, "i": i}) for i in range(28)]
    asks = claim(*(request(f"r{i}") for i in range(8)), constraints=[{"distinctAttribute": f"{DRIVER}/hole"}])
    outcome, looks = work(stock(*devices), asks)
    assert isinstance(outcome, Unallocatable)
    assert looks <= 3


def test_many_alternatives_do_not_multiply() -> None:
    devices = [device(f"d{i}", attributes={"i": i}) for i in range(6)]
    step = {f"s{i}": wants(3 - i % 3, cls="class") for i in range(6)}
    outcome, looks = work(stock(*devices), claim(*(first_available(f"r{i}", **step) for i in range(7))))
    assert isinstance(outcome, Unallocatable)
    assert looks < 50


def test_more_devices_than_pythons_stack_is_deep() -> None:
    devices = [device(f"d{i:04}", attributes={"i": i}) for i in range(1300)]
    last = claim(request("r", 1, f'device.attributes["{DRIVER}"].i < 32'), name="last")
    asks = [claim(request("r", 32), name=f"c{n}") for n in range(40)]
    outcome = run(stock(*devices), *asks, last)
    assert isinstance(outcome, Plan)
    assert devices_of(outcome)[-1] == ["d0031"]


def test_the_deadline_is_kept() -> None:
    rooms = [
        device(f"d{i:02}", allowMultipleAllocations=True, capacity={"m": str(97 + 10 * i)}) for i in range(10)
    ]
    sizes = itertools.cycle(["31", "37", "41", "43", "47", "53"])
    asks = [claim(request("r", capacity={"requests": {"m": next(sizes)}}), name=f"c{n}") for n in range(40)]
    where, clock = stock(*rooms), Steps()
    with pytest.raises(AllocationTimeout) as caught:
        allocate(
            where,
            Usage(),
            node(),
            asks,
            features=EVERYTHING,
            new_share_id=lambda: "share",
            deadline=20.0,
            monotonic=clock,
        )
    assert caught.value.message == "filter operation aborted: context deadline exceeded"
    assert clock.looks == 21


def test_no_deadline_needs_no_clock() -> None:
    assert isinstance(run(stock(device("d")), claim(request("r"))), Plan)


def test_nothing_to_allocate_is_a_plan() -> None:
    assert devices_of(run(stock())) == []
    assert run(stock(), claim()).results == [{"devices": {}}]  # type: ignore[union-attr]

"""Upstream's recorded answers to allocation problems, given again device for device."""

from __future__ import annotations

import copy
import gzip
import json
from collections.abc import Iterator
from itertools import permutations, product
from pathlib import Path
from typing import Any

import pytest

from dray.allocation.problems import solve
from tests.support.allocation_checker import Problem, violations

Document = dict[str, Any]

# With no other features than these upstream uses its oldest allocator, which tries pools in the order of a Go map.
OLDEST = {"DRAAdminAccess", "DRADeviceTaints", "DRAPartitionableDevices", "DRAPrioritizedList"}


def problems(conformance: Path, name: str) -> list[Document]:
    with gzip.open(conformance / f"allocator-{name}.jsonl.gz", "rt") as lines:
        return [json.loads(line) for line in lines]


def without_share_ids(results: list[Document] | None) -> list[Document] | None:
    results = copy.deepcopy(results)
    for result in results or ():
        for device in (result.get("devices") or {}).get("results") or ():
            device.pop("shareID", None)
    return results


def same(answer: Document, expected: Document) -> bool:
    if without_share_ids(answer["results"]) != without_share_ids(expected["results"]):
        return False
    return bool(meaning(answer["error"]) == meaning(expected["error"]))


def meaning(error: str) -> str:
    """The recording's class lister words a missing class in its own way."""
    head, found, _ = error.partition("could not retrieve device class")
    return head + found


def with_pools_in_other_orders(problem: Document) -> Iterator[tuple[Document, dict[str, str]]]:
    """The same problem with its pools renamed so that they are tried in another order, and the names to go back."""
    names: dict[str, list[str]] = {}
    for one in problem["resourceSlices"]:
        of_driver = names.setdefault(one["spec"]["driver"], [])
        if one["spec"]["pool"]["name"] not in of_driver:
            of_driver.append(one["spec"]["pool"]["name"])
    for orders in product(*(permutations(of_driver) for of_driver in names.values())):
        renamed = {
            (driver, pool): f"{rank}-{pool}"
            for driver, order in zip(names, orders, strict=True)
            for rank, pool in enumerate(order)
        }
        changed = copy.deepcopy(problem)
        for one in changed["resourceSlices"]:
            spec = one["spec"]
            spec["pool"]["name"] = renamed[spec["driver"], spec["pool"]["name"]]
        for device in changed["allocatedDevices"]:
            device["pool"] = renamed.get((device["driver"], device["pool"]), device["pool"])
        yield changed, {new: old for (_, old), new in renamed.items()}


def answer_with_names(problem: Document, names: dict[str, str]) -> Document:
    answer = solve(problem)
    for result in answer["results"] or ():
        for device in result["devices"].get("results") or ():
            device["pool"] = names.get(device["pool"], device["pool"])
    return answer


def differing(recorded: list[Document]) -> list[str]:
    """The problems whose answer is not upstream's."""
    wrong = []
    for problem in recorded:
        expected = problem["expected"]
        if expected is None or same(solve(problem), expected):
            continue
        if OLDEST.issuperset(problem["features"]) and any(
            same(answer_with_names(other, names), expected)
            for other, names in with_pools_in_other_orders(problem)
        ):
            continue
        wrong.append(problem["name"])
    return wrong


@pytest.mark.parametrize("name", ["table", "random", "hard"])
def test_answers_are_upstreams_device_for_device(conformance: Path, name: str) -> None:
    assert differing(problems(conformance, name)) == []


def test_only_the_order_of_a_go_map_makes_a_difference_and_rarely(conformance: Path) -> None:
    recorded = problems(conformance, "random")
    apart = [p for p in recorded if p["expected"] is not None and not same(solve(p), p["expected"])]
    assert all(OLDEST.issuperset(p["features"]) for p in apart)
    assert len(apart) <= len(recorded) // 200


@pytest.mark.parametrize("name", ["random", "hard"])
def test_where_upstream_gave_up_the_answer_is_right(conformance: Path, name: str) -> None:
    open_problems = [p for p in problems(conformance, name) if p["expected"] is None]
    assert open_problems
    for problem in open_problems:
        results = solve(problem)["results"]
        assert (results is not None) is problem.get("feasible", results is not None), problem["name"]
        if results is not None:
            assert violations(problem, results) == [], problem["name"]
        elif "feasible" not in problem:
            assert wants_all_of_what_is_taken(problem), problem["name"]


def wants_all_of_what_is_taken(problem: Document) -> bool:
    """Whether a request that has no alternative asks for all devices although one of them is in use."""
    known = Problem(problem)
    return any(
        request.get("exactly", {}).get("allocationMode") == "All"
        and any(
            known.selected(request["exactly"], known.devices[id]) for id in known.taken & set(known.devices)
        )
        for claim in known.claims
        for request in claim["spec"]["devices"]["requests"]
    )


@pytest.mark.parametrize("name", ["random", "hard"])
def test_upstreams_own_plans_pass_the_checker(conformance: Path, name: str) -> None:
    """The checker is as strict as upstream, but for two things upstream 1.36 gets wrong."""
    for problem in problems(conformance, name):
        expected = problem["expected"]
        if expected is None or expected["results"] is None:
            continue
        wrong = [
            v
            for v in violations(problem, expected["results"])
            if "not distinct" not in v and not (administrators_look(problem) and "overdrawn" in v)
        ]
        assert wrong == [], problem["name"]


def administrators_look(problem: Document) -> bool:
    return "adminAccess" in json.dumps(problem["claims"])

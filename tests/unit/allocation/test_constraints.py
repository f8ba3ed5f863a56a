from __future__ import annotations

from typing import Any

import pytest

from dray.allocation import Features, Plan
from dray.allocation.attributes import attribute_values, lookup_attribute
from dray.api.release import V1_36
from tests.support.allocation import (
    DRIVER,
    claim,
    device,
    devices_of,
    first_available,
    inventory,
    request,
    resource_slice,
    run,
    wants,
)

SCALARS = Features.for_release(V1_36)
LISTS = Features.for_release(V1_36, list_attributes=True, prioritized_list=True)


def stock(*values: Any, attribute: str = "a") -> Any:
    devices = [
        device(f"d{i}", attributes={attribute: v} if v is not None else {}) for i, v in enumerate(values)
    ]
    return inventory(resource_slice(*devices))


def match(*requests: str, attribute: str = f"{DRIVER}/a") -> dict[str, Any]:
    return {"matchAttribute": attribute, **({"requests": list(requests)} if requests else {})}


def distinct(*requests: str) -> dict[str, Any]:
    return {"distinctAttribute": f"{DRIVER}/a", **({"requests": list(requests)} if requests else {})}


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (["x", "y", "y"], ["d1", "d2"]),
        ([1, 2, 1], ["d0", "d2"]),
        ([True, False, False], ["d1", "d2"]),
        ([{"version": "1.0.0"}, {"version": "1.0.1"}, {"version": "1.0.1"}], ["d1", "d2"]),
        ([None, "x", "x"], ["d1", "d2"]),
        (["1", 1, "1"], ["d0", "d2"]),
    ],
)
@pytest.mark.parametrize("features", [SCALARS, LISTS])
def test_devices_that_must_match_have_the_same_value(
    values: list[Any], expected: list[str], features: Features
) -> None:
    outcome = run(stock(*values), claim(request("r", 2), constraints=[match()]), features=features)
    assert devices_of(outcome) == [expected]


def test_lists_match_if_all_have_a_value_in_common() -> None:
    values = stock(["a", "b"], ["b", "c"], ["a", "c"], ["c", "b"], "b")
    outcome = run(values, claim(request("r", 4), constraints=[match()]), features=LISTS)
    assert devices_of(outcome) == [["d0", "d1", "d3", "d4"]]


def test_backtracking_restores_the_state_of_a_match_constraint() -> None:
    # d0 with d1 leaves only b, which d2 and d3 lack; d0 with d2 leaves a.
    values = stock(["a", "b"], ["b"], ["a"], ["a"])
    outcome = run(values, claim(request("r", 3), constraints=[match()]), features=LISTS)
    assert devices_of(outcome) == [["d0", "d2", "d3"]]


def test_without_list_attributes_a_list_matches_nothing() -> None:
    values = stock([1], [1])
    assert (
        isinstance(run(values, claim(request("r", 1), constraints=[match()]), features=SCALARS), Plan) is True
    )
    assert (
        isinstance(run(values, claim(request("r", 2), constraints=[match()]), features=SCALARS), Plan)
        is False
    )


def test_a_constraint_binds_only_the_requests_it_names() -> None:
    asks = claim(request("r"), request("s"), constraints=[match("s", attribute="other.example.com/a")])
    assert not isinstance(run(stock("x", "y"), asks), Plan)
    asks = claim(request("r", 2), request("s"), constraints=[match("s")])
    assert devices_of(run(stock("x", None, "y"), asks)) == [["d0", "d1", "d2"]]


def test_a_constraint_may_name_an_alternative() -> None:
    asks = claim(first_available("r", a=wants(2), b=wants(1)), constraints=[match("r/a")])
    assert devices_of(run(stock("x", "y"), asks)) == [["d0"]]
    asks = claim(first_available("r", a=wants(2), b=wants(1)), constraints=[match("r/b")])
    assert devices_of(run(stock("x", "y"), asks)) == [["d0", "d1"]]


def test_qualified_names_are_found_with_and_without_their_domain() -> None:
    attributes = {"a": {"int": 1}, "other.example.com/b": {"int": 2}}
    assert lookup_attribute(attributes, f"{DRIVER}/a", DRIVER, lists=False) == {("int", 1)}
    assert lookup_attribute(attributes, "other.example.com/b", DRIVER, lists=False) == {("int", 2)}
    assert lookup_attribute(attributes, "other.example.com/a", DRIVER, lists=False) is None
    assert lookup_attribute(attributes, "a", "another", lists=False) == {("int", 1)}
    assert attribute_values({}, lists=True) == frozenset()


def test_distinct_devices_have_different_values() -> None:
    asks = claim(request("r"), request("s"), constraints=[distinct()])
    assert devices_of(run(stock("x", "x", "y"), asks)) == [["d0", "d2"]]
    asks = claim(request("r"), request("s"), request("t"), constraints=[distinct()])
    assert not isinstance(run(stock("x", "x", "y"), asks), Plan)


def test_distinct_lists_have_no_value_in_common() -> None:
    asks = claim(request("r"), request("s"), constraints=[distinct()])
    assert devices_of(run(stock(["x", "y"], ["y"], ["z"]), asks, features=LISTS)) == [["d0", "d2"]]


def test_136_compares_only_the_last_device_of_a_request() -> None:
    asks = claim(request("r", 3), constraints=[distinct()])
    values = stock("x", "y", "x", "z")
    assert devices_of(run(values, asks, features=Features.for_release(V1_36))) == [["d0", "d1", "d2"]]
    assert devices_of(run(values, asks, features=Features())) == [["d0", "d1", "d3"]]


def test_136_forgets_the_last_device_of_a_request_after_backtracking() -> None:
    # d0 and d1 leave nothing for s. Having gone back on d1, upstream no longer knows that d0 has the value of d2.
    model_s = f'device.attributes["{DRIVER}"].s'
    devices = [
        device("d0", attributes={"a": "x", "s": False}),
        device("d1", attributes={"a": "y", "s": True}),
        device("d2", attributes={"a": "x", "s": False}),
    ]
    asks = claim(request("r", 2), request("s", 1, model_s), constraints=[distinct("r")])
    outcome = run(inventory(resource_slice(*devices)), asks, features=Features.for_release(V1_36))
    assert devices_of(outcome) == [["d0", "d2", "d1"]]
    assert not isinstance(run(inventory(resource_slice(*devices)), asks, features=Features()), Plan)

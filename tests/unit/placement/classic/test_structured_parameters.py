"""1.30's structured parameters: which instances a claim gets."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dray.placement.classic.structured_parameters import (
    NamedResources,
    NodeDriver,
    SuitabilityError,
    allocate,
    allocated_instances,
)
from tests.support.classic import wanted


def offer(*colors: str, node: str = "n") -> NamedResources:
    instances = [
        {"name": f"i-{i}", "attributes": [{"name": "color", "string": color}]}
        for i, color in enumerate(colors)
    ]
    return NamedResources({"nodeName": node, "driverName": "d", "namedResources": {"instances": instances}})


def names(result: Any) -> list[str]:
    return [name for _, name in allocated_instances(result)]


def test_requests_take_the_first_instances_that_are_free_and_selected() -> None:
    offers = {NodeDriver("n", "d"): [offer("white", "black", "black", "black")]}
    black = 'attributes.string["color"] == "black"'
    assert names(allocate(wanted(black, black), "n", offers, {NodeDriver("n", "d"): {"i-1"}})) == [
        "i-2",
        "i-3",
    ]
    assert allocate(wanted(black, black, black, black), "n", offers, {}) is None
    assert allocate(wanted(black), "elsewhere", offers, {}) is None


def test_the_filter_of_the_class_holds_for_every_request() -> None:
    offers = {NodeDriver("n", "d"): [offer("white", "black")]}
    chosen = allocate(wanted("true", only='attributes.string["color"] == "black"'), "n", offers, {})
    assert names(chosen) == ["i-1"]


def test_the_error_of_a_selector_names_node_and_driver() -> None:
    offers = {NodeDriver("n", "d"): [offer("white")]}
    with pytest.raises(
        SuitabilityError, match='checking node "n" and resources of driver "d": evaluate request'
    ):
        allocate(wanted('attributes.string["size"] == "x"'), "n", offers, {})


def test_the_error_of_a_selector_is_raised_even_if_another_request_finds_nothing() -> None:
    offers = {NodeDriver("n", "d"): [offer("white")]}
    with pytest.raises(SuitabilityError):
        allocate(wanted("false", 'attributes.string["size"] == "x"'), "n", offers, {})


@given(
    st.lists(st.sampled_from(["black", "white"]), max_size=6), st.lists(st.booleans(), min_size=1, max_size=4)
)
def test_no_instance_is_given_twice(colors: list[str], asked: list[bool]) -> None:
    selectors = ['attributes.string["color"] == "black"' if black else "true" for black in asked]
    result = allocate(wanted(*selectors), "n", {NodeDriver("n", "d"): [offer(*colors)]}, {})
    if result is not None:
        assert len(set(names(result))) == len(asked)

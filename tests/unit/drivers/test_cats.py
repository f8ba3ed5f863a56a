"""The cats, in every generation."""

from __future__ import annotations

from typing import Any

import pytest

from dray.cel import named_resources
from dray.driver.classic import CannotAllocate, Pending
from dray.drivers.cats import CatsController, CatsDriver, cats_of
from dray.drivers.cats.structured import parameters_for, slice_of

BLACK = {"spec": {"color": "black", "size": "large"}}
ANY: dict[str, Any] = {}


def pending(*wishes: dict[str, Any]) -> list[Pending]:
    return [Pending(f"cat-{i}", {"metadata": {"name": f"c-{i}"}}, {}, wish) for i, wish in enumerate(wishes)]


async def test_the_choosiest_claim_is_served_first() -> None:
    results = await CatsController().allocate(pending(ANY, BLACK, BLACK), node="n", others=[])
    data = [r["resourceHandles"][0]["data"] for r in results]
    assert ["white" in d for d in data] == [True, False, False]


async def test_a_cat_that_a_claim_holds_is_not_given_again() -> None:
    controller = CatsController()
    first = await controller.allocate(pending(BLACK, BLACK), node="n", others=[])
    others = [{"status": {"allocation": result}} for result in first]
    with pytest.raises(CannotAllocate):
        await controller.allocate(pending(BLACK), node="n", others=others)
    assert await controller.unsuitable_nodes({}, pending(BLACK), ["n", "m"], others) == [["n"]]


async def test_an_immediate_claim_goes_where_there_is_a_cat() -> None:
    controller = CatsController(["n", "m"], count=1)
    [first] = await controller.allocate(pending(BLACK), node="", others=[])
    [second] = await controller.allocate(pending(BLACK), node="", others=[{"status": {"allocation": first}}])
    assert '"n"' in first["resourceHandles"][0]["data"]
    assert '"m"' in second["resourceHandles"][0]["data"]


def test_all_generations_offer_the_same_cats() -> None:
    names = [cat.name for cat in cats_of("n")]
    assert [device.name for device in CatsDriver().devices("n")] == names
    assert [i["name"] for i in slice_of("n")["namedResources"]["instances"]] == names


def test_generated_parameters_select_what_was_asked_for() -> None:
    made = parameters_for({"metadata": {"name": "x", "namespace": "ns", "uid": "u"}, **BLACK})
    [request] = made["driverRequests"][0]["requests"]
    selector = named_resources.compile(request["namedResources"]["selector"])
    instances = slice_of("n")["namedResources"]["instances"]
    assert [i["name"] for i in instances if selector.matches(i["attributes"])] == ["felix", "mohrle"]

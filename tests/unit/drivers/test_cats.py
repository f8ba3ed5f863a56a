"""The cats, in every generation."""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml

from dray.cel.environment import named_resources
from dray.driver import Claim, ClaimRef, Handle
from dray.driver.classic import CannotAllocate, Pending, node_services
from dray.drivers.cats import CatsController, CatsDriver, Generation, cats_of
from dray.drivers.cats.inventory import CatSelector
from dray.drivers.cats.parameters import DEFINITION, parameters_for
from tests.support.paths import SEEDS

BLACK = {"spec": {"color": "black", "size": "large"}}
ANY: dict[str, Any] = {}


def pending(*wishes: dict[str, Any]) -> list[Pending]:
    return [Pending(f"cat-{i}", {"metadata": {"name": f"c-{i}"}}, {}, wish) for i, wish in enumerate(wishes)]


async def test_the_claim_with_the_fewest_matching_cats_is_served_first() -> None:
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


async def test_a_claims_parameters_count_more_than_those_of_its_class() -> None:
    small_black = {"spec": {"color": "black", "size": "small"}}
    claim = Pending("cat", {"metadata": {"name": "c"}}, {}, {"spec": {"size": "large"}}, small_black)
    [result] = await CatsController().allocate([claim], node="n", others=[])
    data = json.loads(result["resourceHandles"][0]["data"])
    assert (data["color"], data["size"]) == ("black", "large")
    assert "shareable" not in result


async def test_claims_are_shareable_if_their_parameters_say_so() -> None:
    [result] = await CatsController().allocate(pending({"spec": {"shareable": True}}), node="n", others=[])
    assert result["shareable"] is True
    metadata = {"name": "x", "namespace": "ns", "uid": "u"}
    assert parameters_for({"metadata": metadata, "spec": {"shareable": True}})["shareable"] is True
    assert "shareable" not in parameters_for({"metadata": metadata, "spec": {}})


def test_no_cat_belongs_to_two_generations_and_each_has_two_large_black_ones() -> None:
    litters = [cats_of("n", generation, count=6) for generation in Generation]
    names = [cat.name for litter in litters for cat in litter]
    assert len(names) == len(set(names)) == 18
    assert all(sum(CatSelector("black", "large").matches(cat) for cat in litter) >= 2 for litter in litters)


def test_a_node_offers_devices_and_named_resources() -> None:
    driver = CatsDriver()
    assert [d.name for d in driver.devices("n")] == [c.name for c in cats_of("n", Generation.DEVICES)]
    assert [d.name for d in driver.named_resources("n")] == [
        c.name for c in cats_of("n", Generation.STRUCTURED)
    ]


async def test_the_node_reads_what_the_controller_wrote() -> None:
    [result] = await CatsController().allocate(pending(BLACK), node="n", others=[])
    driver = CatsDriver()
    [device] = driver.allocated(Handle(data=result["resourceHandles"][0]["data"]))
    ref = ClaimRef("default", "c", "u")
    assert driver.edits(Claim(ref=ref, devices=[device]), device).env["CAT_FELIX"] == "large black"


async def test_the_node_reads_what_the_scheduler_wrote() -> None:
    handle = Handle(structured={"nodeName": "n", "results": [{"namedResources": {"name": "sylvester"}}]})
    [device] = CatsDriver().allocated(handle)
    assert device.id == ("n", "sylvester", "")


def test_generated_parameters_select_what_was_asked_for() -> None:
    made = parameters_for({"metadata": {"name": "x", "namespace": "ns", "uid": "u"}, **BLACK})
    [request] = made["driverRequests"][0]["requests"]
    selector = named_resources.compile(request["namedResources"]["selector"])
    model = node_services.named_resources(list(CatsDriver().named_resources("n")))
    instances = model["instances"]
    assert [i["name"] for i in instances if selector.matches(i["attributes"])] == ["sylvester", "panther"]


@pytest.mark.parametrize("folder", ["classic-1.27", "structured-1.30"])
def test_the_definition_in_the_examples_is_the_drivers(folder: str) -> None:
    file = SEEDS / folder / "claim-parameters-crd.yaml"
    assert yaml.safe_load(file.read_text()) == DEFINITION

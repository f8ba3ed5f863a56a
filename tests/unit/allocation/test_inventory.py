from __future__ import annotations

from dray.allocation import DeviceID
from dray.allocation.inventory import Inventory
from tests.support.allocation import (
    DRIVER,
    EVERYTHING,
    claim,
    device,
    device_class,
    devices_of,
    inventory,
    node,
    request,
    resource_slice,
    run,
)


def names(stock: Inventory, where: str = "node", **labels: str) -> list[str]:
    return [d.name for pool in stock.pools(node(where, **labels), EVERYTHING) for d in pool.devices]


def test_slices_are_added_changed_and_removed() -> None:
    stock = inventory(resource_slice(device("d0")))
    assert names(stock) == ["d0"]
    assert stock.add_slice(resource_slice(device("d0"), device("d1"))) == {"node"}
    assert names(stock) == ["d0", "d1"]
    assert stock.remove_slice("slice") == {"node"}
    assert names(stock) == []
    assert stock.remove_slice("slice") == set()


def test_a_changed_slice_affects_only_nodes_that_see_its_pool() -> None:
    stock = inventory(
        resource_slice(device("a"), name="a", node="one", of=2),
        resource_slice(device("b"), name="b", node="two", of=2),
        resource_slice(device("c"), name="c", node="three", pool="another"),
    )
    views = {where: stock.pools(node(where), EVERYTHING) for where in ("one", "two", "three")}
    assert stock.add_slice(resource_slice(device("b"), name="b", node="two", generation=2, of=2)) == {
        "one",
        "two",
    }
    assert stock.pools(node("three"), EVERYTHING) is views["three"]
    assert names(stock, "one") == []


def test_a_slice_for_several_nodes_may_concern_any() -> None:
    stock = inventory(resource_slice(device("a"), name="a", node=None, allNodes=True))
    assert names(stock, "one") == names(stock, "two") == ["a"]
    assert stock.add_slice(resource_slice(device("b"), name="a", node=None, allNodes=True)) is None
    assert names(stock, "one") == names(stock, "two") == ["b"]


def test_nodes_that_see_the_same_of_a_pool_share_it() -> None:
    stock = inventory(resource_slice(device("a"), node=None, allNodes=True))
    (one,), (two,) = (stock.pools(node(where), EVERYTHING) for where in ("one", "two"))
    assert one is two


def test_what_a_node_sees_follows_its_labels() -> None:
    term = {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}
    stock = inventory(resource_slice(device("d"), node=None, nodeSelector={"nodeSelectorTerms": [term]}))
    assert names(stock, zone="b") == []
    assert names(stock, zone="a") == ["d"]
    stock.forget_node("node")
    assert names(stock, zone="b") == []


def test_a_selector_is_evaluated_once_for_devices_of_one_shape() -> None:
    alike = [device(f"d{i}", attributes={"model": "x"}) for i in range(8)]
    stock = inventory(resource_slice(*alike))
    (pool,) = stock.pools(node(), EVERYTHING)
    assert len({id(d.shape) for d in pool.devices}) == 1
    another = inventory(resource_slice(*alike, device("e", attributes={"model": "y"})))
    (pool,) = another.pools(node(), EVERYTHING)
    assert len({id(d.shape) for d in pool.devices}) == 2


def test_a_changed_class_is_read_again() -> None:
    stock = inventory(resource_slice(device("d0"), device("d1")), classes=[device_class()])
    asks = claim(request("r", "All"))
    assert devices_of(run(stock, asks)) == [["d0", "d1"]]
    stock.add_class(device_class("device.driver != ''", "false"))
    assert not hasattr(run(stock, asks), "results")
    stock.remove_class("class")
    assert stock.device_class("class") is None


def test_equal_specs_are_read_once() -> None:
    stock = inventory(resource_slice(device("d")))
    one, two = claim(request("r"), name="one"), claim(request("r"), name="two")
    assert stock.demand(one, EVERYTHING) is stock.demand(two, EVERYTHING)
    assert stock.demand(one, EVERYTHING) is not stock.demand(claim(request("s")), EVERYTHING)


def test_a_device_is_found_by_its_name() -> None:
    stock = inventory(
        resource_slice(device("d", attributes={"v": 1}), name="a"),
        resource_slice(device("d", attributes={"v": 2}), name="b", generation=2),
    )
    found = stock.device(DeviceID(DRIVER, "pool", "d"))
    assert found is not None
    assert found.document["attributes"] == {"v": {"int": 2}}
    assert stock.device(DeviceID(DRIVER, "pool", "e")) is None
    assert len(list(stock.slices())) == 2

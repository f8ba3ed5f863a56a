from __future__ import annotations

from typing import Any

import pytest

from dray.allocation import AllocationError, DeviceID, Features, Plan, Usage
from dray.api.release import V1_36
from tests.support.allocation import (
    DRIVER,
    EVERYTHING,
    claim,
    device,
    device_class,
    devices_of,
    first_available,
    inventory,
    node,
    request,
    resource_slice,
    run,
    wants,
)


def result(outcome: Any) -> dict[str, Any]:
    assert isinstance(outcome, Plan)
    (one,) = outcome.results
    return one


def opaque(name: str, *requests: str) -> dict[str, Any]:
    entry: dict[str, Any] = {"opaque": {"driver": DRIVER, "parameters": {"is": name}}}
    return {**entry, "requests": list(requests)} if requests else entry


def test_a_result_names_device_and_node() -> None:
    assert result(run(inventory(resource_slice(device("d"))), claim(request("r")))) == {
        "devices": {"results": [{"request": "r", "driver": DRIVER, "pool": "pool", "device": "d"}]},
        "nodeSelector": {
            "nodeSelectorTerms": [
                {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["node"]}]}
            ]
        },
    }


def test_tolerations_and_binding_conditions_are_carried_over() -> None:
    toleration = {"key": "k", "operator": "Exists"}
    waits = device("d", bindingConditions=["ready"], bindingFailureConditions=["broken"])
    (entry,) = result(run(inventory(resource_slice(waits)), claim(request("r", tolerations=[toleration]))))[
        "devices"
    ]["results"]
    assert entry["tolerations"] == [toleration]
    assert entry["bindingConditions"] == ["ready"]
    assert entry["bindingFailureConditions"] == ["broken"]


def test_devices_for_all_nodes_need_no_selector_unless_they_bind_to_one() -> None:
    assert "nodeSelector" not in result(
        run(inventory(resource_slice(device("d"), node=None, allNodes=True)), claim(request("r")))
    )
    bound = run(
        inventory(resource_slice(device("d", bindsToNode=True), node=None, allNodes=True)),
        claim(request("r")),
    )
    assert result(bound)["nodeSelector"]["nodeSelectorTerms"][0]["matchFields"][0]["values"] == ["node"]


def test_node_selectors_are_joined_without_repetition() -> None:
    def selecting(*requirements: dict[str, Any]) -> dict[str, Any]:
        return {"nodeSelectorTerms": [{"matchExpressions": list(requirements)}]}

    zone = {"key": "zone", "operator": "In", "values": ["a", "b"]}
    same = {"key": "zone", "operator": "In", "values": ["b", "a"]}
    rack = {"key": "rack", "operator": "Exists"}
    stock = inventory(
        resource_slice(device("d0"), name="a", pool="a", node=None, nodeSelector=selecting(zone)),
        resource_slice(device("d1"), name="b", pool="b", node=None, nodeSelector=selecting(same, rack)),
    )
    outcome = run(stock, claim(request("r", 2)), on=node(zone="a", rack="1"))
    assert result(outcome)["nodeSelector"] == selecting(zone, rack)


def test_a_slice_with_several_node_selector_terms_is_an_error() -> None:
    terms = [{"matchExpressions": [{"key": "zone", "operator": "In", "values": [v]}]} for v in "ab"]
    stock = inventory(resource_slice(device("d"), node=None, nodeSelector={"nodeSelectorTerms": terms}))
    with pytest.raises(
        AllocationError, match=r"create NodeSelector for claim claim: unsupported ResourceSlice.NodeSelector"
    ):
        run(stock, claim(request("r")), on=node(zone="a"))


def test_class_configuration_comes_first_once_with_all_its_requests() -> None:
    classes = [
        device_class(name="a", config=[opaque("of-a")]),
        device_class(name="b", config=[opaque("of-b")]),
    ]
    stock = inventory(resource_slice(*(device(f"d{i}") for i in range(4))), classes=classes)
    asks = claim(
        request("x", cls="a"),
        request("y", cls="b"),
        request("z", cls="a"),
        config=[opaque("mine"), opaque("y-only", "y")],
    )
    assert result(run(stock, asks))["devices"]["config"] == [
        {"source": "FromClass", **opaque("of-a", "x", "z")},
        {"source": "FromClass", **opaque("of-b", "y")},
        {"source": "FromClaim", **opaque("mine")},
        {"source": "FromClaim", **opaque("y-only", "y")},
    ]


def test_only_the_chosen_alternative_is_configured() -> None:
    classes = [
        device_class("false", name="a", config=[opaque("of-a")]),
        device_class(name="b", config=[opaque("of-b")]),
    ]
    stock = inventory(resource_slice(device("d")), classes=classes)
    asks = claim(
        first_available("r", x=wants(cls="a"), y=wants(cls="b")),
        config=[opaque("for-x", "r/x"), opaque("for-y", "r/y")],
    )
    assert result(run(stock, asks))["devices"]["config"] == [
        {"source": "FromClass", **opaque("of-b", "r/y")},
        {"source": "FromClaim", **opaque("for-y", "r/y")},
    ]


def test_137_lists_claim_configuration_once_and_drops_a_list_of_all_requests() -> None:
    stock = inventory(resource_slice(*(device(f"d{i}") for i in range(3))))
    asks = claim(
        request("x"),
        request("y"),
        request("z"),
        config=[opaque("two", "x", "y"), opaque("all", "x", "y", "z")],
    )
    two, everything = opaque("two", "x", "y"), opaque("all", "x", "y", "z")
    assert result(run(stock, asks, features=Features.for_release(V1_36)))["devices"]["config"] == [
        *[{"source": "FromClaim", **two}] * 2,
        *[{"source": "FromClaim", **everything}] * 3,
    ]
    assert result(run(stock, asks, features=Features()))["devices"]["config"] == [
        {"source": "FromClaim", **two},
        {"source": "FromClaim", **opaque("all")},
    ]


def test_admin_access_allocates_devices_in_use() -> None:
    stock, usage = inventory(resource_slice(device("d0"), device("d1"))), Usage()
    usage.take(DeviceID(DRIVER, "pool", "d0"))
    asks = claim(request("r", adminAccess=True))
    outcome = run(stock, asks, usage=usage)
    assert devices_of(outcome) == [["d0"]]
    assert result(outcome)["devices"]["results"][0]["adminAccess"] is True
    together = run(stock, claim(request("r", 2, adminAccess=True), name="a"), claim(request("r"), name="b"))
    assert not isinstance(together, Plan)


def test_skipped_node_operations_need_a_node_that_knows_them() -> None:
    stock = inventory(resource_slice(device("d"), skipNodeOperations=["Prepare"]))
    features = Features(optional_node_operations=True)
    able = {**node(), "status": {"declaredFeatures": ["DRAOptionalNodeOperations"]}}
    outcome = run(stock, claim(request("r")), features=features, on=able)
    assert result(outcome)["devices"]["results"][0]["skipNodeOperations"] == ["Prepare"]
    assert not isinstance(run(stock, claim(request("r")), features=features), Plan)
    assert isinstance(run(stock, claim(request("r")), features=EVERYTHING), Plan)

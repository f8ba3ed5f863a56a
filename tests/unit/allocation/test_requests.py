from __future__ import annotations

from typing import Any

import pytest

from dray.allocation import AllocationError, Features, Unallocatable
from dray.api.release import NEWEST, V1_36, V1_37, Gates
from tests.support.allocation import (
    DRIVER,
    claim,
    device,
    device_class,
    devices_of,
    first_available,
    inventory,
    request,
    resource_slice,
    run,
    wants,
)

STOCK = resource_slice(*(device(f"d{i}", attributes={"model": "ab"[i % 2]}) for i in range(4)))


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (request("r", cls="missing"), 'request r: could not retrieve device class missing: deviceclass.resource.k8s.io "missing" not found'),
        (request("r", cls=""), "request r: missing device class name (unsupported request type?)"),
        (request("r", allocationMode="Some"), "request r: unsupported count mode Some"),
        (request("r", selectors=[{}]), "request r, selector #0: CEL expression empty (unsupported selector type?)"),
        (request("r", adminAccess=True), "request r: admin access is requested, but the feature is disabled"),
        (request("r", capacity={"requests": {"m": "1"}}), "request r: has capacity requests, but the DRAConsumableCapacity feature is disabled"),
        (first_available("r", s=wants()), "request r: has subrequests, but the DRAPrioritizedList feature is disabled"),
        (request("r", derivedAttributes=[{"name": "x/y", "expression": "1"}]), "request r: cannot handle request with derived attributes, the feature is disabled"),
    ],
)  # fmt: skip
def test_an_invalid_request_fails_with_upstreams_message(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(AllocationError) as caught:
        run(inventory(STOCK), claim(wrong), features=Features.for_release(V1_36))
    assert caught.value.message == f"claim default/claim, {message}"


def test_too_many_devices_and_empty_constraints_are_errors() -> None:
    with pytest.raises(AllocationError, match="number of requested devices 33 exceeds the claim limit of 32"):
        run(inventory(STOCK), claim(request("r", 33)))
    with pytest.raises(
        AllocationError, match=r"constraint #0: empty constraint \(unsupported constraint type\?\)"
    ):
        run(inventory(STOCK), claim(request("r"), constraints=[{}]))


def test_of_several_mistakes_the_first_is_reported() -> None:
    with pytest.raises(AllocationError, match="request a: "):
        run(inventory(STOCK), claim(request("a", cls=""), request("b", cls="")))


def test_a_broken_selector_is_an_error_once_a_device_reaches_it() -> None:
    asks = claim(request("r", 1, "nonsense"))
    assert isinstance(run(inventory(), asks), Unallocatable)
    with pytest.raises(
        AllocationError, match=r"^claim default/claim: selector #0: CEL compile error: compilation failed: "
    ):
        run(inventory(STOCK), asks)
    stock = inventory(STOCK, classes=[device_class("nonsense")])
    with pytest.raises(AllocationError, match=r"^class class: selector #0: CEL compile error: "):
        run(stock, claim(request("r")))


def test_a_selector_that_fails_on_a_device_is_an_error_once_the_device_is_tried() -> None:
    fussy = f'device.attributes["{DRIVER}"].size > 1'
    stock = inventory(resource_slice(device("d0", attributes={"size": 2}), device("d1"), device("d2")))
    assert devices_of(run(stock, claim(request("r", 1, fussy)))) == [["d0"]]
    with pytest.raises(
        AllocationError, match=r"^claim default/claim: selector #0: CEL runtime error: no such key: size"
    ):
        run(stock, claim(request("r", 2, fussy)))
    with pytest.raises(AllocationError, match=f"selector #0 on device {DRIVER}/pool/d1: CEL runtime error"):
        run(stock, claim(request("r", 2, fussy)), features=Features())


def test_an_error_is_reached_even_if_later_requests_could_not_be_served() -> None:
    fussy = f'device.attributes["{DRIVER}"].size > 1'
    stock = inventory(resource_slice(device("d0", attributes={"size": 1}), device("d1")))
    hopeless = request("b", 1, "false")
    with pytest.raises(AllocationError, match="no such key"):
        run(stock, claim(request("a", 1, fussy), hopeless))
    assert isinstance(run(stock, claim(hopeless, request("c", 1, fussy))), Unallocatable)


def test_an_error_on_a_device_that_an_earlier_request_took_is_not_met() -> None:
    fussy = f'device.attributes["{DRIVER}"].size > 1'
    stock = inventory(resource_slice(device("d0"), device("d1", attributes={"size": 2})))
    assert devices_of(run(stock, claim(request("a"), request("b", 1, fussy)))) == [["d0", "d1"]]


def test_alternatives_are_tried_in_order() -> None:
    asks = claim(first_available("r", big=wants(5), some=wants(3), one=wants(1)))
    outcome = run(inventory(STOCK), asks)
    assert devices_of(outcome) == [["d0", "d1", "d2"]]
    assert {result["request"] for result in outcome.results[0]["devices"]["results"]} == {"r/some"}


def test_a_later_request_may_need_another_alternative() -> None:
    asks = claim(first_available("r", many=wants(4), few=wants(2)), request("s", 2))
    assert devices_of(run(inventory(STOCK), asks)) == [["d0", "d1", "d2", "d3"]]


def test_a_claim_never_gets_more_devices_than_it_may_have() -> None:
    stock = inventory(resource_slice(*(device(f"d{i}") for i in range(60))))
    asks = claim(first_available("r", many=wants(31), few=wants(1)), request("s", 2))
    assert len(devices_of(run(stock, asks))[0]) == 3


def test_all_devices_means_all_that_are_selected() -> None:
    model_a = f'device.attributes["{DRIVER}"].model == "a"'
    assert devices_of(run(inventory(STOCK), claim(request("r", "All", model_a)))) == [["d0", "d2"]]
    assert isinstance(run(inventory(STOCK), claim(request("r", "All", "false"))), Unallocatable)


def test_all_devices_against_a_constraint_is_an_error() -> None:
    asks = claim(request("r", "All"), constraints=[{"matchAttribute": f"{DRIVER}/model"}])
    with pytest.raises(AllocationError) as caught:
        run(inventory(STOCK), asks)
    assert caught.value.message == (
        f"claim default/claim, request r: cannot add device {DRIVER}/pool/d1 "
        "because a claim constraint would not be satisfied"
    )


def test_derived_attributes_stand_in_for_attributes_in_constraints() -> None:
    parity = [{"name": "example.com/parity", "expression": f'device.attributes["{DRIVER}"].model == "a"'}]
    asks = claim(
        request("r", 2, derivedAttributes=parity), constraints=[{"matchAttribute": "example.com/parity"}]
    )
    features = Features(derived_attributes=True)
    assert devices_of(run(inventory(STOCK), asks, features=features)) == [["d0", "d2"]]
    broken = [{"name": "example.com/parity", "expression": f'device.attributes["{DRIVER}"].colour'}]
    asks = claim(
        request("r", 2, derivedAttributes=broken), constraints=[{"matchAttribute": "example.com/parity"}]
    )
    with pytest.raises(
        AllocationError, match=r"^evaluate derived attribute example.com/parity on device .* failed: "
    ):
        run(inventory(STOCK), asks, features=features)


def test_features_are_found_by_the_names_of_their_gates() -> None:
    gates = ["DRAAdminAccess", "DRADeviceBindingConditions+DRAResourceClaimDeviceStatus"]
    assert Features.named(NEWEST, gates) == Features(admin_access=True, binding_conditions=True)
    assert not Features.named(NEWEST, ["DRADeviceBindingConditions"]).binding_conditions


def test_the_release_decides_about_every_behaviour_that_is_not_a_gate() -> None:
    assert Features.of(V1_36, Gates(frozenset())) == Features.for_release(V1_36) != Features()
    assert Features.for_release(V1_37) == Features()

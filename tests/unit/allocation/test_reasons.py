from __future__ import annotations

import json

from dray.allocation import Cause, DeviceID, Features, Reasons, Unallocatable, Usage
from dray.api.release import V1_36
from tests.support.allocation import (
    DRIVER,
    EVERYTHING,
    Document,
    claim,
    counter_set,
    device,
    device_class,
    draws,
    first_available,
    inventory,
    request,
    resource_slice,
    run,
    wants,
)


def why(*args: object, **fields: object) -> Reasons:
    outcome = run(*args, **fields)  # type: ignore[arg-type]
    assert isinstance(outcome, Unallocatable)
    return outcome.reasons


def counts(reasons: Reasons, request: int = 0) -> dict[Cause, int]:
    found: dict[Cause, int] = {}
    for removal in reasons.requests[request].removals:
        found[removal.cause] = found.get(removal.cause, 0) + removal.count
    return found


def gpus(n: int, **fields: object) -> list[Document]:
    return [device(f"d{i}", attributes={"model": "ab"[i % 2], "numa": i // 2}, **fields) for i in range(n)]


def test_every_device_is_accounted_for() -> None:
    usage = Usage()
    usage.take(DeviceID(DRIVER, "pool", "d0"), "team/job")
    tainted = device(
        "t", attributes={"model": "a", "numa": 0}, taints=[{"key": "k", "value": "v", "effect": "NoExecute"}]
    )
    stock = inventory(
        resource_slice(*gpus(4), tainted, name="here"),
        resource_slice(device("x"), name="bad", pool="updating", of=2),
        classes=[device_class(f'device.driver == "{DRIVER}"')],
    )
    model_a = f'device.attributes["{DRIVER}"].model == "a"'
    reasons = why(stock, claim(request("r", 3, model_a)), usage=usage)
    (only,) = reasons.requests
    assert only.considered == 6
    assert only.usable + sum(removal.count for removal in only.removals) == only.considered
    assert counts(reasons) == {
        Cause.CLAIM_SELECTOR: 2,
        Cause.TAKEN: 1,
        Cause.TAINT: 1,
        Cause.POOL_INCOMPLETE: 1,
    }
    details = {removal.cause: removal for removal in only.removals}
    assert details[Cause.CLAIM_SELECTOR].source == model_a
    assert details[Cause.CLAIM_SELECTOR].selector == 0
    assert details[Cause.CLAIM_SELECTOR].examples == (
        DeviceID(DRIVER, "pool", "d1"),
        DeviceID(DRIVER, "pool", "d3"),
    )
    assert details[Cause.TAKEN].detail == "allocated to claim team/job"
    assert details[Cause.TAINT].detail == "k=v:NoExecute"
    assert only.nearest is not None
    assert only.nearest.device == DeviceID(DRIVER, "pool", "d0")
    assert reasons.pools == (f"{DRIVER}/updating: currently being updated",)


def test_class_selectors_are_told_from_those_of_the_claim() -> None:
    stock = inventory(resource_slice(*gpus(2)), classes=[device_class("true", "false")])
    (removal,) = why(stock, claim(request("r"))).requests[0].removals
    assert (removal.cause, removal.selector, removal.detail) == (
        Cause.CLASS_SELECTOR,
        1,
        "class class: selector #1: false",
    )


def test_the_nearest_miss_came_further_than_the_others() -> None:
    model_a = f'device.attributes["{DRIVER}"].model == "a"'
    numa_9 = f'device.attributes["{DRIVER}"].numa == 9'
    reasons = why(inventory(resource_slice(*gpus(4))), claim(request("r", 1, model_a, numa_9)))
    nearest = reasons.requests[0].nearest
    assert nearest is not None
    assert nearest.device == DeviceID(DRIVER, "pool", "d0")
    assert nearest.detail == f"claim default/claim: selector #1: {numa_9}"


def test_counters_and_capacity_say_what_is_missing() -> None:
    stock = inventory(
        resource_slice(name="counters", counters=[counter_set("set", mem=4)], of=2),
        resource_slice(*gpus(2, consumesCounters=draws("set", mem=3)), name="devices", of=2),
    )
    usage = Usage()
    usage.take(DeviceID(DRIVER, "pool", "d0"), "team/job")
    reasons = why(stock, claim(request("r")), usage=usage)
    assert counts(reasons) == {Cause.TAKEN: 1, Cause.COUNTERS: 1}
    assert "set/mem: 3 needed, 1 left" in [removal.detail for removal in reasons.requests[0].removals]

    shared = device("s", allowMultipleAllocations=True, capacity={"memory": "4Gi"})
    stock, usage = inventory(resource_slice(shared)), Usage()
    usage.consume(DeviceID(DRIVER, "pool", "s"), {"memory": "3Gi"})
    asks = claim(request("r", capacity={"requests": {"memory": "2Gi"}}))
    (removal,) = why(stock, asks, usage=usage).requests[0].removals
    assert removal.cause is Cause.CAPACITY
    asks = claim(request("r", capacity={"requests": {"bandwidth": "2"}}))
    (removal,) = why(stock, asks, usage=usage).requests[0].removals
    assert (removal.cause, removal.detail) == (Cause.CAPACITY_SHAPE, "does not offer bandwidth=2")


def test_a_missing_attribute_and_a_switched_off_feature_are_causes() -> None:
    stock = inventory(resource_slice(device("d0"), device("d1", bindingConditions=["ready"])))
    asks = claim(request("r"), constraints=[{"matchAttribute": f"{DRIVER}/root"}])
    assert counts(why(stock, asks, features=Features.for_release(V1_36))) == {
        Cause.ATTRIBUTE: 1,
        Cause.FEATURE: 1,
    }


def test_alternatives_are_explained_one_by_one() -> None:
    asks = claim(first_available("r", many=wants(9), none=wants(1, "false")))
    reasons = why(inventory(resource_slice(*gpus(2))), asks)
    assert [(r.request, r.wanted, r.usable) for r in reasons.requests] == [("r/many", 9, 2), ("r/none", 1, 0)]
    assert reasons.short


def test_requests_that_only_fail_together_say_so() -> None:
    stock = inventory(resource_slice(*gpus(3)))
    reasons = why(stock, claim(request("r", 2), name="a"), claim(request("r", 2), name="b"))
    assert not reasons.short
    assert reasons.together == ("the requests compete for the same devices",)


def test_a_constraint_that_cannot_be_met_is_named() -> None:
    devices = [device(f"d{i}", attributes={"root": f"r{i}", "model": "a"}) for i in range(3)]
    constraints = [{"matchAttribute": f"{DRIVER}/model"}, {"matchAttribute": f"{DRIVER}/root"}]
    reasons = why(inventory(resource_slice(*devices)), claim(request("r", 2), constraints=constraints))
    assert reasons.together == (f"claim default/claim: constraint #1 over {DRIVER}/root cannot be met",)


def test_counters_that_suffice_one_by_one_but_not_together_are_named() -> None:
    stock = inventory(
        resource_slice(name="counters", counters=[counter_set("set", mem=4)], of=2),
        resource_slice(*gpus(2, consumesCounters=draws("set", mem=3)), name="devices", of=2),
    )
    reasons = why(stock, claim(request("r", 2)))
    assert reasons.together == ("counters do not suffice for all devices at once",)


def test_reasons_are_those_of_the_moment_of_failure() -> None:
    stock, usage = inventory(resource_slice(device("d"))), Usage()
    usage.take(DeviceID(DRIVER, "pool", "d"), "team/job")
    outcome = run(stock, claim(request("r")), usage=usage)
    assert isinstance(outcome, Unallocatable)
    usage.take(DeviceID(DRIVER, "pool", "d"), "somebody/else")
    assert outcome.reasons.requests[0].removals[0].detail == "allocated to claim team/job"
    assert outcome.reasons is outcome.reasons


def test_outcomes_are_told_apart_by_matching() -> None:
    match run(inventory(resource_slice(*gpus(2))), claim(request("r", 3))):
        case Unallocatable(reasons):
            assert reasons.requests[0].usable == 2
        case outcome:
            raise AssertionError(outcome)


def test_reasons_are_plain_data_for_those_who_want_them() -> None:
    reasons = why(inventory(resource_slice(*gpus(2))), claim(request("r", 3)), features=EVERYTHING)
    document = reasons.as_document()
    assert json.loads(json.dumps(document)) == document
    assert document["requests"][0]["wanted"] == 3

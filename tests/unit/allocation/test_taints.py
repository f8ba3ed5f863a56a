from __future__ import annotations

from typing import Any

import pytest

from dray.allocation import Features, Plan
from dray.allocation.taints import tolerates, with_taint_rules
from dray.api.release import V1_36
from tests.support.allocation import DRIVER, claim, device, inventory, request, resource_slice, run

TAINT = {"key": "k", "value": "v", "effect": "NoSchedule"}


@pytest.mark.parametrize(
    ("toleration", "tolerated"),
    [
        ({"key": "k", "operator": "Exists"}, True),
        ({"operator": "Exists"}, True),
        ({"key": "k", "value": "v"}, True),
        ({"key": "k", "operator": "Equal", "value": "v", "effect": "NoSchedule"}, True),
        ({"key": "k", "operator": "Equal", "value": "w"}, False),
        ({"key": "other", "operator": "Exists"}, False),
        ({"operator": "Exists", "effect": "NoExecute"}, False),
        ({"key": "k", "operator": "Like"}, False),
    ],
)
def test_tolerations_cover_taints_as_upstream_says(toleration: dict[str, str], tolerated: bool) -> None:
    assert tolerates(toleration, TAINT) is tolerated
    stock = inventory(resource_slice(device("d", taints=[TAINT])))
    assert isinstance(run(stock, claim(request("r", tolerations=[toleration]))), Plan) is tolerated


@pytest.mark.parametrize(
    ("effect", "usable"), [("NoSchedule", False), ("NoExecute", False), ("None", True), ("Odd", True)]
)
def test_only_known_effects_keep_devices_from_being_used(effect: str, usable: bool) -> None:
    stock = inventory(resource_slice(device("d", taints=[{"key": "k", "effect": effect}])))
    assert isinstance(run(stock, claim(request("r"))), Plan) is usable
    assert isinstance(run(stock, claim(request("r")), features=Features.for_release(V1_36)), Plan)


def rule(**selector: str) -> dict[str, Any]:
    return {"spec": {"deviceSelector": selector, "taint": TAINT}}


@pytest.mark.parametrize(
    ("selector", "tainted"),
    [
        ({}, ["d0", "d1"]),
        ({"driver": DRIVER}, ["d0", "d1"]),
        ({"pool": "pool", "device": "d1"}, ["d1"]),
        ({"driver": "another"}, []),
        ({"pool": "another"}, []),
    ],
)
def test_rules_taint_the_devices_they_select(selector: dict[str, str], tainted: list[str]) -> None:
    document = resource_slice(device("d0"), device("d1"))
    changed = with_taint_rules(document, [rule(**selector)])
    assert [d["name"] for d in changed["spec"]["devices"] if d.get("taints") == [TAINT]] == tainted
    assert document == resource_slice(device("d0"), device("d1"))


def test_a_rule_without_a_selector_taints_nothing() -> None:
    document = resource_slice(device("d0"))
    assert with_taint_rules(document, [{"spec": {"taint": TAINT}}]) is document

"""Network cards that are attached before a pod is bound."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from dray.drivers.nic import ATTACH_FAILED, ATTACHED, Fabric, statuses

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


def claim(device: str, **status: Any) -> dict[str, Any]:
    result = {
        "request": "r",
        "driver": "nic.example.com",
        "pool": "fabric-0",
        "device": device,
        "bindingConditions": [ATTACHED],
    }
    return {
        "metadata": {"namespace": "ns", "name": "c", "uid": "u"},
        "status": {"allocation": {"devices": {"results": [result]}}, **status},
    }


def test_cards_are_offered_to_the_nodes_that_reach_them() -> None:
    pool = Fabric(count=1, node_labels={"rack": "r1"}).pool()
    assert pool.node_selector == {
        "nodeSelectorTerms": [{"matchExpressions": [{"key": "rack", "operator": "In", "values": ["r1"]}]}]
    }
    card = pool.slices[0].devices[0].document()
    assert (card["bindsToNode"], card["bindingConditions"]) == (True, [ATTACHED])
    assert Fabric().pool().all_nodes


def test_an_allocated_card_is_attached_and_described() -> None:
    [status] = statuses(claim("nic-1"), Fabric(), now=NOW)
    assert status["conditions"][0]["type"] == ATTACHED
    assert status["conditions"][0]["lastTransitionTime"] == "2026-01-02T03:04:05Z"
    assert status["networkData"]["interfaceName"] == "net1"
    assert status["networkData"]["ips"] == ["10.77.0.2/16"]


def test_a_card_that_cannot_be_attached_sets_the_failure_condition() -> None:
    [status] = statuses(claim("nic-1"), Fabric(broken=frozenset({"nic-1"})), now=NOW)
    assert status["conditions"][0]["type"] == ATTACH_FAILED
    assert "networkData" not in status


def test_a_device_status_is_not_written_twice() -> None:
    first = statuses(claim("nic-1"), Fabric(), now=NOW)
    assert statuses(claim("nic-1", devices=first), Fabric(), now=NOW) == []
    assert statuses(claim("nic-1", allocation=None), Fabric(), now=NOW) == []

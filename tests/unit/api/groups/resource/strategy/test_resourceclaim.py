"""Claims as they are prepared for the store."""

from __future__ import annotations

from typing import Any

from dray.api.groups.resource.strategy.resourceclaim import ResourceClaimStatusStrategy, ResourceClaimStrategy
from dray.api.release import EffectiveVersion
from dray.api.scheme.strategy import Context

CONTEXT = Context(gates=EffectiveVersion.parse("1.36").gates())


def prepared(name: str, device_class: str) -> Any:
    requests = [{"name": "gpu", "exactly": {"deviceClassName": device_class, "count": 1}}]
    claim: Any = {"metadata": {"name": name}, "spec": {"devices": {"requests": requests}}}
    ResourceClaimStrategy().prepare_create(claim, CONTEXT)
    return claim


def test_claims_of_one_template_hold_its_spec_once():
    first, second, other = prepared("a", "gpu"), prepared("b", "gpu"), prepared("c", "nic")
    assert first["spec"] is second["spec"]
    assert first["spec"]["devices"]["requests"][0]["exactly"]["deviceClassName"] == "gpu"
    assert other["spec"]["devices"]["requests"][0]["exactly"]["deviceClassName"] == "nic"


def allocated(name: str, node: str) -> Any:
    old = prepared(name, "gpu")
    terms = [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}]
    new = {**old, "status": {"allocation": {"nodeSelector": {"nodeSelectorTerms": terms}}}}
    ResourceClaimStatusStrategy().prepare_update(new, old, CONTEXT)
    return new["status"]["allocation"]["nodeSelector"]


def test_claims_that_are_allocated_on_one_node_hold_its_selector_once():
    first, second, other = allocated("a", "node-0"), allocated("b", "node-0"), allocated("c", "node-1")
    assert first is second
    assert other["nodeSelectorTerms"][0]["matchFields"][0]["values"] == ["node-1"]

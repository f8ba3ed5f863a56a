"""Claims as they are prepared for the store."""

from __future__ import annotations

from typing import Any

from dray.api.groups.resource.strategy.resourceclaim import ResourceClaimStrategy
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

"""Fields of pods behind feature gates, for whichever gates are asked about."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from dray.api.groups.core.pod.disabledfields import drop_spec_fields, drop_status_fields
from dray.api.release import EffectiveVersion, Gates

OPEN = Gates(on=frozenset({"UserNamespacesSupport", "DynamicResourceAllocation", "RecursiveReadOnlyMounts"}))
SPEC: dict[str, Any] = {"hostUsers": False, "resourceClaims": [{"name": "a"}], "containers": []}
STATUS: dict[str, Any] = {"resourceClaimStatuses": [{"name": "a"}]}


def without(gate: str) -> Gates:
    return OPEN.with_changes({gate: False})


@pytest.mark.parametrize(
    ("gates", "left"),
    [
        (OPEN, {"hostUsers", "resourceClaims", "containers"}),
        (without("UserNamespacesSupport"), {"resourceClaims", "containers"}),
        (without("DynamicResourceAllocation"), {"hostUsers", "containers"}),
        (Gates(), {"containers"}),
        (OPEN, {"hostUsers", "resourceClaims", "containers"}),  # what other gates closed is open again
    ],
)
def test_a_field_goes_with_its_gate_alone(gates: Gates, left: set[str]) -> None:
    spec = copy.deepcopy(SPEC)
    drop_spec_fields(spec, None, gates)
    assert spec.keys() == left


def test_a_field_stays_where_it_was_used_before() -> None:
    spec = copy.deepcopy(SPEC)
    drop_spec_fields(spec, {"hostUsers": True}, Gates())
    assert spec.keys() == {"hostUsers", "containers"}


def test_the_same_holds_for_the_status() -> None:
    for gates, left in (
        (OPEN, STATUS),
        (without("DynamicResourceAllocation"), {}),
        (EffectiveVersion().gates(), STATUS),
    ):
        status = copy.deepcopy(STATUS)
        drop_status_fields(status, None, gates)
        assert status == left

"""Fields behind gates are dropped on write, unless the old object used them."""

from __future__ import annotations

import copy

import pytest

from dray.api.groups.resource import modern
from dray.api.quirks import NEWEST_QUIRKS
from dray.api.release import EffectiveVersion
from dray.api.scheme.strategy import Context

KINDS = {kind.kind: kind for kind in modern.kinds(NEWEST_QUIRKS)}
GATES = EffectiveVersion().gates()
NOW = "2026-01-02T03:04:05Z"


def context(**off):
    return Context(gates=GATES.with_changes({gate: not value for gate, value in off.items()}), now=NOW)


def claim(**exactly):
    request = {"name": "r", "exactly": {"deviceClassName": "c", **exactly}}
    return {"metadata": {"name": "c"}, "spec": {"devices": {"requests": [request]}}}


def slice_with(spec=None, **device):
    base = {"driver": "d", "pool": {"name": "p"}, "devices": [{"name": "x", **device}]}
    return {"metadata": {"name": "s"}, "spec": {**base, **(spec or {})}}


CLAIM_FIELDS = [
    ("DRAAdminAccess", claim(adminAccess=True), claim()),
    ("DRADeviceTaints", claim(tolerations=[{"operator": "Exists"}]), claim()),
    ("DRAConsumableCapacity", claim(capacity={"requests": {"m": "1"}}), claim()),
    ("DRADerivedAttributes", claim(derivedAttributes=[{"name": "a/b", "expression": "1"}]), claim()),
]
SLICE_FIELDS = [
    ("DRADeviceTaints", slice_with(taints=[{"key": "k", "timeAdded": NOW}]), slice_with()),
    ("DRAPartitionableDevices", slice_with(consumesCounters=[{"counterSet": "s"}], nodeName="n"), slice_with()),
    ("DRADeviceBindingConditions", slice_with(bindingConditions=["a"], bindingFailureConditions=["b"], bindsToNode=True), slice_with()),
    ("DRAResourceClaimDeviceStatus", slice_with(bindsToNode=True), slice_with()),
    ("DRAConsumableCapacity", slice_with(allowMultipleAllocations=True, capacity={"m": {"value": "1", "requestPolicy": {}}}), slice_with(capacity={"m": {"value": "1"}})),
    ("DRANodeAllocatableResources", slice_with(nodeAllocatableResources={"cpu": {}}), slice_with()),
    ("DRAListTypeAttributes", slice_with(attributes={"a": {"ints": [1]}}), slice_with(attributes={"a": {}})),
    ("DRADeviceCompatibilityGroups", slice_with(consumesCounters=[{"counterSet": "s", "compatibilityGroups": ["g"]}]), slice_with(consumesCounters=[{"counterSet": "s"}])),
    ("DRAOptionalNodeOperations", slice_with({"skipNodeOperations": ["*"]}), slice_with()),
]  # fmt: skip


@pytest.mark.parametrize(("gate", "given", "left"), CLAIM_FIELDS, ids=[f[0] for f in CLAIM_FIELDS])
def test_gated_fields_of_a_new_claim_are_dropped(gate, given, left):
    rules = KINDS["ResourceClaim"].strategy
    dropped, kept = copy.deepcopy(given), copy.deepcopy(given)
    rules.prepare_create(dropped, context(**{gate: True}))
    assert dropped["spec"] == left["spec"]
    rules.prepare_create(kept, context())
    assert kept["spec"] == given["spec"]


@pytest.mark.parametrize(("gate", "given", "left"), CLAIM_FIELDS, ids=[f[0] for f in CLAIM_FIELDS])
def test_gated_fields_of_a_claim_stay_when_it_used_them_before(gate, given, left):
    new = copy.deepcopy(given)
    KINDS["ResourceClaim"].strategy.prepare_update(new, given, context(**{gate: True}))
    assert new["spec"] == given["spec"]


def test_alternatives_are_dropped_as_a_whole():
    template = {
        "metadata": {"name": "t"},
        "spec": {
            "spec": {
                "devices": {
                    "requests": [{"name": "r", "firstAvailable": [{"name": "a", "deviceClassName": "c"}]}]
                }
            }
        },
    }
    KINDS["ResourceClaimTemplate"].strategy.prepare_create(template, context(DRAPrioritizedList=True))
    assert template["spec"]["spec"]["devices"]["requests"] == [{"name": "r"}]


@pytest.mark.parametrize(("gate", "given", "left"), SLICE_FIELDS, ids=[f[0] for f in SLICE_FIELDS])
def test_gated_fields_of_a_new_slice_are_dropped(gate, given, left):
    rules = KINDS["ResourceSlice"].strategy
    dropped, kept = copy.deepcopy(given), copy.deepcopy(given)
    rules.prepare_create(dropped, context(**{gate: True}))
    assert dropped["spec"] == left["spec"]
    rules.prepare_create(kept, context())
    assert kept["spec"] == given["spec"]


@pytest.mark.parametrize(("gate", "given", "left"), SLICE_FIELDS, ids=[f[0] for f in SLICE_FIELDS])
def test_gated_fields_of_a_slice_stay_when_it_used_them_before(gate, given, left):
    new = copy.deepcopy(given)
    KINDS["ResourceSlice"].strategy.prepare_update(new, given, context(**{gate: True}))
    assert new["spec"] == given["spec"]


def allocated(**result):
    status = {
        "allocation": {
            "devices": {"results": [{"request": "r", "driver": "d", "pool": "p", "device": "x", **result}]}
        }
    }
    return {**claim(), "status": status}


@pytest.mark.parametrize(
    ("gate", "field", "value"),
    [
        ("DRAAdminAccess", "adminAccess", True),
        ("DRAConsumableCapacity", "shareID", "u"),
        ("DRAConsumableCapacity", "consumedCapacity", {"m": "1"}),
        ("DRADeviceBindingConditions", "bindingConditions", ["a"]),
        ("DRAOptionalNodeOperations", "skipNodeOperations", ["*"]),
    ],
)
def test_gated_fields_of_an_allocation_are_dropped(gate, field, value):
    view = KINDS["ResourceClaim"].subresources["status"]
    new = allocated(**{field: value})
    view.prepare_update(new, claim(), context(**{gate: True}))
    assert field not in new["status"]["allocation"]["devices"]["results"][0]
    again = allocated(**{field: value})
    view.prepare_update(again, allocated(**{field: value}), context(**{gate: True}))
    assert again["status"]["allocation"]["devices"]["results"][0][field] == value


def test_device_status_goes_with_its_gate_and_with_its_device():
    view = KINDS["ResourceClaim"].subresources["status"]
    devices = [{"driver": "d", "pool": "p", "device": "x"}]
    new = allocated()
    new["status"]["devices"] = copy.deepcopy(devices)
    view.prepare_update(new, allocated(), context(DRAResourceClaimDeviceStatus=True))
    assert "devices" not in new["status"]
    old = allocated()
    old["status"]["devices"] = devices
    gone = {**claim(), "status": {"devices": copy.deepcopy(devices)}}
    view.prepare_update(gone, old, context())
    assert gone["status"] == {}


def test_a_class_loses_its_extended_resource_with_the_gate():
    rules = KINDS["DeviceClass"].strategy
    given = {"metadata": {"name": "c", "generation": 1}, "spec": {"extendedResourceName": "example.com/gpu"}}
    new = copy.deepcopy(given)
    rules.prepare_create(new, context(DRAExtendedResource=True))
    assert new["spec"] == {}
    kept = copy.deepcopy(given)
    rules.prepare_update(kept, given, context(DRAExtendedResource=True))
    assert kept["spec"] == given["spec"]


def test_taints_are_dated_when_they_are_written():
    new = slice_with(taints=[{"key": "k", "effect": "NoSchedule"}])
    KINDS["ResourceSlice"].strategy.prepare_create(new, context())
    assert new["spec"]["devices"][0]["taints"][0]["timeAdded"] == NOW


def test_a_rule_is_dated_anew_when_its_effect_changes():
    rules = KINDS["DeviceTaintRule"].strategy
    old = {
        "metadata": {"name": "r", "generation": 1},
        "spec": {"taint": {"key": "k", "effect": "None", "timeAdded": "2025-01-01T00:00:00Z"}},
    }
    new = copy.deepcopy(old)
    new["spec"]["taint"]["effect"] = "NoExecute"
    rules.prepare_update(new, old, context())
    assert new["spec"]["taint"]["timeAdded"] == NOW
    assert new["metadata"]["generation"] == 2
    same = copy.deepcopy(old)
    same["spec"]["taint"]["value"] = "v"
    rules.prepare_update(same, old, context())
    assert same["spec"]["taint"]["timeAdded"] == "2025-01-01T00:00:00Z"

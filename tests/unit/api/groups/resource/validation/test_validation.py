"""Rules that no recording covers, in upstream's words."""

from __future__ import annotations

import copy

import pytest

from dray.api.groups.resource import modern
from dray.api.groups.resource.classic import kinds as classic
from dray.api.quirks import NEWEST_QUIRKS, APIQuirks
from dray.api.release import EffectiveVersion
from dray.api.scheme.strategy import Context
from dray.api.validation.expressions import CompilationResult, Environment

MODERN = {kind.kind: kind for kind in modern.kinds(NEWEST_QUIRKS)}
CLASSIC = {kind.kind: kind for kind in classic.kinds(NEWEST_QUIRKS)}
GATES = EffectiveVersion().gates()
NODE = {"nodeSelectorTerms": [{"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}]}
LABEL = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with "
    "an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is "
    "'[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
)


def compiler(expression, *, environment=Environment.DEVICE, list_attributes=False, consumable_capacity=True):
    if expression == "broken":
        return CompilationResult(error="compilation failed: ERROR: x")
    if expression == "internal":
        return CompilationResult(error="no environment", internal=True)
    return CompilationResult(max_cost=int(expression) if expression.isdigit() else 1)


#: A release that states all of its rules in code.
OLDER = APIQuirks.of(EffectiveVersion.parse("1.36"))


def context(**options):
    return Context(**{"gates": GATES, "expressions": compiler, "now": "2026-01-01T00:00:00Z", **options})


def problems(kind, obj, **options):
    obj = {"metadata": {"name": "x", "namespace": "n"}, **copy.deepcopy(obj)}
    return [str(problem) for problem in kind.strategy.validate(obj, context(**options))]


# Claims.


def exact(**fields):
    return {"deviceClassName": "c", "allocationMode": "ExactCount", "count": 1, **fields}


def claim(request=None, **devices):
    request = {"name": "r", "exactly": exact()} if request is None else request
    return {"spec": {"devices": {"requests": [request], **devices}}}


def derived(*attributes, constraints=()):
    attributes = [{"name": name, "expression": expression} for name, expression in attributes]
    request = {"name": "r", "exactly": exact(derivedAttributes=attributes)}
    return claim(request, constraints=[{"matchAttribute": name, **more} for name, more in constraints])


UNUSED = (
    "must be referenced by at least one matchAttribute or distinctAttribute constraint targeting this request"
)


@pytest.mark.parametrize(
    ("obj", "expected"),
    [
        (derived(("d/numa", "1"), constraints=[("d/numa", {})]), []),
        (derived(("d/numa", "1"), constraints=[("d/numa", {"requests": ["r"]})]), []),
        (
            derived(("d/numa", "1")),
            [
                f'spec.devices.requests[0].exactly.derivedAttributes[0].name: Invalid value: "d/numa": {UNUSED}'
            ],
        ),
        (
            derived(("", "1"), ("d/x", ""), constraints=[("d/x", {})]),
            [
                "spec.devices.requests[0].exactly.derivedAttributes[0].name: Required value",
                "spec.devices.requests[0].exactly.derivedAttributes[1].expression: Required value",
            ],
        ),
        (
            derived(("d/x", "1"), ("d/x", "1"), constraints=[("d/x", {})]),
            ['spec.devices.requests[0].exactly.derivedAttributes[1]: Duplicate value: "d/x"'],
        ),
        (
            derived(("d/x", "600000"), ("d/y", "600000"), constraints=[("d/x", {}), ("d/y", {})]),
            [
                "spec.devices: Forbidden: too complex, total cost of derived attribute CEL expressions in the claim "
                "exceeds cost limit"
            ],
        ),
        (
            derived(("d/x", "broken"), constraints=[("d/x", {})]),
            [
                'spec.devices.requests[0].exactly.derivedAttributes[0].expression: Invalid value: "broken": compilation '
                "failed: ERROR: x"
            ],
        ),
    ],
)
def test_derived_attributes(obj, expected):
    assert problems(MODERN["ResourceClaim"], obj) == expected


def test_alternatives_see_constraints_on_their_request():
    attributes = [{"name": "d/x", "expression": "1"}]
    request = {"name": "r", "firstAvailable": [{"name": "a", **exact(derivedAttributes=attributes)}]}
    for wanted in (["r"], ["r/a"], []):
        obj = claim(copy.deepcopy(request), constraints=[{"matchAttribute": "d/x", "requests": wanted}])
        assert problems(MODERN["ResourceClaim"], obj) == []


def selecting(expression):
    return claim({"name": "r", "exactly": exact(selectors=[{"cel": {"expression": expression}}])})


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("true", []),
        ("2000000", ["Forbidden: too complex, exceeds cost limit"]),
        ("internal", ["Internal error: no environment"]),
        ("x" * 10241, ["Too long: may not be more than 10240 bytes"]),
    ],
)
def test_selectors_are_compiled_and_their_cost_is_limited(expression, expected):
    where = "spec.devices.requests[0].exactly.selectors[0].cel.expression"
    found = problems(MODERN["ResourceClaim"], selecting(expression))
    assert found == [f"{where}: {words}" for words in expected]


def test_stored_selectors_of_a_class_are_not_compiled_again():
    rules = MODERN["DeviceClass"].strategy
    metadata = {"name": "c", "uid": "u", "resourceVersion": "1"}
    old = {"metadata": metadata, "spec": {"selectors": [{"cel": {"expression": "broken"}}]}}
    new = copy.deepcopy(old)
    assert list(rules.validate_update(new, old, context())) == []
    new["spec"]["selectors"].append({"cel": {"expression": "true"}})
    assert len(rules.validate_update(new, old, context())) == 1


def test_a_constraint_needs_an_attribute():
    obj = claim(constraints=[{"requests": ["r"]}])
    words = 'exactly one of "matchAttribute" or "distinctAttribute" is required, but multiple fields are set'
    assert problems(MODERN["ResourceClaim"], obj) == [f"spec.devices.constraints[0]: Required value: {words}"]
    gates = EffectiveVersion.parse("1.34").gates()
    found = problems(MODERN["ResourceClaim"], obj, gates=gates)
    assert found == ["spec.devices.constraints[0].matchAttribute: Required value"]


def test_templates_allow_only_labels_and_annotations_for_claims():
    obj = {"spec": {"metadata": {"labels": {"a": "b"}, "name": "no", "finalizers": ["x/y"]}, **claim()}}
    found = problems(MODERN["ResourceClaimTemplate"], obj)
    assert found == [
        "spec.metadata.name: Forbidden: cannot be set",
        "spec.metadata.finalizers: Forbidden: cannot be set",
    ]


# Slices.


def slice_with(*devices, **spec):
    base = {
        "driver": "d.example.com",
        "pool": {"name": "p", "generation": 1, "resourceSliceCount": 1},
        "allNodes": True,
    }
    return {"spec": {**base, **({"devices": list(devices)} if devices else {}), **spec}}


def device(**fields):
    return {"name": "x", **fields}


@pytest.mark.parametrize(
    ("obj", "expected"),
    [
        (slice_with(device(), sharedCounters=[]), ['spec: Invalid value: "": only one of `sharedCounters` or `devices` is allowed']),
        (slice_with(sharedCounters=[{"name": "s", "counters": {"c": {"value": "1"}}}]), []),
        (slice_with(sharedCounters=[{"name": "", "counters": {}}]), ["spec.sharedCounters[0].name: Required value", "spec.sharedCounters[0].counters: Required value"]),
        (slice_with(sharedCounters=[{"name": "s", "counters": {"A": {"value": "1"}}}]), [f'spec.sharedCounters[0].counters: Invalid value: "A": {LABEL}']),
        (slice_with(sharedCounters=[{"name": f"s{i}", "counters": {"c": {}}} for i in range(9)]), ["spec.sharedCounters: Too many: 9: must have at most 8 items"]),
        (slice_with(device(consumesCounters=[{"counterSet": "s", "counters": {"c": {}}}] * 2)), ['spec.devices[0].consumesCounters[1]: Duplicate value: "s"']),
        (slice_with(device(consumesCounters=[{"counterSet": str(i), "counters": {"c": {}}} for i in range(3)])), ["spec.devices[0].consumesCounters: Too many: 3: must have at most 2 items"]),
        (slice_with(device(consumesCounters=[{"counterSet": "s", "counters": {f"c{i}": {} for i in range(33)}}])), ["spec.devices[0].consumesCounters[0].counters: Too many: 33: must have at most 32 items"]),
        (slice_with(device(consumesCounters=[{"counterSet": "s", "counters": {"c": {}}, "compatibilityGroups": ["g", "g"]}])), ['spec.devices[0].consumesCounters[0].compatibilityGroups[1]: Duplicate value: "g"']),
        (slice_with(device(taints=[{"key": "k", "effect": "NoSchedule"}] * 17)), ["spec.devices[0].taints: Too many: 17: must have at most 16 items"]),
        (slice_with(device(bindingConditions=["a"])), ["spec.devices[0].bindingFailureConditions: Invalid value: null: bindingFailureConditions are required to use bindingConditions"]),
        (slice_with(device(bindingFailureConditions=["a"])), ["spec.devices[0].bindingConditions: Invalid value: null: bindingConditions are required to use bindingFailureConditions"]),
        (slice_with(device(bindingConditions=["a", "a"], bindingFailureConditions=["b"])), ['spec.devices[0].bindingConditions[1]: Duplicate value: "a"']),
        (slice_with(device(bindingConditions=list("abcde"), bindingFailureConditions=["f"])), ["spec.devices[0].bindingConditions: Too many: 5: must have at most 4 items"]),
        (slice_with(skipNodeOperations=["NodePrepareResources"]), ['spec.skipNodeOperations: Invalid value: ["NodePrepareResources"]: NodePrepareResources cannot be skipped unless NodeUnprepareResources is also skipped']),
        (slice_with(skipNodeOperations=["NodePrepareResources", "*"]), []),
        (slice_with(skipNodeOperations=["Everything"]), ['spec.skipNodeOperations[0]: Unsupported value: "Everything": supported values: "*", "NodePrepareResources", "NodeUnprepareResources"']),
        (slice_with(device(attributes={"x" * 200: {"int": 1}})), ["spec.devices[0].attributes: Too long: may not be more than 32 bytes"]),
        (slice_with(device(attributes={"x" * 200: {}})), ["spec.devices[0].attributes: Too long: may not be more than 32 bytes", f'spec.devices[0].attributes[{"x" * 47}...{"x" * 46}]: Invalid value: "": must specify one of: `int`, `bool`, `string`, `version`, `ints`, `bools`, `strings`, `versions`']),
    ],
)  # fmt: skip
def test_slices(obj, expected):
    assert problems(MODERN["ResourceSlice"], obj) == expected


def node_resource(**fields):
    return slice_with(device(capacity={"mem": {"value": "1Gi"}}, nodeAllocatableResources={"memory": fields}))


@pytest.mark.parametrize(
    ("obj", "expected"),
    [
        (node_resource(mapping={"capacityKey": "mem", "capacityMultiplier": "1"}), []),
        (node_resource(mapping={"deviceMultiplier": "2"}, overhead={"perPod": "1Mi"}), []),
        (node_resource(), ["[memory]: Required value: at least one of mapping or overhead must be set"]),
        (node_resource(mapping={"capacityKey": "gone", "capacityMultiplier": "1"}), ['[memory].mapping.capacityKey: Not found: "gone"']),
        (node_resource(mapping={"capacityKey": "mem"}), ["[memory].mapping.capacityMultiplier: Required value: capacityMultiplier is required when capacityKey is set"]),
        (node_resource(mapping={"deviceMultiplier": "0"}), ['[memory].mapping.deviceMultiplier: Invalid value: "0": must be positive']),
        (node_resource(overhead={}), ['[memory].overhead: Invalid value: "": at least one of perPod or perContainer must be set']),
        (node_resource(overhead={"perPod": "-1"}), ['[memory].overhead.perPod: Invalid value: "-1": must be non-negative']),
        (slice_with(device(nodeAllocatableResources={"example.com/x": {"mapping": {"deviceMultiplier": "1"}}})), ['[example.com/x]: Invalid value: "example.com/x": must be a node allocatable resource name']),
    ],
)  # fmt: skip
def test_what_devices_take_from_their_node(obj, expected):
    where = "spec.devices[0].nodeAllocatableResources"
    assert problems(MODERN["ResourceSlice"], obj) == [where + words for words in expected]


@pytest.mark.parametrize(
    ("mapping", "expected"),
    [
        ({"allocationMultiplier": "2"}, []),
        ({}, ['[cpu]: Invalid value: "": at least one of allocationMultiplier or capacityKey must be set']),
        ({"allocationMultiplier": "-1"}, ['[cpu].allocationMultiplier: Invalid value: "-1": must be positive']),
        ({"capacityKey": "", "allocationMultiplier": "1"}, ['[cpu].capacityKey: Invalid value: "": capacityKey must not be an empty string']),
        ({"capacityKey": "no"}, ['[cpu].capacityKey: Not found: "no"']),
    ],
)  # fmt: skip
def test_what_devices_take_from_their_node_as_136_puts_it(mapping, expected):
    obj = slice_with(device(nodeAllocatableResourceMappings={"cpu": mapping}))
    where = "spec.devices[0].nodeAllocatableResourceMappings"
    assert problems(MODERN["ResourceSlice"], obj) == [where + words for words in expected]


def test_taints_that_are_stored_may_stay():
    rules = MODERN["ResourceSlice"].strategy
    old = {
        "metadata": {"name": "s", "uid": "u", "resourceVersion": "1"},
        **slice_with(device(taints=[{"key": "k", "effect": "Strange"}])),
    }
    assert list(rules.validate_update(copy.deepcopy(old), old, context())) == []
    new = copy.deepcopy(old)
    new["spec"]["devices"][0]["taints"].append({"key": "k2", "effect": "NoSchedule"})
    assert [str(p) for p in rules.validate_update(new, old, context())] == [
        'spec.devices[0].taints[0].effect: Unsupported value: "Strange": supported values: "NoExecute", "NoSchedule", "None"'
    ]


def test_drivers_in_upper_case_are_warned_about():
    warnings = MODERN["ResourceSlice"].strategy.warn(
        {"metadata": {"name": "s"}, **slice_with(driver="GPU.example.com")}, context()
    )
    assert list(warnings) == [
        'spec.driver: driver names should be lowercase; "GPU.example.com" contains uppercase characters'
    ]


def test_a_step_of_zero_is_refused():
    policy = {"default": "1", "validRange": {"min": "1", "step": "0"}}
    obj = slice_with(
        device(allowMultipleAllocations=True, capacity={"m": {"value": "10", "requestPolicy": policy}})
    )
    assert problems(MODERN["ResourceSlice"], obj) == [
        'spec.devices[0].capacity[m].requestPolicy.validRange.step: Invalid value: "0": must be greater than zero'
    ]


# Status of claims.


def status_problems(status, old_status=None, **options):
    base = {"metadata": {"name": "x", "namespace": "n", "uid": "u", "resourceVersion": "1"}, **claim()}
    new, old = {**copy.deepcopy(base), "status": status}, {**base, "status": old_status or {}}
    return [
        str(problem)
        for problem in MODERN["ResourceClaim"]
        .subresources["status"]
        .validate_update(new, old, context(**options))
    ]


def allocated(**result):
    return {
        "allocation": {
            "devices": {"results": [{"request": "r", "driver": "d", "pool": "p", "device": "x", **result}]}
        }
    }


@pytest.mark.parametrize(
    ("share", "expected"),
    [
        ("b5bc0d0b-3e2e-4ad0-8a4b-bc1f30a0b0aa", ""),
        ("B5BC0D0B-3E2E-4AD0-8A4B-BC1F30A0B0AA", "uid must be in RFC 4122 normalized form, `xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx` with lowercase hexadecimal characters"),
        ("b5bc0d0b3e2e4ad08a4bbc1f30a0b0aa", "uid must be in RFC 4122 normalized form, `xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx` with lowercase hexadecimal characters"),
        ("b5bc0d0b-3e2e-4ad0-8a4b-bc1f30a0b0az", "error validating uid: invalid UUID format"),
        ("b5bc0d0bx3e2e-4ad0-8a4b-bc1f30a0b0aa", "error validating uid: invalid UUID format"),
        ("xxx:uuid:b5bc0d0b-3e2e-4ad0-8a4b-bc1f30a0b0aa", 'error validating uid: invalid urn prefix: "xxx:uuid:"'),
        ("(b5bc0d0b-3e2e-4ad0-8a4b-bc1f30a0b0aa)", "error validating uid: invalid bracketed UUID format"),
        ("short", "error validating uid: invalid UUID length: 5"),
    ],
)  # fmt: skip
def test_share_ids(share, expected):
    where = "status.allocation.devices.results[0].shareID"
    found = status_problems(allocated(shareID=share), quirks=OLDER)
    assert found == ([f'{where}: Invalid value: "{share}": {expected}'] if expected else [])
    words = expected and "must be a lowercase UUID in 8-4-4-4-12 format"
    found = status_problems(allocated(shareID=share))
    assert found == ([f'{where}: Invalid value: "{share}": {words}'] if words else [])


@pytest.mark.parametrize(
    ("ip", "expected"),
    [
        ("10.0.0.1/24", ""),
        ("2001:db8::1/64", ""),
        ("10.0.0.01/24", 'must be in canonical form ("10.0.0.1/24")'),
        ("2001:DB8::1/64", 'must be in canonical form ("2001:db8::1/64")'),
        ("::ffff:192.168.0.1/120", 'must be in canonical form ("192.168.0.1/24")'),
        ("10.0.0.1", "must be a valid address in CIDR form, (e.g. 10.9.8.7/24 or 2001:db8::1/64)"),
    ],
)
def test_addresses_of_network_devices(ip, expected):
    device_status = {"driver": "d", "pool": "p", "device": "x", "networkData": {"ips": [ip]}}
    status = {**allocated(), "devices": [device_status]}
    found = status_problems(status, allocated())
    assert found == (
        [f'status.devices[0].networkData.ips[0]: Invalid value: "{ip}": {expected}'] if expected else []
    )


def test_results_name_requests_and_alternatives_that_exist():
    words = "must be the name of a request in the claim or the name of a request and a subrequest separated by '/'"
    where = "status.allocation.devices.results[0].request"
    assert status_problems(allocated(request="a/b/c")) == [f'{where}: Invalid value: "a/b/c": {words}']
    assert status_problems(allocated(request="r/x")) == [f'{where}: Invalid value: "r/x": {words}']


# Questions about pools.


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({"driver": "d.example.com", "limit": 100}, []),
        ({}, ["spec.driver: Required value"]),
        ({"driver": "d", "limit": 0}, ["spec.limit: Invalid value: 0: must be greater than or equal to 1"]),
        (
            {"driver": "d", "limit": 1001},
            ["spec.limit: Invalid value: 1001: must be less than or equal to 1000"],
        ),
        ({"driver": "d", "poolName": ""}, ['spec.poolName: Invalid value: "": segment 0: must not be empty']),
    ],
)
def test_questions_about_pools(spec, expected):
    assert problems(MODERN["ResourcePoolStatusRequest"], {"spec": spec}) == expected


def test_a_question_is_answered_once():
    view = MODERN["ResourcePoolStatusRequest"].subresources["status"]
    asked = {"metadata": {"name": "q", "uid": "u", "resourceVersion": "1"}, "spec": {"driver": "d"}}
    pool = {"driver": "d", "poolName": "p", "generation": 0, "totalDevices": 8}
    answered = {**asked, "status": {"poolCount": 1, "pools": [pool]}}
    assert list(view.validate_update(answered, asked, context())) == []
    empty = {**asked, "status": {}}
    assert [str(p) for p in view.validate_update(empty, asked, context())] == [
        "status.poolCount: Required value"
    ]
    changed = {**asked, "status": {"poolCount": 2}}
    assert [p.field for p in view.validate_update(changed, answered, context())] == ["status"]


# Classic kinds.


def classic_slice(*instances):
    return {"driverName": "d.example.com", "nodeName": "n", "namedResources": {"instances": list(instances)}}


@pytest.mark.parametrize(
    ("obj", "expected"),
    [
        (classic_slice({"name": "a", "attributes": [{"name": "color", "string": "black"}]}), []),
        ({"driverName": "d.example.com"}, ["<nil>: Required value: exactly one structured model field must be set"]),
        (classic_slice({"name": "a"}, {"name": "a"}), ['namedResources.instances[1].name: Duplicate value: "a"']),
        (classic_slice({"name": "a", "attributes": [{"name": "v", "version": "1.2"}]}), ['namedResources.instances[0].attributes[0].version: Invalid value: "1.2": must be a string compatible with semver.org spec 2.0.0']),
        (classic_slice({"name": "a", "attributes": [{"name": "v"}]}), ["namedResources.instances[0].attributes[0]: Required value: exactly one value must be set"]),
        (classic_slice({"name": "a", "attributes": [{"name": "v", "int": 1, "bool": True}]}), ['namedResources.instances[0].attributes[0]: Invalid value: []string{"bool", "int"}: exactly one field must be set, not several']),
    ],
)  # fmt: skip
def test_classic_slices(obj, expected):
    assert problems(CLASSIC["ResourceSlice"], obj) == expected


def test_classic_slices_keep_their_node_and_driver():
    rules = CLASSIC["ResourceSlice"].strategy
    old = {"metadata": {"name": "s", "uid": "u", "resourceVersion": "1"}, **classic_slice()}
    new = {**old, "nodeName": "other", "driverName": "e.example.com"}
    assert [str(p) for p in rules.validate_update(new, old, context())] == [
        'nodeName: Invalid value: "other": field is immutable',
        'driverName: Invalid value: "e.example.com": field is immutable',
    ]


def test_stored_parameters_are_not_compiled_again():
    rules = CLASSIC["ResourceClaimParameters"].strategy
    requests = [{"driverName": "d.example.com", "requests": [{"namedResources": {"selector": "broken"}}]}]
    old = {"metadata": {"name": "p", "uid": "u", "resourceVersion": "1"}, "driverRequests": requests}
    assert list(rules.validate_update(copy.deepcopy(old), old, context())) == []
    assert problems(CLASSIC["ResourceClaimParameters"], {"driverRequests": requests}) == [
        'driverRequests[0].requests[0].namedResources.selector: Invalid value: "broken": compilation failed: ERROR: x'
    ]

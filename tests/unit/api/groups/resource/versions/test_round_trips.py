"""Any object can be read and written through any version, and nothing gets lost on the way."""

from __future__ import annotations

import copy

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dray.api.groups import resource
from dray.api.groups.resource.classic import bridge
from dray.api.groups.resource.versions import residue
from dray.api.quirks import NEWEST_QUIRKS
from dray.api.schema import decode, type_of

KINDS = resource.kinds(NEWEST_QUIRKS)
MODERN = {kind.kind: kind for kind in KINDS if kind.hub == "v1"}
CLASSIC = {kind.kind: kind for kind in KINDS if kind.hub == "v1alpha2"}

names = st.sampled_from(["a", "b", "gpu", "nic-0"])
texts = st.text("abc.", max_size=4)
quantities = st.sampled_from(["1", "80Gi", "500m"])


def optional(**fields):
    """A dict in which any field may be missing."""
    return st.fixed_dictionaries({}, optional=fields)


selectors = st.lists(
    st.fixed_dictionaries({"cel": st.fixed_dictionaries({"expression": texts})}), min_size=1, max_size=2
)
node_selectors = st.just(
    {"nodeSelectorTerms": [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n"]}]}]}
)
tolerations = st.lists(
    st.fixed_dictionaries({"operator": st.just("Exists")}, optional={"key": names}), min_size=1, max_size=2
)
opaque = st.fixed_dictionaries({"driver": names, "parameters": st.just({"kind": "Config", "x": [1, 2]})})
wanted = {
    "selectors": selectors, "allocationMode": st.just("ExactCount"), "count": st.integers(1, 4),
    "tolerations": tolerations, "capacity": st.fixed_dictionaries({"requests": st.dictionaries(names, quantities, min_size=1)}),
    "derivedAttributes": st.lists(st.fixed_dictionaries({"name": names, "expression": texts}), min_size=1, max_size=1),
}  # fmt: skip
exactly = st.fixed_dictionaries({"deviceClassName": names}, optional={**wanted, "adminAccess": st.booleans()})
alternatives = st.lists(
    st.fixed_dictionaries({"name": names, "deviceClassName": names}, optional=wanted), min_size=1, max_size=2
)
requests = st.lists(
    st.one_of(
        st.fixed_dictionaries({"name": names, "exactly": exactly}),
        st.fixed_dictionaries({"name": names, "firstAvailable": alternatives}),
    ),
    min_size=1, max_size=3, unique_by=lambda r: r["name"],
)  # fmt: skip
claim_specs = st.fixed_dictionaries(
    {
        "devices": st.fixed_dictionaries(
            {"requests": requests},
            optional={
                "constraints": st.lists(
                    optional(matchAttribute=names, distinctAttribute=names), min_size=1, max_size=2
                ),
                "config": st.lists(st.fixed_dictionaries({"opaque": opaque}), min_size=1, max_size=2),
            },
        )
    }
)
results = st.lists(
    st.fixed_dictionaries(
        {"request": names, "driver": names, "pool": names, "device": names},
        optional={"adminAccess": st.booleans(), "tolerations": tolerations, "shareID": names, "bindingConditions": st.just(["x"]),
                  "consumedCapacity": st.dictionaries(names, quantities, min_size=1), "skipNodeOperations": st.just(["*"])},
    ),
    min_size=1, max_size=2,
)  # fmt: skip
claim_statuses = optional(
    allocation=st.fixed_dictionaries(
        {"devices": st.fixed_dictionaries({"results": results})},
        optional={"nodeSelector": node_selectors, "allocationTimestamp": st.just("2026-01-01T00:00:00Z")},
    ),
    reservedFor=st.lists(st.fixed_dictionaries({"resource": st.just("pods"), "name": names, "uid": names}), min_size=1, max_size=2),
    devices=st.lists(
        st.fixed_dictionaries(
            {"driver": names, "pool": names, "device": names},
            optional={"shareID": names, "data": st.just({"a": 1}), "networkData": st.just({"interfaceName": "eth0"})},
        ),
        min_size=1, max_size=2,
    ),
)  # fmt: skip
metadata = st.fixed_dictionaries(
    {"name": names}, optional={"annotations": st.just({"mine": "yes"}), "labels": st.just({"l": "v"})}
)
attributes = st.one_of(
    st.fixed_dictionaries({"int": st.integers(0, 9)}), st.fixed_dictionaries({"bool": st.booleans()}),
    st.fixed_dictionaries({"string": texts}), st.fixed_dictionaries({"strings": st.lists(texts, min_size=1, max_size=2)}),
)  # fmt: skip
devices = st.lists(
    st.fixed_dictionaries(
        {"name": names},
        optional={
            "attributes": st.dictionaries(names, attributes, min_size=1, max_size=2),
            "capacity": st.dictionaries(names, st.fixed_dictionaries({"value": quantities}, optional={"requestPolicy": st.fixed_dictionaries({"default": quantities})}), min_size=1, max_size=2),
            "consumesCounters": st.just([{"counterSet": "s", "counters": {"c": {"value": "1"}}, "compatibilityGroups": ["g"]}]),
            "taints": st.just([{"key": "k", "effect": "NoSchedule", "timeAdded": "2026-01-01T00:00:00Z"}]),
            "nodeName": names, "allowMultipleAllocations": st.booleans(), "bindsToNode": st.booleans(),
            "nodeAllocatableResources": st.just({"cpu": {"mapping": {"deviceMultiplier": "2"}}}),
        },
    ),
    min_size=1, max_size=3, unique_by=lambda d: d["name"],
)  # fmt: skip
slice_specs = st.fixed_dictionaries(
    {"driver": names, "pool": st.fixed_dictionaries({"name": names, "generation": st.integers(0, 3), "resourceSliceCount": st.just(1)})},
    optional={"nodeName": names, "allNodes": st.just(True), "nodeSelector": node_selectors, "devices": devices,
              "perDeviceNodeSelection": st.booleans(), "skipNodeOperations": st.just(["*"])},
)  # fmt: skip
class_specs = optional(
    selectors=selectors,
    config=st.lists(st.fixed_dictionaries({"opaque": opaque}), min_size=1, max_size=2),
    extendedResourceName=names,
)
OBJECTS = {
    "ResourceClaim": st.fixed_dictionaries(
        {"metadata": metadata, "spec": claim_specs, "status": claim_statuses}
    ),
    "ResourceClaimTemplate": st.fixed_dictionaries(
        {"metadata": metadata, "spec": st.fixed_dictionaries({"spec": claim_specs})}
    ),
    "ResourceSlice": st.fixed_dictionaries({"metadata": metadata, "spec": slice_specs}),
    "DeviceClass": st.fixed_dictionaries({"metadata": metadata, "spec": class_specs}),
}
classic_statuses = optional(
    driverName=names,
    allocation=optional(
        resourceHandles=st.lists(st.fixed_dictionaries({"driverName": names}, optional={"data": st.just("opaque")}), min_size=1, max_size=3),
        availableOnNodes=node_selectors, shareable=st.just(True),
    ),
    reservedFor=st.just([{"resource": "pods", "name": "p", "uid": "u"}]),
    deallocationRequested=st.just(True),
)  # fmt: skip
classic_specs = st.fixed_dictionaries({"resourceClassName": names, "allocationMode": st.just("Immediate")})
CLASSIC_OBJECTS = {
    "ResourceClaim": st.fixed_dictionaries(
        {"metadata": metadata, "spec": classic_specs, "status": classic_statuses}
    ),
    "ResourceClass": st.fixed_dictionaries(
        {"metadata": metadata, "driverName": names}, optional={"structuredParameters": st.booleans()}
    ),
}


def through(hub, version):
    """Out through a version's codec and its schema, and in again, as a client would."""
    frozen = copy.deepcopy(hub)
    shown = version.from_hub(hub) if version.from_hub else hub
    decoded = decode(type_of(version.type), shown).object
    back = version.to_hub(decoded) if version.to_hub else decoded
    assert hub == frozen, "codecs must not change shared objects"
    return back


def settled(obj):
    """Absent, null and empty mean the same in these objects."""
    if isinstance(obj, dict):
        return {
            key: settled(value) for key, value in obj.items() if value not in (None, [], {}, "", 0, False)
        }
    if isinstance(obj, list):
        return [settled(item) for item in obj]
    return obj


def hub_of(kind, obj):
    return decode(type_of(kind.version(kind.hub).type), obj).object


def check_survival(kind, version_name, objects):
    @given(objects)
    @settings(max_examples=60, deadline=None)
    def check(obj):
        hub = hub_of(kind, obj)
        assert settled(through(hub, kind.version(version_name))) == settled(hub)

    check()


@pytest.mark.parametrize("kind_name", OBJECTS)
@pytest.mark.parametrize("version_name", ["v1", "v1beta2", "v1beta1", "v1alpha3"])
def test_modern_objects_survive_every_version(kind_name, version_name):
    check_survival(MODERN[kind_name], version_name, OBJECTS[kind_name])


@pytest.mark.parametrize("kind_name", CLASSIC_OBJECTS)
@pytest.mark.parametrize("version_name", ["v1alpha2", "v1alpha1"])
def test_classic_objects_survive_every_version(kind_name, version_name):
    check_survival(CLASSIC[kind_name], version_name, CLASSIC_OBJECTS[kind_name])


def test_what_a_client_changes_in_an_old_version_wins_over_what_was_kept():
    kind = MODERN["ResourceSlice"]
    hub = hub_of(kind, {
        "metadata": {"name": "s"},
        "spec": {"driver": "d", "allNodes": True, "pool": {"name": "p", "resourceSliceCount": 1, "generation": 1},
                 "devices": [{"name": "x", "allowMultipleAllocations": True}, {"name": "y", "bindsToNode": True}]},
    })  # fmt: skip
    shown = kind.version("v1alpha3").from_hub(hub)
    assert residue.ANNOTATION in shown["metadata"]["annotations"]
    shown["spec"]["devices"].pop(0)
    shown["spec"]["devices"][0]["basic"]["attributes"] = {"a": {"int": 1}}
    back = kind.version("v1alpha3").to_hub(shown)
    assert back["spec"]["devices"] == [{"name": "y", "attributes": {"a": {"int": 1}}, "bindsToNode": True}]
    assert "annotations" not in back["metadata"]


def test_objects_that_an_old_version_can_express_carry_no_annotation():
    kind = MODERN["ResourceClaim"]
    hub = hub_of(
        kind,
        {
            "metadata": {"name": "c"},
            "spec": {
                "devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "c", "count": 1}}]}
            },
        },
    )
    shown = kind.version("v1alpha3").from_hub(hub)
    assert "annotations" not in shown["metadata"]
    assert shown["spec"]["devices"]["requests"] == [{"name": "r", "deviceClassName": "c", "count": 1}]


def test_a_forged_annotation_changes_nothing():
    kind = MODERN["DeviceClass"]
    for text in ("no json", "[]", '{"metadata": {"name": "other"}}', '{"spec": 5}'):
        obj = {"metadata": {"name": "c", "annotations": {residue.ANNOTATION: text}}, "spec": {}}
        assert kind.version("v1alpha3").to_hub(obj) == {"metadata": {"name": "c"}, "spec": {}}


def test_a_classic_claim_shows_its_state_through_v1():
    claim = {
        "metadata": {"name": "c", "namespace": "n"},
        "spec": {"resourceClassName": "cats", "allocationMode": "Immediate"},
        "status": {"driverName": "d", "allocation": {"shareable": True, "availableOnNodes": {"nodeSelectorTerms": []}},
                   "reservedFor": [{"resource": "pods", "name": "p", "uid": "u"}]},
    }  # fmt: skip
    modern = bridge.as_modern(claim)
    assert bridge.is_classic(modern)
    assert modern["spec"] == {"devices": {"requests": None}}
    assert modern["status"]["allocation"] == {"devices": {}, "nodeSelector": {"nodeSelectorTerms": []}}
    assert bridge.merged(modern, claim) == claim


def test_deallocating_a_classic_claim_through_v1_keeps_its_driver():
    claim = {"metadata": {"name": "c"}, "spec": {"resourceClassName": "cats"},
             "status": {"driverName": "d", "allocation": {}, "deallocationRequested": True}}  # fmt: skip
    modern = bridge.as_modern(claim)
    del modern["status"]["allocation"]
    assert bridge.merged(modern, claim)["status"] == {"driverName": "d"}


def test_a_claim_for_devices_cannot_pass_for_a_classic_one():
    spec = {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "c"}}]}}
    metadata = {"name": "x", "annotations": {bridge.GENERATION: "v1alpha2"}}
    assert not bridge.is_classic({"metadata": metadata, "spec": spec})
    assert bridge.is_classic({"metadata": metadata, "spec": {"devices": {}}})

"""Conversion, rule by rule and by property."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dray.convert import convert, convert_text, read_rules
from dray.convert.parameters import RuleError
from dray.convert.selectors import attribute_name, translate

Doc = dict[str, Any]


def one(document: Doc, *, target: str = "v1", others: list[Doc] | None = None) -> tuple[Any, list[str]]:
    result = convert([document], target=target, context=others or [])
    return result.documents[0], [note.message for note in result.notes if note.lost]


def old(kind: str, **fields: Any) -> Doc:
    return {"apiVersion": "resource.k8s.io/v1alpha2", "kind": kind, "metadata": {"name": "x"}, **fields}


def test_a_class_selects_the_devices_of_its_driver() -> None:
    made, lost = one(old("ResourceClass", driverName="d.example.com"))
    assert (made["kind"], made["apiVersion"]) == ("DeviceClass", "resource.k8s.io/v1")
    assert made["spec"] == {"selectors": [{"cel": {"expression": 'device.driver == "d.example.com"'}}]}
    assert "driverName" not in made
    assert not lost


def test_filters_of_class_parameters_join_the_class() -> None:
    parameters = old(
        "ResourceClassParameters",
        filters=[{"driverName": "d", "namedResources": {"selector": 'attributes.bool["ok"]'}}],
        vendorParameters=[{"driverName": "d", "parameters": {"a": 1}}],
    )
    reference = {"apiGroup": "resource.k8s.io", "kind": "ResourceClassParameters", "name": "x"}
    made, lost = one(
        old("ResourceClass", driverName="d", structuredParameters=True, parametersRef=reference),
        others=[parameters],
    )
    [selector] = made["spec"]["selectors"]
    assert selector["cel"]["expression"] == 'device.driver == "d" && (device.attributes["d"].ok)'
    assert made["spec"]["config"] == [{"opaque": {"driver": "d", "parameters": {"a": 1}}}]
    assert not lost


@pytest.mark.parametrize(
    ("document", "word"),
    [
        (old("ResourceClass", driverName="d", suitableNodes={"nodeSelectorTerms": []}), "suitableNodes"),
        (old("ResourceClaim", spec={"resourceClassName": "c", "allocationMode": "Immediate"}), "Immediate"),
        (old("ResourceClaim", spec={"resourceClassName": "c", "parametersRef": {"kind": "P", "name": "p"}}), "P p"),
        (old("ResourceClaim", spec={"resourceClassName": "c"}, status={"allocation": {"shareable": True}}), "allocation"),
    ],
)  # fmt: skip
def test_fields_without_equivalent_have_notes(document: Doc, word: str) -> None:
    [message] = one(document)[1]
    assert word in message


def test_exclusive_use_is_lost_for_a_claim_but_not_for_a_template() -> None:
    parameters = old("ResourceClaimParameters", driverRequests=[{"driverName": "d", "requests": [{"namedResources": {"selector": "true"}}]}])  # fmt: skip
    reference = {"apiGroup": "resource.k8s.io", "kind": "ResourceClaimParameters", "name": "x"}
    spec = {"resourceClassName": "c", "parametersRef": reference}
    assert "exclusive" in one(old("ResourceClaim", spec=dict(spec)), others=[parameters])[1][0]
    assert not one(old("ResourceClaimTemplate", spec={"spec": dict(spec)}), others=[parameters])[1]


def test_parameters_are_found_through_what_they_were_made_from() -> None:
    origin = {"apiGroup": "example.com", "kind": "Wishes", "name": "w"}
    parameters = old(
        "ResourceClaimParameters",
        generatedFrom=origin,
        shareable=True,
        driverRequests=[
            {"driverName": "d", "requests": [{"namedResources": {"selector": s}} for s in ("true", "false")]}
        ],
    )
    made, lost = one(
        old("ResourceClaim", spec={"resourceClassName": "c", "parametersRef": origin}), others=[parameters]
    )
    assert [r["name"] for r in made["spec"]["devices"]["requests"]] == ["req-0", "req-1"]
    assert not lost


@pytest.mark.parametrize(
    ("then", "now"),
    [
        ('attributes.string["color"] == "black"', 'device.attributes["d"].color == "black"'),
        ("attributes.quantity['mem'].isGreaterThan(quantity(\"1Gi\"))", 'device.capacity["d"].mem.isGreaterThan(quantity("1Gi"))'),
        ('"a-b" in attributes.int', '"a_b" in device.attributes["d"]'),
        ('"x" == \'attributes.string["y"]\'', '"x" == \'attributes.string["y"]\''),
        ("attributes.version.v.isLessThan(semver('1.0.0'))", "device.attributes[\"d\"].v.isLessThan(semver('1.0.0'))"),
        ('attributes.string["in"] == ""', 'device.attributes["d"]["in"] == ""'),
        ("my.attributes.string", "my.attributes.string"),
    ],
)  # fmt: skip
def test_translated_selectors_match_the_same_devices(then: str, now: str) -> None:
    assert translate(then, "d", renamed=lambda old, new: None) == now


def test_slices_of_one_pool_have_its_slice_count() -> None:
    slices = [
        old("ResourceSlice", nodeName="n", driverName="d", namedResources={"instances": [{"name": f"i.{i}"}]})
        for i in range(2)
    ]
    result = convert(slices)
    for number, made in enumerate(result.documents):
        assert made is not None
        assert made["spec"]["pool"] == {"name": "n", "generation": 1, "resourceSliceCount": 2}
        assert made["spec"]["devices"] == [{"name": f"i-{number}"}]


def test_an_alpha_slice_gets_capacities_with_values() -> None:
    device = {"name": "a", "basic": {"capacity": {"mem": "1Gi"}}}
    made, _ = one({"apiVersion": "resource.k8s.io/v1alpha3", "kind": "ResourceSlice", "metadata": {"name": "x"}, "spec": {"devices": [device]}})  # fmt: skip
    assert made["spec"]["devices"] == [{"name": "a", "capacity": {"mem": {"value": "1Gi"}}}]


def test_classic_documents_can_become_beta_ones() -> None:
    made, _ = one(old("ResourceClaim", spec={"resourceClassName": "c"}), target="v1beta1")
    assert made["spec"]["devices"]["requests"] == [{"name": "req-0", "deviceClassName": "c"}]
    made, _ = one(old("ResourceSlice", nodeName="n", driverName="d", namedResources={"instances": [{"name": "i"}]}), target="v1beta1")  # fmt: skip
    assert made["spec"]["devices"] == [{"name": "i", "basic": {}}]


def test_sources_are_flattened_wherever_pods_are_described() -> None:
    entry = {"name": "c", "source": {"resourceClaimName": "mine"}}
    pod = {"containers": [{"name": "a"}], "resourceClaims": [entry]}
    cron = {"apiVersion": "batch/v1", "kind": "CronJob", "spec": {"jobTemplate": {"spec": {"template": {"spec": pod}}}}}  # fmt: skip
    assert convert([cron]).changed == (True,)
    assert entry == {"name": "c", "resourceClaimName": "mine"}


def test_a_comment_without_a_place_is_kept_at_the_top() -> None:
    text = "apiVersion: resource.k8s.io/v1alpha2\nkind: ResourceClaim\nmetadata: {name: x}\nspec:\n  resourceClassName: c # the class\n  allocationMode: WaitForFirstConsumer # later\n"
    [made] = convert_text([text]).texts
    assert "# later" in made
    assert "# the class" in made


def test_lists_are_converted_item_by_item() -> None:
    items = [old("ResourceClass", driverName="d"), old("PodSchedulingContext", spec={})]
    document: Doc = {"apiVersion": "v1", "kind": "List", "items": items}
    convert([document])
    assert [item["kind"] for item in document["items"]] == ["DeviceClass"]


@pytest.mark.parametrize(
    "rules", [[], {"parameters": [{}]}, {"parameters": [{"kind": "A", "selector": "x"}]}]
)
def test_rules_that_say_nothing_useful_are_refused(rules: Any) -> None:
    with pytest.raises(RuleError):
        read_rules(rules)


_names = st.from_regex(r"[a-z]([a-z0-9-]{0,8}[a-z0-9])?", fullmatch=True)
_exact = st.fixed_dictionaries(
    {"deviceClassName": _names},
    optional={
        "count": st.integers(1, 9),
        "allocationMode": st.sampled_from(["ExactCount", "All"]),
        "adminAccess": st.booleans(),
        "selectors": st.just([{"cel": {"expression": "true"}}]),
        "tolerations": st.just([{"operator": "Exists"}]),
    },
)


@given(requests=st.lists(st.tuples(_names, _exact), max_size=4), template=st.booleans())
def test_a_beta_claim_asks_for_the_same_in_v1_and_back(requests: list[Any], template: bool) -> None:
    flat = [{"name": name, **exact} for name, exact in requests]
    spec: Doc = {"devices": {"requests": flat}}
    document = {
        "apiVersion": "resource.k8s.io/v1beta1",
        "kind": "ResourceClaimTemplate" if template else "ResourceClaim",
        "metadata": {"name": "x"},
        "spec": {"spec": spec} if template else spec,
    }
    before = copy.deepcopy(document)
    result = convert([document])
    assert result.complete
    assert spec["devices"]["requests"] == [{"name": name, "exactly": exact} for name, exact in requests]
    from dray.convert.modern import to_v1beta1

    to_v1beta1(document)
    assert document["spec"] == before["spec"]


_attribute = st.one_of(
    st.fixed_dictionaries({"name": _names, "string": st.text(max_size=5)}),
    st.fixed_dictionaries({"name": _names, "int": st.integers(0, 9)}),
    st.fixed_dictionaries({"name": _names, "bool": st.booleans()}),
    st.fixed_dictionaries({"name": _names, "version": st.just("1.0.0")}),
    st.fixed_dictionaries({"name": _names, "quantity": st.just("1Gi")}),
    st.fixed_dictionaries({"name": _names, "intSlice": st.just({"ints": [1, 2]})}),
    st.fixed_dictionaries({"name": _names, "stringSlice": st.just({"strings": ["a"]})}),
)


@given(st.lists(_attribute, unique_by=lambda a: attribute_name(a["name"]), max_size=5))
def test_every_attribute_of_an_instance_is_there_in_the_device(attributes: list[Doc]) -> None:
    document = old("ResourceSlice", nodeName="n", driverName="d", namedResources={"instances": [{"name": "i", "attributes": attributes}]})  # fmt: skip
    made, lost = one(document)
    [device] = made["spec"]["devices"]
    kept = {**device.get("attributes", {}), **device.get("capacity", {})}
    assert set(kept) == {attribute_name(a["name"]) for a in attributes}
    assert not lost
    for attribute in attributes:
        [value] = kept[attribute_name(attribute["name"])].values()
        [then] = [v for k, v in attribute.items() if k != "name"]
        assert value == (next(iter(then.values())) if isinstance(then, dict) else then)


@given(
    immediate=st.booleans(),
    status=st.booleans(),
    suitable=st.booleans(),
    reference=st.booleans(),
)
def test_a_classic_claim_is_complete_exactly_when_nothing_was_lost(
    immediate: bool, status: bool, suitable: bool, reference: bool
) -> None:
    claim = old("ResourceClaim", spec={"resourceClassName": "x"})
    if immediate:
        claim["spec"]["allocationMode"] = "Immediate"
    if status:
        claim["status"] = {"allocation": {}} | {"driverName": "d"}
        claim["status"]["allocation"] = {"shareable": True}
    if reference:
        claim["spec"]["parametersRef"] = {"kind": "ConfigMap", "name": "cm"}
    of = old("ResourceClass", driverName="d") | (
        {"suitableNodes": {"nodeSelectorTerms": [{}]}} if suitable else {}
    )
    result = convert([of, claim])
    assert sum(note.lost for note in result.notes) == immediate + status + suitable + reference
    assert result.complete == (not (immediate or status or suitable or reference))
    assert claim["spec"] == {
        "devices": {"requests": [{"name": "req-0", "exactly": {"deviceClassName": "x"}}]}
    }


def test_names_that_become_equal_have_a_note() -> None:
    attributes = [{"name": "a-b", "int": 1}, {"name": "a_b", "int": 2}]
    instances = [{"name": "i.0", "attributes": attributes}, {"name": "i-0"}]
    made, lost = one(old("ResourceSlice", nodeName="n", driverName="d", namedResources={"instances": instances}))  # fmt: skip
    assert made["spec"]["devices"][0]["attributes"] == {"a_b": {"int": 1}}
    assert lost == [
        "attribute a_b of i-0: a_b is another attribute's name",
        "2 instances would be called i-0: rename all but one",
    ]

"""Random objects of old versions mean the same once they are converted, and what they lose is told."""

from __future__ import annotations

import copy
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from dray.allocation import Inventory, Plan, Usage
from dray.api.schema import decode, type_of
from dray.cel.environment import devices as today
from dray.cel.environment import named_resources as then
from dray.convert import convert, read_rules
from dray.convert.selectors import device_name
from dray.placement.classic.structured_parameters import (
    NamedResources,
    NodeDriver,
    StructuredClaim,
    allocate,
    allocated_instances,
)
from tests.support import allocation
from tests.unit.api.groups.resource.versions import test_round_trips as objects

Doc = dict[str, Any]
DRIVER = "cats.example.com"


def old(kind: str, name: str, **fields: Any) -> Doc:
    return {
        "apiVersion": "resource.k8s.io/v1alpha2",
        "kind": kind,
        "metadata": {
            "name": name,
            **({} if kind in ("ResourceClass", "ResourceSlice") else {"namespace": "ns"}),
        },
        **fields,
    }


# -- 1.30's structured parameters: the same instances are selected, and the same ones allocated

_attributes = st.fixed_dictionaries(
    {
        "color": st.fixed_dictionaries({"string": st.sampled_from(["black", "white"])}),
        "lives-left": st.fixed_dictionaries({"int": st.integers(0, 9)}),
        "weight": st.fixed_dictionaries({"quantity": st.sampled_from(["3", "5Ki", "500m"])}),
    },
    optional={
        "tame": st.fixed_dictionaries({"bool": st.booleans()}),
        "firmware": st.fixed_dictionaries({"version": st.sampled_from(["1.2.3", "2.0.0"])}),
        "in": st.fixed_dictionaries({"string": st.sampled_from(["house", "garden"])}),
    },
)
_instances = st.lists(_attributes, min_size=1, max_size=5).map(
    lambda all_: [
        {"name": f"cat.{number}", "attributes": [{"name": name, **value} for name, value in one.items()]}
        for number, one in enumerate(all_)
    ]
)
_atoms = st.sampled_from(
    [
        'attributes.string["color"] == "black"',
        "attributes.string['color'].startsWith('w')",
        'attributes.int["lives-left"] > 4',
        'attributes.quantity["weight"].isGreaterThan(quantity("4"))',
        '"tame" in attributes.bool && attributes.bool["tame"]',
        '("firmware" in attributes.version ? attributes.version["firmware"].isLessThan(semver("2.0.0")) : false)',
        '"in" in attributes.string && attributes.string["in"] == "house"',
        '"lives-left" in attributes.int',
        '"nothing of the kind" in attributes.string',
        '"attributes.string" != attributes.string["color"]',
        "true",
    ]
)
_expressions = st.recursive(
    _atoms,
    lambda inner: st.one_of(
        st.tuples(inner, inner).map(lambda two: f"({two[0]}) && ({two[1]})"),
        st.tuples(inner, inner).map(lambda two: f"({two[0]}) || ({two[1]})"),
        inner.map(lambda one: f"!({one})"),
    ),
    max_leaves=4,
)
_vendor = st.none() | st.just({"kind": "Treats", "amount": 3})


@st.composite
def structured(draw: Any) -> tuple[Doc, Doc, Doc, Doc, Doc]:
    """Slice, class, its parameters, claim or template, its parameters."""
    of_class: Doc = {}
    if (only := draw(st.none() | _expressions)) is not None:
        of_class["filters"] = [{"driverName": DRIVER, "namedResources": {"selector": only}}]
    if (vendor := draw(_vendor)) is not None:
        of_class["vendorParameters"] = [{"driverName": DRIVER, "parameters": vendor}]
    wishes = draw(st.lists(st.tuples(_expressions, _vendor), min_size=1, max_size=3))
    requests = [
        {"namedResources": {"selector": text}} | ({"vendorParameters": own} if own is not None else {})
        for text, own in wishes
    ]
    group = {"apiGroup": "resource.k8s.io"}
    spec = {
        "resourceClassName": "cats",
        "parametersRef": {**group, "kind": "ResourceClaimParameters", "name": "wishes"},
    }
    template = draw(st.booleans())
    return (
        old("ResourceSlice", "s", nodeName="n", driverName=DRIVER, namedResources={"instances": draw(_instances)}),
        old(
            "ResourceClass", "cats", driverName=DRIVER, structuredParameters=True,
            parametersRef={**group, "kind": "ResourceClassParameters", "name": "house", "namespace": "ns"},
        ),
        old("ResourceClassParameters", "house", **of_class),
        old("ResourceClaimTemplate" if template else "ResourceClaim", "c", spec={"spec": spec} if template else spec),
        old(
            "ResourceClaimParameters", "wishes", shareable=draw(st.booleans()),
            driverRequests=[{"driverName": DRIVER, "requests": requests}],
        ),
    )  # fmt: skip


@given(structured())
def test_structured_parameters_select_and_allocate_the_same(world: tuple[Doc, Doc, Doc, Doc, Doc]) -> None:
    before = copy.deepcopy(world)
    result = convert(list(world))
    slice_, class_, gone_class, claim, gone_claim = result.documents
    assert gone_class is None and gone_claim is None
    assert slice_ is not None and class_ is not None and claim is not None
    exclusive = claim["kind"] == "ResourceClaim" and not before[4]["shareable"]
    assert result.complete is not exclusive

    instances = before[0]["namedResources"]["instances"]
    wanted = StructuredClaim(DRIVER, before[2], before[4])
    devices = slice_["spec"]["devices"]
    assert [d["name"] for d in devices] == [device_name(i["name"]) for i in instances]
    spec = claim["spec"]["spec"] if claim["kind"] == "ResourceClaimTemplate" else claim["spec"]
    for request, asked in zip(spec["devices"]["requests"], wanted.requests()[DRIVER], strict=True):
        chosen = [*class_["spec"]["selectors"], *(request["exactly"].get("selectors") or ())]
        for instance, device in zip(instances, devices, strict=True):
            texts = [text for text in (wanted.filter(DRIVER), asked["namedResources"]["selector"]) if text]
            meant = all(then.compile(text, stored=True).matches(instance["attributes"]) for text in texts)
            seen = today.Device.of(DRIVER, device)
            assert all(today.compile(s["cel"]["expression"]).matches(seen) for s in chosen) is meant

    # The old way takes the first that fits and never looks back; where that works, the answer is the same.
    first = allocate(wanted, "n", {NodeDriver("n", DRIVER): [NamedResources(before[0])]}, {})
    if first is not None:
        stock = Inventory(slices=[slice_], classes=[class_])
        asked_today = {"metadata": {"name": "c", "namespace": "ns", "uid": "u"}, "spec": defaulted(spec)}
        plan = allocation.run(stock, asked_today, usage=Usage(), on=allocation.node("n"))
        assert isinstance(plan, Plan)
        [given_] = plan.results
        names = [r["device"] for r in given_["devices"]["results"]]
        assert names == [device_name(name) for _, name in allocated_instances(first)]
        handle = first["resourceHandles"][0]["structuredData"]
        configured = [c["opaque"]["parameters"] for c in given_["devices"].get("config") or ()]
        vendors = [handle.get("vendorClassParameters"), *(r.get("vendorRequestParameters") for r in handle["results"])]  # fmt: skip
        assert configured == [v for v in vendors if v is not None]


def defaulted(spec: Doc) -> Doc:
    """With what the API server fills in."""
    requests = [
        {**r, "exactly": {"allocationMode": "ExactCount", "count": 1, **r["exactly"]}}
        for r in spec["devices"]["requests"]
    ]
    return {"devices": {**spec["devices"], "requests": requests}}


# -- classic claims with parameters of a driver's own: the loss is what the rules do not cover

_RULES = read_rules(
    {"parameters": [{"apiGroup": "", "kind": "ConfigMap", "selectors": ["device.driver == {data.who}"]}]}
)


@given(
    immediate=st.booleans(),
    suitable=st.booleans(),
    allocated=st.booleans(),
    reference=st.sampled_from(["none", "with a rule", "without a rule", "missing"]),
    of_class=st.sampled_from(["none", "with a rule", "without a rule", "missing"]),
    target=st.sampled_from(["v1", "v1beta2", "v1beta1"]),
)
def test_each_field_without_equivalent_has_a_note(
    immediate: bool, suitable: bool, allocated: bool, reference: str, of_class: str, target: str
) -> None:
    kinds = {"with a rule": "ConfigMap", "without a rule": "Secret", "missing": "Lost"}
    around = [
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "p", "namespace": "ns"}, "data": {"who": DRIVER}},
        {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "p", "namespace": "ns"}, "data": {}},
    ]  # fmt: skip
    class_ = old("ResourceClass", "cats", driverName=DRIVER)
    claim = old("ResourceClaim", "c", spec={"resourceClassName": "cats"})
    if reference != "none":
        claim["spec"]["parametersRef"] = {"kind": kinds[reference], "name": "p"}
    if of_class != "none":
        class_["parametersRef"] = {"kind": kinds[of_class], "name": "p", "namespace": "ns"}
    if immediate:
        claim["spec"]["allocationMode"] = "Immediate"
    if suitable:
        class_["suitableNodes"] = {"nodeSelectorTerms": [{"matchFields": []}]}
    if allocated:
        claim["status"] = {"driverName": DRIVER, "allocation": {"shareable": True}}
    result = convert([class_, claim], target=target, rules=_RULES, context=around)
    lost = [note for note in result.notes if note.lost]
    unclear = ("without a rule", "missing")
    assert len(lost) == immediate + suitable + allocated + (reference in unclear) + (of_class in unclear)
    assert result.complete is not bool(lost)

    assert class_["apiVersion"] == claim["apiVersion"] == f"resource.k8s.io/{target}"
    [request] = claim["spec"]["devices"]["requests"]
    exactly = request if target == "v1beta1" else request["exactly"]
    assert exactly["deviceClassName"] == "cats"
    assert ("selectors" in exactly) is (reference == "with a rule")
    expression = class_["spec"]["selectors"][0]["cel"]["expression"]
    assert (expression == f'device.driver == "{DRIVER}"') is (of_class != "with a rule")
    assert today.compile(expression).matches(today.Device.of(DRIVER, {"name": "x"}))
    assert not today.compile(expression).matches(today.Device.of("else.example.com", {"name": "x"}))
    configured = [*(claim["spec"]["devices"].get("config") or ()), *(class_["spec"].get("config") or ())]
    assert len(configured) == (reference == "without a rule") + (of_class == "without a rule")


# -- betas: the API server's own conversion, which is another piece of code, comes to the same


@given(st.sampled_from(["ResourceClaim", "ResourceClaimTemplate", "ResourceSlice", "DeviceClass"]), st.data())
def test_a_beta_object_becomes_what_the_api_server_makes_of_it(kind: str, data: st.DataObject) -> None:
    hub = data.draw(objects.OBJECTS[kind])
    version = data.draw(st.sampled_from(["v1beta1", "v1beta2"]))
    known = objects.MODERN[kind].version(version)
    shown = known.from_hub(copy.deepcopy(hub)) if known.from_hub else copy.deepcopy(hub)
    shown = {**shown, "apiVersion": f"resource.k8s.io/{version}", "kind": kind}
    before = copy.deepcopy(shown)
    result = convert([shown])
    assert result.complete
    [made] = result.documents
    assert made is not None and made.pop("apiVersion") == "resource.k8s.io/v1"
    del made["kind"]
    meant = known.to_hub(before) if known.to_hub else before
    assert objects.settled(made) == objects.settled(
        {k: v for k, v in meant.items() if k not in ("apiVersion", "kind")}
    )
    served = type_of(objects.MODERN[kind].version("v1").type)
    assert decode(served, copy.deepcopy(made), strict=True).problems == []

"""What many slices have in common is held once, and is what was sent."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dray.api.groups.resource.strategy.resourceslice import ResourceSliceStrategy
from dray.api.quirks import APIQuirks
from dray.api.release import EffectiveVersion
from dray.api.scheme.kinds import Object
from dray.api.scheme.strategy import Context

VALUES = st.one_of(
    st.builds(lambda n: {"int": n}, st.integers(0, 1)),
    st.builds(lambda b: {"bool": b}, st.booleans()),
    st.builds(lambda s: {"string": s}, st.sampled_from(["a", "1", "true"])),
)
DEVICES = st.builds(
    lambda name, attributes: {"name": name, "attributes": attributes},
    st.sampled_from(["x", "y"]),
    st.dictionaries(st.sampled_from(["model", "index"]), VALUES),
)


def slice_of(*devices: Object) -> dict[str, Any]:
    return {"metadata": {"name": "s"}, "spec": {"driver": "d.example.com", "devices": list(devices)}}


def gpu(**attributes: Any) -> Object:
    return {"name": "gpu-0", "attributes": attributes, "capacity": {"memory": {"value": "80Gi"}}}


def settled(obj: dict[str, Any]) -> list[Object]:
    ResourceSliceStrategy().canonicalize(obj)
    found: list[Object] = obj["spec"]["devices"]
    return found


def test_devices_that_are_alike_are_one():
    (first,) = settled(slice_of(gpu(model={"string": "m"})))
    (second,) = settled(slice_of(gpu(model={"string": "m"})))
    assert first is second


def test_devices_that_differ_share_what_they_have_in_common():
    (first,) = settled(slice_of(gpu(model={"string": "m"}, uuid={"string": "1"})))
    (second,) = settled(slice_of(gpu(model={"string": "m"}, uuid={"string": "2"})))
    assert first is not second
    assert first["attributes"]["model"] is second["attributes"]["model"]
    assert first["capacity"]["memory"] is second["capacity"]["memory"]


@given(st.lists(st.lists(DEVICES, max_size=3), max_size=4))
def test_nothing_changes_by_sharing(slices):
    for devices in slices:
        sent = deepcopy(devices)
        found = settled(slice_of(*devices))
        assert repr(found) == repr(sent), "1 is not True, and order is kept"


@pytest.mark.parametrize(
    ("version", "release", "prefix"),
    [("v1", "1.37", ""), ("v1beta1", "1.37", "basic."), ("v1beta1", "1.36", "")],
)
def test_declared_rules_speak_of_the_fields_of_the_callers_version(
    version: str, release: str, prefix: str
) -> None:
    parsed = EffectiveVersion.parse(release)
    ctx = Context(parsed.gates(), APIQuirks.of(parsed), version=version)
    consumed = {"counterSet": "", "counters": {"c": {"value": "1"}}}
    device = {"name": "Gpu", "attributes": {"a": {"int": 1, "bool": True}}, "consumesCounters": [consumed]}
    spec = {
        "driver": "d.example.com",
        "nodeName": "n",
        "pool": {"name": "p", "generation": 1, "resourceSliceCount": 1},
        "devices": [device],
    }
    obj: Any = {"metadata": {"name": "s"}, "spec": spec}
    fields = {problem.field for problem in ResourceSliceStrategy().validate(obj, ctx)}
    at = "spec.devices[0]."
    assert fields == {
        f"{at}name", f"{at}{prefix}attributes[a]", f"{at}{prefix}consumesCounters[0].counterSet",
    }  # fmt: skip

"""Field sets, managed fields and server-side apply."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dray.api.errors import BadRequest, Conflict, StatusError
from dray.api.patch import fieldsets
from dray.api.patch.apply import LAST_APPLIED, Applier
from dray.api.patch.fieldsets import difference, intersection, of_paths, union, without
from dray.api.patch.managedfields import MOST_UPDATERS, STRIPPED, manager_name, track
from dray.api.patch.ownership import compare, field_set
from dray.api.schema import Struct, normalise, structural_type, type_of, zero
from tests.support.random_documents import documents

NOW = "2024-01-01T00:00:00Z"
CONFIG_MAP = type_of("core/v1.ConfigMap")
POD = type_of("core/v1.Pod")
SERVICE = type_of("core/v1.Service")

# -- sets


@st.composite
def sets(draw: st.DrawFn, depth: int = 3) -> dict[str, Any]:
    keys = draw(st.lists(st.sampled_from(["f:a", "f:b", 'k:{"name":"x"}', 'v:"y"']), max_size=3, unique=True))
    result: dict[str, Any] = {}
    for key in keys:
        below = draw(sets(depth=depth - 1)) if depth else {}
        result[key] = {".": {}, **below} if below and draw(st.booleans()) else below
    return result


def members(fields: dict[str, Any]) -> set[tuple[str, ...]]:
    return set(fieldsets.paths(fields))


@given(a=sets(), b=sets())
def test_set_operations_are_those_of_sets_of_paths(a: Any, b: Any) -> None:
    assert members(union(a, b)) == members(a) | members(b)
    assert members(intersection(a, b)) == members(a) & members(b)
    assert members(difference(a, b)) == members(a) - members(b)
    below = {p for p in members(a) if any(p[: len(q)] == q for q in members(b))}
    assert members(without(a, b)) == members(a) - below


@given(a=sets(), b=sets())
def test_set_operations_leave_their_operands_alone(a: Any, b: Any) -> None:
    before = json.dumps([a, b])
    for operation in (union, intersection, difference, without):
        operation(a, b)
    assert json.dumps([a, b]) == before


@given(a=sets())
def test_membership_agrees_with_the_paths(a: Any) -> None:
    assert fieldsets.valid(a)
    for path in members(a):
        assert fieldsets.contains(a, path)


def test_paths_read_as_conflicts_show_them() -> None:
    path = ("f:spec", "f:containers", 'k:{"containerPort":80,"protocol":"TCP"}', 'v:"a"', "i:3")
    assert fieldsets.show_path(path) == '.spec.containers[containerPort=80,protocol="TCP"][="a"][3]'


# -- what values own


def test_fields_of_a_configuration_follow_the_types_of_its_lists_and_maps() -> None:
    config = {
        "metadata": {"labels": {"a": "b"}, "finalizers": ["x/y"]},
        "spec": {
            "containers": [{"name": "c", "ports": [{"containerPort": 80}], "args": ["x"]}],
            "nodeSelector": {"zone": "a"},
            "overhead": {},
        },
    }
    assert field_set(POD, config) == {
        "f:metadata": {"f:labels": {"f:a": {}}, "f:finalizers": {'v:"x/y"': {}}},
        "f:spec": {
            "f:containers": {
                'k:{"name":"c"}': {
                    ".": {},
                    "f:name": {},
                    "f:ports": {
                        'k:{"containerPort":80,"protocol":"TCP"}': {".": {}, "f:containerPort": {}},
                    },
                    "f:args": {},
                },
            },
            "f:nodeSelector": {},
            "f:overhead": {},
        },
    }


@settings(deadline=None, max_examples=100)
@given(
    data=st.data(), name=st.sampled_from(["core/v1.Pod", "resource/v1.ResourceClaim", "apps/v1.Deployment"])
)
def test_comparing_sees_every_difference_and_only_those(data: st.DataObject, name: str) -> None:
    type_ = type_of(name)
    old, new = (normalise(type_, data.draw(documents(type_, nulls=False))) for _ in range(2))
    changes = compare(type_, old, new)
    assert any(changes) == (old != new)
    back = compare(type_, new, old)
    assert members(back.added) == members(changes.removed)
    assert members(back.removed) == members(changes.added)
    assert members(back.modified) == members(changes.modified)


# -- updates


def write(type_: Struct, old: Any, new: Any, manager: str, *, now: str = NOW, subresource: str = "") -> Any:
    new = normalise(type_, new)
    new["metadata"]["managedFields"] = track(
        type_, old, new, manager=manager, api_version="v1", now=now, subresource=subresource
    )
    return new


def owners(obj: Any) -> dict[str, Any]:
    return {e["manager"]: e["fieldsV1"] for e in obj["metadata"].get("managedFields", ())}


def config_map(**data: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}, "data": data}


def test_who_creates_an_object_owns_its_fields_but_not_its_name() -> None:
    made = write(CONFIG_MAP, None, config_map(a="1"), "maker")
    assert made["metadata"]["managedFields"] == [
        {
            "manager": "maker",
            "operation": "Update",
            "apiVersion": "v1",
            "time": NOW,
            "fieldsType": "FieldsV1",
            "fieldsV1": {"f:data": {".": {}, "f:a": {}}},
        }
    ]


def test_who_changes_a_field_takes_it_over() -> None:
    made = write(CONFIG_MAP, None, config_map(a="1", b="1"), "maker")
    changed = write(CONFIG_MAP, made, config_map(a="2", b="1"), "editor", now="2024-01-01T00:01:00Z")
    assert owners(changed) == {
        "maker": {"f:data": {".": {}, "f:b": {}}},
        "editor": {"f:data": {"f:a": {}}},
    }


def test_an_update_that_changes_nothing_leaves_the_entries_alone() -> None:
    made = write(CONFIG_MAP, None, config_map(a="1"), "maker")
    again = write(CONFIG_MAP, made, config_map(a="1"), "other", now="2030-01-01T00:00:00Z")
    assert again["metadata"]["managedFields"] == made["metadata"]["managedFields"]


def test_fields_that_a_door_never_changes_are_not_owned_through_it() -> None:
    new = normalise(
        POD, {"metadata": {"name": "p"}, "spec": {"nodeName": "n"}, "status": {"phase": "Running"}}
    )
    reset = of_paths(("status",))
    entries = track(POD, None, new, manager="m", api_version="v1", now=NOW, reset=reset)
    assert entries[0]["fieldsV1"] == {"f:spec": {"f:nodeName": {}}}


@settings(deadline=None, max_examples=150)
@given(
    data=st.data(),
    name=st.sampled_from(["core/v1.Pod", "core/v1.Event", "resource/v1.ResourceClaim", "apps/v1.Deployment"]),
    paths=st.sampled_from([(), (("status",),), (("metadata",), ("spec", "replicas"), ("spec", "devices"))]),
)
def test_who_creates_an_object_owns_what_an_empty_one_has_not(data: Any, name: str, paths: Any) -> None:
    type_, reset = type_of(name), of_paths(*paths)
    new = normalise(type_, data.draw(documents(type_, nulls=False)))
    entries = track(type_, None, new, manager="m", api_version="v1", now=NOW, reset=reset)
    changes = compare(type_, zero(type_), new)
    owned = difference(without(union(changes.modified, changes.added), reset), STRIPPED)
    assert [e["fieldsV1"] for e in entries] == ([owned] if owned else [])


@pytest.mark.parametrize("part", [{}, {"a": {"b": [1]}}, [], ["x"], "x", 0, None])
@pytest.mark.parametrize("field", ["spec", "more"])
def test_who_creates_a_custom_resource_owns_what_its_schema_does_not_name(field: str, part: Any) -> None:
    schema = {"properties": {"spec": {}}, "x-kubernetes-preserve-unknown-fields": True}
    widget = structural_type("Widget", schema)
    new = {
        "apiVersion": "x/v1",
        "kind": "Widget",
        "metadata": {"name": "w", "labels": {"a": "b"}},
        field: part,
    }
    entries = track(widget, None, new, manager="m", api_version="x/v1", now=NOW)
    changes = compare(widget, zero(widget), new)
    assert entries[0]["fieldsV1"] == difference(union(changes.modified, changes.added), STRIPPED)
    assert f"f:{field}" in entries[0]["fieldsV1"]


def test_items_of_a_new_list_that_share_their_key_are_owned_together() -> None:
    ports = [{"port": 1, "protocol": "TCP"}, {"port": 2}, {"port": 1, "protocol": "TCP", "name": "x"}]
    new = normalise(SERVICE, {"metadata": {"name": "s"}, "spec": {"ports": ports}})
    entries = track(SERVICE, None, new, manager="m", api_version="v1", now=NOW)
    assert entries[0]["fieldsV1"]["f:spec"]["f:ports"] == {
        ".": {},
        'k:{"port":1,"protocol":"TCP"}': {},
        'k:{"port":2,"protocol":"TCP"}': {".": {}, "f:port": {}, "f:targetPort": {}},
    }


def test_an_empty_entry_resets_the_ownership() -> None:
    made = write(CONFIG_MAP, None, config_map(a="1"), "maker")
    reset = {**config_map(a="2"), "metadata": {"name": "c", "managedFields": [{}]}}
    found = write(CONFIG_MAP, made, reset, "editor")
    assert found["metadata"]["managedFields"] == []
    assert (
        write(CONFIG_MAP, {**found, "metadata": {"name": "c"}}, config_map(a="3"), "x")["metadata"][
            "managedFields"
        ]
        == []
    )


def test_nonsense_in_the_entries_of_a_writer_is_ignored() -> None:
    made = write(CONFIG_MAP, None, config_map(a="1"), "maker")
    entry = {"manager": "x", "operation": "Update", "apiVersion": "v1", "fieldsType": "FieldsV1"}
    bad = {**entry, "fieldsV1": {"z:nonsense": {}}}
    document = {**config_map(a="1"), "metadata": {"name": "c", "managedFields": [bad]}}
    assert owners(write(CONFIG_MAP, made, document, "editor")) == owners(made)


def test_the_oldest_updaters_are_merged_when_there_are_too_many() -> None:
    live = write(CONFIG_MAP, None, config_map(k0="0"), "m0")
    data = {"k0": "0"}
    for i in range(1, 15):
        data[f"k{i}"] = "1"
        live = write(CONFIG_MAP, live, config_map(**data), f"m{i}", now=f"2024-01-01T00:00:{i:02}Z")
    names = [e["manager"] for e in live["metadata"]["managedFields"]]
    assert len(names) == MOST_UPDATERS
    assert names[0] == "ancient-changes"
    everything: dict[str, Any] = {}
    for fields in owners(live).values():
        everything = union(everything, fields)
    assert members(everything["f:data"]) == {(f"f:{k}",) for k in data}


def test_a_manager_is_called_what_it_says_or_what_its_user_agent_begins_with() -> None:
    assert manager_name("me", "kubectl/v1.36 (linux)") == "me"
    assert manager_name("", "kubectl/v1.36 (linux)") == "kubectl"
    assert manager_name("", "") == "unknown"
    assert manager_name("", "x\x00y" + "z" * 200) == "xy" + "z" * 126


# -- apply


class Applying:
    """A live object that configurations are applied to."""

    def __init__(self, type_: Struct = CONFIG_MAP, api_version: str = "v1", kind: str = "ConfigMap") -> None:
        self.type, self.api_version, self.kind = type_, api_version, kind
        self.live: dict[str, Any] | None = None

    def __call__(self, manager: str, config: dict[str, Any], *, force: bool = False) -> dict[str, Any]:
        applier = Applier(
            type=self.type,
            api_version=self.api_version,
            kind=self.kind,
            manager=manager,
            now=NOW,
            force=force,
        )
        head = {"apiVersion": self.api_version, "kind": self.kind, "metadata": {"name": "c"}}
        found = applier.apply(self.live, {**head, **config})
        result = found.object if found.object is not None else self.live
        assert result is not None
        self.live = normalise(self.type, result) if self.type.name.count("/") else result
        self.live["metadata"]["managedFields"] = found.managed_fields
        return self.live

    def update(self, manager: str, new: dict[str, Any]) -> None:
        self.live = write(self.type, self.live, new, manager)


@pytest.fixture
def applying() -> Applying:
    return Applying()


def test_applying_creates_and_says_who_owns_what(applying: Applying) -> None:
    found = applying("alpha", {"data": {"a": "1"}})
    assert found["data"] == {"a": "1"}
    assert found["metadata"]["managedFields"][0]["operation"] == "Apply"
    assert owners(found) == {"alpha": {"f:data": {"f:a": {}}}}


def test_a_different_value_for_anothers_field_is_a_conflict(applying: Applying) -> None:
    applying("alpha", {"data": {"a": "1", "b": "1"}})
    with pytest.raises(Conflict) as caught:
        applying("beta", {"data": {"a": "2"}})
    assert caught.value.message == 'Apply failed with 1 conflict: conflict with "alpha": .data.a'
    assert caught.value.details == {
        "causes": [{"reason": "FieldManagerConflict", "message": 'conflict with "alpha"', "field": ".data.a"}]
    }
    with pytest.raises(Conflict) as caught:
        applying("beta", {"data": {"a": "2", "b": "2"}})
    assert caught.value.message == (
        'Apply failed with 2 conflicts: conflicts with "alpha":\n- .data.a\n- .data.b'
    )
    assert applying("beta", {"data": {"a": "2"}}, force=True)["data"] == {"a": "2", "b": "1"}


def test_the_same_value_is_shared(applying: Applying) -> None:
    applying("alpha", {"data": {"a": "1"}})
    found = applying("beta", {"data": {"a": "1"}})
    assert owners(found) == {"alpha": {"f:data": {"f:a": {}}}, "beta": {"f:data": {"f:a": {}}}}
    assert applying("beta", {})["data"] == {"a": "1"}


def test_what_is_no_longer_stated_goes_unless_somebody_else_owns_it(applying: Applying) -> None:
    applying("alpha", {"data": {"a": "1", "b": "1"}})
    applying.update("editor", config_map(a="1", b="1", c="1"))
    found = applying("alpha", {"data": {"a": "1"}})
    assert found["data"] == {"a": "1", "c": "1"}


def test_an_updaters_field_conflicts_with_its_version_named(applying: Applying) -> None:
    applying("alpha", {"data": {"a": "1"}})
    applying.update("ed", config_map(a="1", m="1"))
    with pytest.raises(Conflict, match=r'conflict with "ed" using v1: \.data\.m'):
        applying("alpha", {"data": {"a": "1", "m": "2"}})


def test_kubectl_may_take_over_what_it_applied_on_the_clients_side(applying: Applying) -> None:
    last = json.dumps(
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}, "data": {"a": "1"}}
    )
    document = config_map(a="1")
    document["metadata"]["annotations"] = {LAST_APPLIED: last}
    applying.update("kubectl-client-side-apply", document)
    with pytest.raises(Conflict):
        applying("someone", {"data": {"a": "2"}})
    found = applying("kubectl", {"data": {"a": "2"}})
    assert found["data"] == {"a": "2"}
    assert json.loads(found["metadata"]["annotations"][LAST_APPLIED])["data"] == {"a": "2"}


def test_objects_from_before_the_first_apply_have_an_owner_then(applying: Applying) -> None:
    applying.live = normalise(CONFIG_MAP, config_map(a="1"))
    with pytest.raises(Conflict, match='conflict with "before-first-apply" using v1'):
        applying("alpha", {"data": {"a": "2"}})
    assert set(owners(applying("alpha", {"data": {"b": "1"}}))) == {"alpha", "before-first-apply"}


@pytest.mark.parametrize(
    ("config", "words"),
    [
        ({"bogus": 1}, ".bogus: field not declared in schema"),
        ({"data": {"a": 1}}, ".data.a: expected string, got &value.valueUnstructured{Value:1}"),
        ({"data": []}, ".data: expected map, got &{[]}"),
        ({"immutable": "x"}, ".immutable: expected boolean, got &{x}"),
    ],
)
def test_a_configuration_that_does_not_fit_the_type_is_refused(
    applying: Applying, config: Any, words: str
) -> None:
    with pytest.raises(StatusError) as caught:
        applying("alpha", config)
    assert caught.value.http_code == 500
    assert caught.value.message == (f"failed to create typed patch object (/c; /v1, Kind=ConfigMap): {words}")


def test_a_configuration_must_be_of_the_kind_and_without_managed_fields(applying: Applying) -> None:
    with pytest.raises(BadRequest, match=r"^invalid object type: /, Kind=ConfigMap$"):
        applying("alpha", {"apiVersion": None})
    with pytest.raises(BadRequest, match=r"^metadata\.managedFields must be nil$"):
        applying("alpha", {"metadata": {"name": "c", "managedFields": []}})


def test_lists_of_a_set_or_with_keys_are_shared_item_by_item() -> None:
    pods = Applying(POD, "v1", "Pod")
    pods("alpha", {"metadata": {"name": "c", "finalizers": ["x/a"]}, "spec": {"containers": [{"name": "a"}]}})
    found = pods(
        "beta", {"metadata": {"name": "c", "finalizers": ["x/b"]}, "spec": {"containers": [{"name": "b"}]}}
    )
    assert found["metadata"]["finalizers"] == ["x/a", "x/b"]
    assert [c["name"] for c in found["spec"]["containers"]] == ["a", "b"]
    found = pods("alpha", {})
    assert found["metadata"]["finalizers"] == ["x/b"]
    assert [c["name"] for c in found["spec"]["containers"]] == ["b"]


def test_custom_resources_are_applied_by_their_schema() -> None:
    spec = {"type": "object", "properties": {"a": {"type": "string"}, "l": {"type": "array", "items": {}}}}
    widget = structural_type("Widget", {"type": "object", "properties": {"spec": spec}})
    widgets = Applying(widget, "example.com/v1", "Widget")
    widgets("alpha", {"spec": {"a": "1", "l": [1]}})
    with pytest.raises(Conflict, match=r"\.spec\.l"):
        widgets("beta", {"spec": {"l": [2]}})
    assert widgets("beta", {"spec": {"a": "1"}})["spec"] == {"a": "1", "l": [1]}


def test_ownership_is_followed_through_versions() -> None:
    """A manager that applied in another version keeps what it owns, and its fields are found there."""
    old = structural_type(
        "Old", {"properties": {"spec": {"type": "object", "properties": {"b": {"type": "string"}}}}}
    )
    new = structural_type(
        "New", {"properties": {"spec": {"type": "object", "properties": {"a": {"type": "string"}}}}}
    )

    def convert(version: str, obj: dict[str, Any]) -> tuple[Struct, dict[str, Any]]:
        type_, wanted = (old, "b") if version == "x/v1" else (new, "a")
        values = list((obj.get("spec") or {}).values())
        return type_, {**obj, "apiVersion": version, "spec": {wanted: values[0]} if values else {}}

    first = Applier(type=old, api_version="x/v1", kind="W", manager="alpha", now=NOW, convert=convert)
    live = first.apply(
        None, {"apiVersion": "x/v1", "kind": "W", "metadata": {"name": "c"}, "spec": {"b": "1"}}
    )
    assert live.object is not None
    live.object["metadata"]["managedFields"] = live.managed_fields
    there = convert("x/v2", live.object)[1]
    second = Applier(type=new, api_version="x/v2", kind="W", manager="beta", now=NOW, convert=convert)
    with pytest.raises(Conflict, match=r'conflict with "alpha": \.spec\.b'):
        second.apply(
            there, {"apiVersion": "x/v2", "kind": "W", "metadata": {"name": "c"}, "spec": {"a": "2"}}
        )


# Never empty: an empty map is not stored, so upstream, too, sees it as an addition each time it is applied.
_configs = st.dictionaries(st.sampled_from("abc"), st.sampled_from("12"), min_size=1, max_size=3)


@given(steps=st.lists(st.tuples(st.sampled_from(["x", "y"]), _configs), min_size=1, max_size=5))
def test_a_forced_apply_always_gets_what_it_states(steps: Any) -> None:
    applying = Applying()
    for manager, data in steps:
        found = applying(manager, {"data": data}, force=True)
        assert data.items() <= (found.get("data") or {}).items()
        again = applying(manager, {"data": data})  # applying it once more neither conflicts nor changes
        assert again.get("data") == found.get("data")
        stated = {f"f:{k}" for k in data}
        assert stated <= set(owners(again).get(manager, {}).get("f:data", {}))


@given(steps=st.lists(st.tuples(st.sampled_from(["x", "y"]), _configs), min_size=1, max_size=5))
def test_every_value_has_an_owner_and_none_that_is_gone_has_one(steps: Any) -> None:
    applying = Applying()
    for manager, data in steps:
        found = applying(manager, {"data": data}, force=True)
        owned: set[str] = set()
        for fields in owners(found).values():
            owned |= {k for k in fields.get("f:data", {}) if k != "."}
        assert owned == {f"f:{k}" for k in found.get("data") or {}}


def test_a_new_object_is_compared_with_what_a_type_always_writes() -> None:
    empty = zero(POD)
    changes = compare(POD, empty, normalise(POD, {}))
    assert not any(changes)

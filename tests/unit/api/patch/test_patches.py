"""JSON patch, merge patch and strategic merge patch, with the answers of upstream."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dray.api import patch
from dray.api.errors import BadRequest, StatusError
from dray.api.patch import jsonpatch, mergepatch, strategic
from dray.api.schema import decode, normalise, type_of

POD = type_of("core/v1.Pod")

_leaves = st.one_of(st.booleans(), st.integers(-3, 3), st.sampled_from(["", "a", "b"]))
json_values = st.recursive(
    _leaves,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.sampled_from("abcd"), inner, max_size=3)
    ),
    max_leaves=12,
)
json_objects = st.dictionaries(st.sampled_from("abcd"), json_values, max_size=4)


def pod(**extra: Any) -> dict[str, Any]:
    document = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p", "labels": {"a": "1"}, "finalizers": ["x/a"]},
        "spec": {"containers": [{"name": "main", "image": "one"}, {"name": "side", "image": "two"}]},
        "status": {
            "conditions": [{"type": "Ready", "status": "False"}, {"type": "Scheduled", "status": "True"}]
        },
    }
    return normalise(POD, {**document, **extra})


def patched(media: str, data: Any, *, validation: str = "Warn") -> Any:
    body = data if isinstance(data, bytes) else json.dumps(data).encode()
    return patch.apply_patch(
        media, pod(), body, decode=lambda o: decode(POD, o), type_=POD, validation=validation
    )


def refusal(media: str, data: Any, *, validation: str = "Warn") -> StatusError:
    with pytest.raises(StatusError) as caught:
        patched(media, data, validation=validation)
    return caught.value


# -- merge patch


@given(old=json_objects, new=json_objects)
def test_a_merge_patch_made_from_two_documents_turns_one_into_the_other(old: Any, new: Any) -> None:
    before = copy.deepcopy(old)
    result = mergepatch.apply(old, mergepatch.diff(old, new))
    assert json.dumps(result, sort_keys=True) == json.dumps(new, sort_keys=True)
    assert old == before


@given(document=json_objects, change=json_objects)
def test_merging_the_same_patch_twice_changes_nothing_more(document: Any, change: Any) -> None:
    once = mergepatch.apply(document, change)
    assert mergepatch.apply(once, change) == once


def test_a_null_in_a_merge_patch_removes_and_never_adds() -> None:
    assert mergepatch.apply({"a": 1}, {"a": None, "b": {"c": None, "d": 1}}) == {"b": {"d": 1}}


# -- JSON patch


@given(old=json_objects, new=json_objects)
def test_a_json_patch_never_changes_the_document_it_is_applied_to(old: Any, new: Any) -> None:
    before = copy.deepcopy(old)
    operations = [{"op": "add", "path": f"/{k}", "value": v} for k, v in new.items()]
    operations += [{"op": "remove", "path": f"/{k}"} for k in old if k not in new]
    assert jsonpatch.apply(old, operations) == new
    assert old == before


@given(document=json_objects)
def test_a_test_operation_holds_for_what_is_there(document: Any) -> None:
    operations = [{"op": "test", "path": f"/{k}", "value": v} for k, v in document.items()]
    assert jsonpatch.apply(document, operations) == document


def test_lists_are_edited_by_index_from_either_end() -> None:
    operations = [
        {"op": "add", "path": "/a/0", "value": 0},
        {"op": "add", "path": "/a/-", "value": 9},
        {"op": "replace", "path": "/a/-1", "value": 8},
        {"op": "remove", "path": "/a/1"},
        {"op": "move", "from": "/a/0", "path": "/b"},
        {"op": "copy", "from": "/a", "path": "/c"},
    ]
    assert jsonpatch.apply({"a": [1, 2]}, operations) == {"a": [2, 8], "b": 0, "c": [2, 8]}


def test_replacing_a_missing_member_adds_it_as_upstream_does() -> None:
    assert jsonpatch.apply({}, [{"op": "replace", "path": "/a~1b", "value": 1}]) == {"a/b": 1}


@pytest.mark.parametrize(
    ("operation", "words"),
    [
        ({"op": "test", "path": "/a", "value": 2}, "testing value /a failed: test failed"),
        ({"op": "test", "path": "/a", "value": True}, "testing value /a failed: test failed"),
        (
            {"op": "remove", "path": "/x"},
            "error in remove for path: '/x': Unable to remove nonexistent key: x: missing value",
        ),
        (
            {"op": "add", "path": "/x/y", "value": 1},
            'add operation does not apply: doc is missing path: "/x/y": missing value',
        ),
        (
            {"op": "replace", "path": "/l/7", "value": 1},
            "replace operation does not apply: doc is missing key: /l/7: missing value",
        ),
        (
            {"op": "add", "path": "/l/x", "value": 1},
            "error in add for path: '/l/x': value was not a proper array index: 'x': "
            'strconv.Atoi: parsing "x": invalid syntax',
        ),
        ({"op": "jump", "path": "/a"}, "Unexpected kind: jump"),
        ({"path": "/a"}, "Unexpected kind: unknown"),
    ],
)
def test_an_operation_that_does_not_fit_is_a_plain_422(operation: Any, words: str) -> None:
    with pytest.raises(StatusError) as caught:
        jsonpatch.apply({"a": 1, "l": []}, [operation])
    assert (caught.value.http_code, caught.value.status_reason) == (422, "")
    assert caught.value.message == words


def test_copying_cannot_blow_up_a_document() -> None:
    operations = [{"op": "add", "path": "/a", "value": ["x" * 1000]}]
    operations += [{"op": "copy", "from": "/a", "path": "/a/-"}] * 40
    with pytest.raises(StatusError, match="accumulated size increase of copy"):
        jsonpatch.apply({}, operations)


def test_there_is_a_most_of_operations() -> None:
    data = json.dumps([{"op": "test", "path": "/kind", "value": "Pod"}] * 10_001).encode()
    assert refusal(patch.JSON, data).http_code == 413


# -- strategic merge patch


def test_lists_with_a_merge_key_are_merged_item_by_item() -> None:
    found = patched(patch.STRATEGIC, {"spec": {"containers": [{"name": "side", "image": "new"}]}}).object
    assert [(c["name"], c["image"]) for c in found["spec"]["containers"]] == [
        ("main", "one"),
        ("side", "new"),
    ]


def test_lists_without_one_are_replaced() -> None:
    type_ = type_of("core/v1.Pod")
    live = pod(spec={"containers": [], "tolerations": [{"key": "a"}, {"key": "b"}]})
    found = strategic.apply(type_, live, {"spec": {"tolerations": [{"key": "c"}]}})
    assert found["spec"]["tolerations"] == [{"key": "c"}]


def test_primitive_lists_gain_and_lose_items() -> None:
    added = patched(patch.STRATEGIC, {"metadata": {"finalizers": ["x/b"]}}).object
    assert added["metadata"]["finalizers"] == ["x/b", "x/a"]
    removed = patched(patch.STRATEGIC, {"metadata": {"$deleteFromPrimitiveList/finalizers": ["x/a"]}}).object
    assert "finalizers" not in removed["metadata"]


def test_directives_delete_replace_and_order() -> None:
    gone = patched(
        patch.STRATEGIC, {"status": {"conditions": [{"type": "Ready", "$patch": "delete"}]}}
    ).object
    assert [c["type"] for c in gone["status"]["conditions"]] == ["Scheduled"]
    labels = {"metadata": {"labels": {"$patch": "replace", "b": "2"}}}
    assert patched(patch.STRATEGIC, labels).object["metadata"]["labels"] == {"b": "2"}
    order = {"$setElementOrder/containers": [{"name": "new"}, {"name": "side"}, {"name": "main"}]}
    found = patched(patch.STRATEGIC, {"spec": {**order, "containers": [{"name": "new"}]}}).object
    assert [c["name"] for c in found["spec"]["containers"]] == ["new", "side", "main"]


def test_retain_keys_drops_what_it_does_not_list() -> None:
    type_ = type_of("apps/v1.Deployment")
    live = normalise(
        type_, {"spec": {"strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1}}}}
    )
    change = {"spec": {"strategy": {"$retainKeys": ["type"], "type": "Recreate"}}}
    assert strategic.apply(type_, live, change)["spec"]["strategy"] == {"type": "Recreate"}


@pytest.mark.parametrize(
    ("change", "code", "words"),
    [
        (
            {"spec": {"containers": [{"image": "noname"}]}},
            500,
            "map: map[image:noname] does not contain declared merge key: name",
        ),
        (
            {"spec": {"containers": [{"name": "main", "$patch": "bogus"}]}},
            500,
            "unknown patch type: bogus in map: map[$patch:bogus name:main]",
        ),
        ({"$retainKeys": ["x"], "spec": {}}, 400, "invalid patch format of retainKeys"),
        ({"metadata": {"$deleteFromPrimitiveList": []}}, 400, "invalid patch format of primitive list"),
        ({"metadata": {"finalizers": [["x"]]}}, 422, "lists of lists are not supported"),
    ],
)
def test_a_malformed_strategic_patch_fails_as_it_does_upstream(change: Any, code: int, words: str) -> None:
    error = refusal(patch.STRATEGIC, change)
    assert (error.http_code, error.message) == (code, words)


_containers = st.lists(
    st.builds(
        lambda name, image: {"name": name, "image": image},
        st.sampled_from("abcd"),
        st.sampled_from(["x", "y"]),
    ),
    max_size=4,
    unique_by=lambda c: c["name"],
)


@given(live=_containers, change=_containers)
def test_merging_lists_keeps_every_item_and_the_order_of_the_patch(live: Any, change: Any) -> None:
    document = pod(spec={"containers": live})
    before = copy.deepcopy(document)
    found = strategic.apply(POD, document, {"spec": {"containers": change}})["spec"]["containers"] or []
    names = [c["name"] for c in found]
    assert sorted(names) == sorted({c["name"] for c in (*live, *change)})
    assert [n for n in names if n in {c["name"] for c in change}] == [c["name"] for c in change]
    images = {c["name"]: c["image"] for c in (*live, *change)}
    assert {c["name"]: c["image"] for c in found} == images
    assert document == before


# -- around them


def test_a_patch_that_is_no_object_is_refused() -> None:
    kind = "json: cannot unmarshal array into Go value of type map[string]interface {}"
    assert refusal(patch.MERGE, [1, 2]).message == f"error decoding patch: {kind}"
    assert refusal(patch.STRATEGIC, [1, 2]).message == kind
    words = "error decoding patch: json: cannot unmarshal object into Go value of type []handlers.jsonPatchOp"
    assert refusal(patch.JSON, {}).message == words
    assert refusal(patch.MERGE, b"null").message == "Invalid JSON Patch"
    with pytest.raises(BadRequest, match="not supported"):
        patch.apply_patch(patch.STRATEGIC, pod(), b"{}", decode=lambda o: decode(POD, o))


@pytest.mark.parametrize(
    ("media", "change"),
    [
        (patch.MERGE, {"nope": 1}),
        (patch.STRATEGIC, {"nope": 1}),
        (patch.JSON, [{"op": "add", "path": "/nope", "value": 1}]),
    ],
)
def test_unknown_fields_are_ignored_warned_about_or_refused(media: str, change: Any) -> None:
    assert patched(media, change, validation="Ignore").problems == []
    assert patched(media, change).problems == ['unknown field "nope"']
    error = refusal(media, change, validation="Strict")
    assert error.http_code == 422
    assert error.message.startswith(' "" is invalid: patch: Invalid value: ')
    assert error.details is not None
    assert [c["field"] for c in error.details["causes"]] == ["patch"]


def test_what_a_patch_makes_must_still_be_an_object_of_the_kind() -> None:
    error = refusal(patch.MERGE, {"metadata": "text"})
    assert error.http_code == 422
    assert "cannot unmarshal string into Go struct field Pod.metadata" in error.message

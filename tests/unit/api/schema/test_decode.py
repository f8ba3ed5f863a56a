"""Decoding: what Go would make of a document, and what it would say about a wrong one."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dray.api.errors import BadRequest
from dray.api.release import V1_30, V1_36
from dray.api.schema import (
    ListOf,
    MapOf,
    Struct,
    Type,
    decode,
    has_nothing_to_omit,
    normalise,
    omit_empty,
    parse,
    type_of,
    zero,
)
from dray.api.schema.fast import Codec, Unsupported
from dray.api.schema.reader import read
from tests.support.random_documents import documents

TYPES = [
    "core/v1.Pod", "core/v1.Secret", "core/v1.Event", "core/v1.Service", "apps/v1.Deployment", "batch/v1.CronJob",
    "resource/v1.ResourceClaim", "resource/v1.ResourceSlice", "resource/v1beta1.ResourceSlice",
    "resource/v1alpha2.ResourceClass", "rbac/v1.ClusterRole", "coordination/v1.Lease",
]  # fmt: skip


def pod(**spec: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": spec}


def decoded(name: str, document: Any) -> dict[str, Any]:
    return decode(type_of(name), json.dumps(document).encode(), strict=True).object


def refusal(name: str, document: Any) -> str:
    with pytest.raises(BadRequest) as caught:
        decoded(name, document)
    return caught.value.message


@settings(deadline=None, max_examples=150)
@given(data=st.data(), name=st.sampled_from(TYPES))
def test_the_fast_way_and_the_exact_way_give_the_same_object(data: st.DataObject, name: str) -> None:
    type_ = type_of(name)
    document = data.draw(documents(type_))
    exact, problems = read(type_, document)
    assert problems == []
    for fast in (lambda c: c.convert(document), lambda c: c.decode(json.dumps(document).encode())):
        try:
            found = fast(Codec(type_))
        except Unsupported:
            continue
        assert found == exact
        assert json.dumps(found) == json.dumps(exact)  # in the same order


@settings(deadline=None, max_examples=150)
@given(data=st.data(), name=st.sampled_from(TYPES))
def test_an_object_in_shape_stays_as_it_is(data: st.DataObject, name: str) -> None:
    type_ = type_of(name)
    once = normalise(type_, data.draw(documents(type_)))
    assert normalise(type_, once) == once


def test_fields_come_in_the_order_of_the_type_whatever_the_order_of_the_document() -> None:
    found = decoded("core/v1.Pod", {"status": {}, "spec": {"nodeName": "n", "containers": []}, "kind": "Pod"})
    assert list(found) == ["kind", "metadata", "spec", "status"]
    assert list(found["spec"]) == ["containers", "nodeName"]


def test_zero_values_are_dropped_or_filled_in_as_the_fields_say() -> None:
    found = decoded("core/v1.Pod", pod(hostNetwork=False, priority=0, containers=[{"image": ""}]))
    assert found["spec"] == {"containers": [{"name": "", "resources": {}}], "priority": 0}
    assert found["status"] == {}


def test_quantities_and_times_are_written_in_their_canonical_form() -> None:
    document = pod(containers=[{"name": "c", "resources": {"limits": {"cpu": 1.5, "memory": "1024Mi"}}}])
    document["metadata"]["creationTimestamp"] = "2024-05-01T14:00:00.5+02:00"
    found = decoded("core/v1.Pod", document)
    assert found["spec"]["containers"][0]["resources"]["limits"] == {"cpu": "1500m", "memory": "1Gi"}
    assert found["metadata"]["creationTimestamp"] == "2024-05-01T12:00:00Z"


def test_unknown_and_duplicate_fields_are_reported_in_document_order() -> None:
    text = '{"metadata":{"name":"a","name":"b","x":1},"spec":{"containers":[{"y":1}],"z":1},"w":{}}'
    found = decode(type_of("core/v1.Pod"), text.encode(), strict=True)
    assert found.problems == [
        'duplicate field "metadata.name"',
        'unknown field "metadata.x"',
        'unknown field "spec.containers[0].y"',
        'unknown field "spec.z"',
        'unknown field "w"',
    ]
    assert found.object["metadata"]["name"] == "b"


@pytest.mark.parametrize(
    "text",
    [
        '{"metadata": {"name": "a", "labels": {"x": "1", "x": "2"}}}',
        '{"metadata":{"name":"a\\u003c","name":"b"}}',
        '{"metadata":{"annotations":{"a":"{\\"b\\":1}","a":""}}}',
        '{"spec":{"priority":1,"priority":1}}',
    ],
)
def test_no_duplicate_hides_behind_white_space_or_escapes(text: str) -> None:
    assert len(decode(type_of("core/v1.Pod"), text.encode(), strict=True).problems) == 1


@pytest.mark.parametrize(
    ("document", "words"),
    [
        ({"metadata": "x"}, "string into Go struct field Pod.metadata of type v1.ObjectMeta"),
        ({"metadata": {"name": 5}}, "number into Go struct field ObjectMeta.metadata.name of type string"),
        (
            {"metadata": {"labels": {"a": 1}}},
            "number into Go struct field ObjectMeta.metadata.labels of type string",
        ),
        (pod(containers={}), "object into Go struct field PodSpec.spec.containers of type []v1.Container"),
        (pod(priority=1.5), "number 1.5 into Go struct field PodSpec.spec.priority of type int32"),
        (pod(priority=2**31), "number 2147483648 into Go struct field PodSpec.spec.priority of type int32"),
        (
            pod(volumes=[{"emptyDir": []}]),
            "array into Go struct field Volume.spec.volumes.VolumeSource.emptyDir of type v1.EmptyDirVolumeSource",
        ),
        (
            pod(restartPolicy=1),
            "number into Go struct field PodSpec.spec.restartPolicy of type v1.RestartPolicy",
        ),
    ],
)
def test_a_value_of_the_wrong_type_is_refused_in_the_words_of_go(document: Any, words: str) -> None:
    assert refusal("core/v1.Pod", document) == f"json: cannot unmarshal {words}"


def test_the_first_mismatch_counts_unless_a_value_is_broken() -> None:
    first = {"metadata": {"name": 1, "namespace": 2}}
    assert "metadata.name" in refusal("core/v1.Pod", first)
    broken = {"metadata": {"name": 1, "creationTimestamp": "noon"}}
    assert refusal("core/v1.Pod", broken) == (
        'parsing time "noon" as "2006-01-02T15:04:05Z07:00": cannot parse "noon" as "2006"'
    )


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "unexpected end of JSON input"),
        ("{bad json", "invalid character 'b' looking for beginning of object key string"),
        ("not json", "invalid character 'o' in literal null (expecting 'u')"),
        ('{"a":1', "unexpected end of JSON input"),
        ('{"a" 1}', "invalid character '1' after object key"),
        ('{"a":1 "b":2}', "invalid character '\"' after object key:value pair"),
        ("[1 2]", "invalid character '2' after array element"),
        ("{} x", "invalid character 'x' after top-level value"),
        ('{"a":01}', "invalid character '1' after object key:value pair"),
        ('{"a":1.}', "invalid character '}' after decimal point in numeric literal"),
        ('{"a":"\\x"}', "invalid character 'x' in string escape code"),
        ('{"a":NaN}', "invalid character 'N' looking for beginning of value"),
    ],
)
def test_broken_syntax_is_described_as_go_describes_it(text: str, words: str) -> None:
    with pytest.raises(BadRequest, match=r".") as caught:
        parse(text.encode())
    assert caught.value.message == words


def test_nesting_without_end_is_refused() -> None:
    with pytest.raises(BadRequest, match="exceeded max depth"):
        parse(b"[" * 100_000)
    deep = (
        b'{"spec":{"devices":{"config":[{"opaque":{"parameters":' + b'{"a":' * 50_000 + b"1" + b"}" * 50_006
    )
    with pytest.raises(BadRequest):
        decode(type_of("resource/v1.ResourceClaim"), deep)


def test_halves_of_surrogate_pairs_and_stray_bytes_become_replacement_characters() -> None:
    assert (
        decode(type_of("core/v1.Pod"), b'{"metadata":{"name":"\\ud800"}}').object["metadata"]["name"]
        == "\ufffd"
    )
    assert (
        decode(type_of("core/v1.Pod"), b'{"metadata":{"name":"\xff"}}').object["metadata"]["name"] == "\ufffd"
    )


def test_a_release_knows_only_its_own_fields() -> None:
    claims = pod(resourceClaims=[{"name": "a", "source": {"resourceClaimName": "c"}}])
    data = json.dumps(claims).encode()
    assert decode(type_of("core/v1.Pod", V1_30), data).problems == []
    assert decode(type_of("core/v1.Pod", V1_36), data).problems == [
        'unknown field "spec.resourceClaims[0].source"'
    ]
    assert decode(type_of("core/v1.Pod"), data).problems == []


def test_an_old_field_is_not_written_unless_given() -> None:
    found = decoded("core/v1.Pod", pod(resourceClaims=[{"name": "a", "resourceClaimName": "c"}]))
    assert found["spec"]["resourceClaims"] == [{"name": "a", "resourceClaimName": "c"}]


def test_storing_loses_the_difference_between_an_empty_list_and_none() -> None:
    type_ = type_of("resource/v1.ResourceClaim")
    found = normalise(type_, {"spec": {"devices": {"requests": []}}})
    assert found["spec"]["devices"] == {"requests": []}
    omit_empty(type_, found)
    assert found["spec"]["devices"] == {"requests": None}


def test_a_list_that_validation_looks_at_stays_until_it_is_stored() -> None:
    type_ = type_of("resource/v1.ResourceSlice")
    found = normalise(type_, {"spec": {"devices": [{"name": "d", "attributes": {"a": {"ints": []}}}]}})
    assert found["spec"]["devices"][0]["attributes"] == {"a": {"ints": []}}
    omit_empty(type_, found)
    assert found["spec"]["devices"][0]["attributes"] == {"a": {}}


@settings(deadline=None, max_examples=60)
@given(data=st.data(), name=st.sampled_from(TYPES))
def test_settling_twice_is_settling_once(data: st.DataObject, name: str) -> None:
    type_ = type_of(name)
    once = normalise(type_, data.draw(documents(type_)))
    omit_empty(type_, once)
    again = json.loads(json.dumps(once))
    omit_empty(type_, again)
    assert again == once


def emptied(type_: Type, value: Any) -> Any:
    """What storing leaves of a decoded value: no empty list or map, but null where something must be written."""
    match type_:
        case ListOf() if value is not None:
            return [emptied(type_.item, item) for item in value]
        case MapOf() if value is not None:
            return {key: emptied(type_.value, item) for key, item in value.items()}
        case Struct() if value is not None:
            settled = {}
            for name, part in value.items():
                field = type_.by_name[name]
                written = field.emit in ("required", "always")
                if isinstance(field.type, ListOf | MapOf) and not part and (written or field.pointer):
                    settled |= {name: None} if written else {}
                else:
                    settled[name] = emptied(field.type, part)
            return settled
    return value


@settings(deadline=None, max_examples=150)
@given(data=st.data(), name=st.sampled_from(TYPES))
def test_settling_leaves_no_empty_list_or_map(data: st.DataObject, name: str) -> None:
    type_ = type_of(name)
    found = normalise(type_, data.draw(documents(type_)))
    expected = emptied(type_, found)
    at_a_glance = has_nothing_to_omit(type_, msgspec.json.encode(found))
    assert not at_a_glance or found == expected
    omit_empty(type_, found)
    assert found == expected


def test_the_zero_object_holds_what_is_always_written() -> None:
    assert zero(type_of("core/v1.Pod")) == {"metadata": {}, "spec": {"containers": None}, "status": {}}

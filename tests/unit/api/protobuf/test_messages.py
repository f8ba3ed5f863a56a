"""Messages byte by byte: what Go's generated code writes and reads."""

from __future__ import annotations

from typing import Any

import pytest

from dray.api import protobuf
from dray.api.protobuf import Malformed
from dray.api.protobuf.wire import sized
from dray.api.schema import Field, Scalar, Struct, type_of

POD, CONTAINER, VOLUME = type_of("core/v1.Pod"), type_of("core/v1.Container"), type_of("core/v1.Volume")
META, PORT = type_of("meta/v1.ObjectMeta"), type_of("core/v1.ServicePort")


def test_text_numbers_and_flags_stand_behind_their_keys() -> None:
    container = {"name": "c", "command": ["a", ""], "stdin": True, "tty": False}
    assert protobuf.encode(CONTAINER, container) == b'\n\x01c\x1a\x01a\x1a\x00\x80\x01\x01\x90\x01\x00'  # fmt: skip
    assert protobuf.decode(CONTAINER, protobuf.encode(CONTAINER, container)) == container


def test_what_json_has_side_by_side_is_a_message_of_its_own() -> None:
    volume = {"name": "v", "emptyDir": {}}
    assert protobuf.encode(VOLUME, volume) == b"\n\x01v\x12\x02\x12\x00"
    assert protobuf.decode(VOLUME, b"\n\x01v\x12\x02\x12\x00") == volume


def test_embedding_may_go_deeper_than_one_struct() -> None:
    type_ = type_of("admissionregistration/v1.NamedRuleWithOperations")
    rule = {"resourceNames": ["x"], "operations": ["CREATE"], "apiGroups": ["g"]}
    message = protobuf.encode(type_, rule)
    assert message == b"\n\x01x\x12\x0d\n\x06CREATE\x12\x03\n\x01g"
    assert protobuf.decode(type_, message) == rule


def test_an_object_does_not_say_what_it_is() -> None:
    assert (
        protobuf.encode(POD, {"kind": "Pod", "apiVersion": "v1", "metadata": {"name": "p"}})
        == b"\n\x03\n\x01p"
    )


@pytest.mark.parametrize(
    ("type_", "obj", "message"),
    [
        (META, {"creationTimestamp": "2001-09-09T01:46:40Z"}, b"B\x08\x08\x80\x94\xeb\xdc\x03\x10\x00"),
        (META, {"labels": {"a": "b"}}, b"Z\x06\n\x01a\x12\x01b"),
        (META, {"generation": -1}, b"8" + b"\xff" * 9 + b"\x01"),
        (PORT, {"targetPort": 80}, b"\x22\x06\x08\x00\x10\x50\x1a\x00"),
        (PORT, {"targetPort": "http"}, b"\x22\x0a\x08\x01\x10\x00\x1a\x04http"),
        (type_of("core/v1.Secret"), {"data": {"a": "aGk="}}, b"\x12\x07\n\x01a\x12\x02hi"),
        (
            type_of("core/v1.ResourceRequirements"),
            {"limits": {"cpu": "1500m"}},
            b"\n\x0e\n\x03cpu\x12\x07\n\x051500m",
        ),
        (
            type_of("coordination/v1.LeaseSpec"),
            {"renewTime": "2001-09-09T01:46:40.000001Z"},
            b"\x22\x09\x08\x80\x94\xeb\xdc\x03\x10\xe8\x07",
        ),
        (
            type_of("meta/v1.ManagedFieldsEntry"),
            {"fieldsV1": {"f:spec": {}}},
            b'\x3a\x0f\n\x0d{"f:spec":{}}',
        ),
        (
            type_of("authentication/v1.UserInfo"),
            {"extra": {"a": ["b", "c"]}},
            b"\x22\x0b\n\x01a\x12\x06\n\x01b\n\x01c",
        ),
    ],
)
def test_leaves_that_are_messages(type_: Struct, obj: dict[str, Any], message: bytes) -> None:
    assert protobuf.encode(type_, obj) == message
    assert protobuf.decode(type_, message) == obj


def test_durations_are_nanoseconds() -> None:
    duration = Scalar("duration", "v1.Duration")
    fields = (Field("period", duration, "omitempty", number=1),)
    type_ = Struct("x/v1.X", "v1.X", atomic=False, fields=lambda: fields)
    assert protobuf.encode(type_, {"period": "1.5s"}) == b"\n\x06\x08\x80\xde\xa0\xcb\x05"
    assert protobuf.decode(type_, b"\n\x06\x08\x80\xde\xa0\xcb\x05") == {"period": "1.5s"}


def test_an_empty_time_is_none_and_seconds_have_no_fractions() -> None:
    assert protobuf.decode(META, b"B\x00") == {"creationTimestamp": None}
    assert protobuf.decode(META, b"B\x0b\x08\x80\x92\xb8\xc3\x98\xfe\xff\xff\xff\x01") == {
        "creationTimestamp": None
    }
    assert protobuf.decode(META, b"B\x04\x08\x01\x10\x09") == {"creationTimestamp": "1970-01-01T00:00:01Z"}


def test_an_entry_without_a_key_or_a_value_has_empty_ones() -> None:
    assert protobuf.decode(META, b"Z\x00") == {"labels": {"": ""}}
    assert protobuf.decode(type_of("core/v1.Secret"), b"\x12\x03\n\x01a") == {"data": {"a": ""}}
    quantities = protobuf.decode(type_of("core/v1.ResourceRequirements"), b"\n\x05\n\x03cpu")
    assert quantities == {"limits": {"cpu": "0"}}


def test_numbers_may_be_packed() -> None:
    type_ = type_of("core/v1.PodSecurityContext")
    assert protobuf.decode(type_, b"\x20\x01\x20\x02") == {"supplementalGroups": [1, 2]}
    assert protobuf.decode(type_, b"\x22\x03\x01\xac\x02") == {"supplementalGroups": [1, 300]}


def test_unknown_fields_are_stepped_over() -> None:
    unknown = b"\xf8\x3f\x05" + b"\xf9\x3f" + b"8bytes.." + b"\xfa\x3f\x02xx" + b"\xfd\x3f4444"
    group = b"\xfb\x3f" + b"\x08\x01" + b"\x0b\x0c" + b"\xfc\x3f"
    assert protobuf.decode(CONTAINER, unknown + group + b"\n\x01c") == {"name": "c"}


def test_a_message_that_comes_twice_is_merged() -> None:
    assert protobuf.decode(POD, b"\n\x03\n\x01p\n\x03\x1a\x01n") == {
        "metadata": {"name": "p", "namespace": "n"}
    }


def test_text_that_is_not_utf8_is_replaced() -> None:
    assert protobuf.decode(CONTAINER, b"\n\x01\xff") == {"name": "\ufffd"}


@pytest.mark.parametrize(
    ("message", "problem"),
    [
        (b"\n", "unexpected EOF"),
        (b"\n\x02c", "unexpected EOF"),
        (b"\xff" * 11, "proto: integer overflow"),
        (b"\n" + b"\xff" * 9 + b"\x01", "proto: negative length found during unmarshaling"),
        (b"\x08\x01", "proto: wrong wireType = 0 for field Name"),
        (b"\x0c", "proto: Container: wiretype end group for non-group"),
        (b"\x02\x00", "proto: Container: illegal tag 0 (wire type 2)"),
        (b"\xff\x3f", "proto: illegal wireType 7"),
        (b"\xf9\x3f1234", "unexpected EOF"),
        (b"\xfb\x3f\x08\x01", "unexpected EOF"),
    ],
)
def test_what_is_no_message_is_refused_in_gos_words(message: bytes, problem: str) -> None:
    with pytest.raises(Malformed) as refusal:
        protobuf.decode(CONTAINER, message)
    assert str(refusal.value) == problem


@pytest.mark.parametrize(
    ("type_", "message"),
    [
        (META, b"B\x0b\x08\xff\xff\xff\xff\xff\xff\xff\xff\x7f"),  # a year that no calendar has
        (META, b"B\x02\n\x00"),
        (PORT, b"\x22\x02\x08\x02"),  # neither a number nor a name
        (type_of("meta/v1.ManagedFieldsEntry"), b"\x3a\x03\n\x01{"),
        (type_of("core/v1.ResourceRequirements"), b"\n\x04\x12\x02\x08\x01"),
    ],
)
def test_leaves_that_make_no_sense_are_refused(type_: Struct, message: bytes) -> None:
    with pytest.raises(Malformed):
        protobuf.decode(type_, message)


def test_nesting_without_end_is_refused() -> None:
    message = b""
    for _ in range(5000):
        message = b"\xe2\x01" + sized(message)  # not: {not: {…}}
    with pytest.raises(Malformed, match="max depth"):
        protobuf.decode(type_of("apiextensions/v1.JSONSchemaProps"), message)

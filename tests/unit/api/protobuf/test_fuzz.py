"""Whatever comes in, the answer is an object or a refusal."""

from __future__ import annotations

from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st

from dray.api import protobuf, schema
from dray.api.errors import BadRequest
from dray.api.schema import Struct, type_of
from tests.unit.api.protobuf.test_roundtrip import TYPES, objects


def read(type_: Struct, message: bytes) -> dict[str, Any] | None:
    try:
        return schema.normalise(type_, protobuf.decode(type_, message))
    except (protobuf.Malformed, BadRequest):
        return None


@settings(deadline=None, max_examples=300)
@given(st.sampled_from(TYPES), st.binary(max_size=200))
@example("core/v1.Pod", b"\n\x02B\x00")
def test_any_bytes_are_read_or_refused(name: str, message: bytes) -> None:
    type_ = type_of(name)
    obj = read(type_, message)
    if obj is not None:
        assert read(type_, protobuf.encode(type_, obj)) is not None


@settings(deadline=None, max_examples=300)
@given(objects(), st.data())
def test_a_damaged_message_is_read_or_refused(
    found: tuple[Struct, dict[str, Any]], data: st.DataObject
) -> None:
    type_, obj = found
    message = bytearray(protobuf.encode(type_, obj))
    if not message:
        return
    for _ in range(data.draw(st.integers(1, 3))):
        message[data.draw(st.integers(0, len(message) - 1))] = data.draw(st.integers(0, 255))
    cut = data.draw(st.integers(0, len(message)))
    read(type_, bytes(message))
    read(type_, bytes(message[:cut]))


@settings(deadline=None)
@given(st.binary(max_size=80))
def test_any_bytes_are_an_envelope_or_refused(data: bytes) -> None:
    for candidate in (data, b"k8s\x00" + data):
        try:
            protobuf.unwrap(candidate)
        except protobuf.Malformed as e:
            assert str(e)

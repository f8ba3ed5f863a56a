"""Envelopes and frames."""

from __future__ import annotations

import pytest

from dray.api import protobuf
from dray.api.protobuf import Malformed
from dray.api.schema import type_of

NAMED = b"k8s\x00\n\x0f\n\x02v1\x12\x09ConfigMap"
MESSAGE = b"\n\x03\n\x01c"


def test_an_envelope_names_the_type_of_what_is_inside() -> None:
    enveloped = protobuf.wrap(protobuf.head("v1", "ConfigMap"), MESSAGE)
    assert enveloped == NAMED + b"\x12\x05" + MESSAGE + b"\x1a\x00\x22\x00"
    assert protobuf.unwrap(enveloped) == ("v1", "ConfigMap", MESSAGE)
    named = {"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"name": "c"}}
    assert protobuf.enclose(named) == enveloped


def test_an_envelope_need_not_name_a_type() -> None:
    assert protobuf.unwrap(b"k8s\x00\x12\x05" + MESSAGE) == ("", "", MESSAGE)


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (b"", "empty data"),
        (b"k8s\x00", "empty body"),
        (b"{}", "provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]"),
        (b"k8s\x00\n", "unexpected EOF"),
        (b"k8s\x00\x08\x01", "proto: wrong wireType = 0 for field 1"),
        (b"k8s\x00\n\x02\x08\x01", "proto: wrong wireType = 0 for field 1"),
    ],
)
def test_what_is_no_envelope_is_refused(data: bytes, problem: str) -> None:
    with pytest.raises(Malformed) as refusal:
        protobuf.unwrap(data)
    assert str(refusal.value) == problem


def test_a_list_is_made_of_messages_that_are_there_already() -> None:
    listed = protobuf.list_message(b"\x12\x011", [MESSAGE, MESSAGE])
    obj = {"metadata": {"resourceVersion": "1"}, "items": [{"metadata": {"name": "c"}}] * 2}
    assert listed == protobuf.encode(type_of("core/v1.ConfigMapList"), obj)


def test_a_frame_says_its_size_first() -> None:
    frame = protobuf.frame("ADDED", NAMED)
    assert frame[:4] == (len(frame) - 4).to_bytes(4, "big")
    event = protobuf.decode(type_of("meta/v1.WatchEvent"), frame[4 : 4 + 7])
    assert event == {"type": "ADDED"}
    assert frame[11:] == b"\x12" + bytes([len(NAMED) + 2]) + b"\n" + bytes([len(NAMED)]) + NAMED


def test_objects_without_numbered_fields_have_no_envelope() -> None:
    for kind in ("Table", "TableOptions", "Nonsense"):
        assert protobuf.type_for("meta.k8s.io/v1", kind) is None
    with pytest.raises(TypeError):
        protobuf.enclose({"kind": "Table", "apiVersion": "meta.k8s.io/v1"})


def test_a_status_is_known_though_it_claims_to_be_of_the_core_group() -> None:
    status = protobuf.type_for("v1", "Status")
    assert status is not None and status.name == "meta/v1.Status"

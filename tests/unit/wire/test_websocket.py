from __future__ import annotations

import os
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dray.wire.errors import ProtocolError, TooLarge
from dray.wire.websocket import BINARY, CLIENT_MESSAGE_BYTES, PING, FrameReader, frame


def masked(opcode: int, data: bytes, *, final: bool = True) -> bytes:
    mask = os.urandom(4)
    first = (0x80 if final else 0) | opcode
    if len(data) < 126:
        head = struct.pack(">BB", first, 0x80 | len(data))
    else:
        head = struct.pack(">BBH", first, 0x80 | 126, len(data))
    return head + mask + bytes(b ^ mask[i % 4] for i, b in enumerate(data))


@given(
    st.lists(st.tuples(st.binary(max_size=300), st.integers(0, 3)), max_size=5),
    st.lists(st.integers(1, 50), max_size=30),
)
def test_messages_arrive_whole_however_they_are_cut(
    messages: list[tuple[bytes, int]], cuts: list[int]
) -> None:
    wire = b""
    for data, extra in messages:
        pieces = [data[i :: extra + 1] for i in range(extra + 1)] if extra else [data]
        whole = b"".join(pieces)
        for i, piece in enumerate(pieces):
            wire += masked(2 if i == 0 else 0, piece, final=i == len(pieces) - 1)
        del whole
    reader, got, position = FrameReader(), [], 0
    for cut in [*cuts, len(wire)]:
        got += reader.feed(wire[position : position + cut])
        position += cut
    expected = [b"".join([d[i :: e + 1] for i in range(e + 1)] if e else [d]) for d, e in messages]
    assert [m for _, m in got] == expected


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("length", [0, 1, 125, 126, 65535, 65536])
def test_what_one_side_writes_the_other_reads(masked: bool, length: int) -> None:
    data = os.urandom(length)
    reader = FrameReader(expects_masked=masked)
    assert reader.feed(frame(BINARY, data, masked=masked) + frame(PING, b"?", masked=masked)) == [
        (BINARY, data),
        (PING, b"?"),
    ]


def test_a_server_takes_no_unmasked_frames() -> None:
    with pytest.raises(ProtocolError):
        FrameReader().feed(frame(BINARY, b"hello"))


def test_a_client_takes_masked_frames_too() -> None:
    assert FrameReader(expects_masked=False).feed(frame(BINARY, b"x", masked=True)) == [(BINARY, b"x")]


def test_a_message_is_bounded_in_one_frame_and_in_many() -> None:
    with pytest.raises(TooLarge):
        FrameReader().feed(frame(BINARY, bytes(CLIENT_MESSAGE_BYTES + 1), masked=True)[:14])
    reader = FrameReader(limit=10)
    reader.feed(masked(BINARY, bytes(10), final=False))
    with pytest.raises(TooLarge):
        reader.feed(masked(0, b"x"))


def test_control_frames_are_small():
    FrameReader().feed(frame(PING, b"x" * 125, masked=True))
    with pytest.raises(ProtocolError):
        FrameReader().feed(frame(PING, b"x" * 126, masked=True))

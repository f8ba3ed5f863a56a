"""The wire format itself: variable-length integers, keys, lengths, and how to step over what is not known."""

from __future__ import annotations

from typing import Final

VARINT, FIXED64, BYTES, START_GROUP, END_GROUP, FIXED32 = 0, 1, 2, 3, 4, 5

_MASK64: Final = (1 << 64) - 1
_MOST_SHIFT: Final = 63

#: The varints of one byte, which most lengths and numbers are.
SMALL: Final = tuple(bytes((n,)) for n in range(0x80))


class Malformed(ValueError):
    """The data is no such message. The words are those of Go's generated code."""


def varint(value: int) -> bytes:
    """An integer as a varint; a negative one takes ten bytes, as in Go."""
    if 0 <= value < 0x4000:
        return SMALL[value] if value < 0x80 else bytes((value & 0x7F | 0x80, value >> 7))
    value &= _MASK64
    found = bytearray()
    while value >= 0x80:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    found.append(value)
    return bytes(found)


def key(number: int, wire: int) -> bytes:
    """What stands in front of a field's value."""
    return varint(number << 3 | wire)


def sized(payload: bytes) -> bytes:
    """A payload behind its length."""
    size = len(payload)
    return (SMALL[size] if size < 0x80 else varint(size)) + payload


def read_varint(data: bytes, at: int, end: int) -> tuple[int, int]:
    """The unsigned integer at a position, and the position behind it."""
    value = shift = 0
    while True:
        if shift > _MOST_SHIFT:
            raise Malformed("proto: integer overflow")
        if at >= end:
            raise Malformed("unexpected EOF")
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & _MASK64, at
        shift += 7


def read_size(data: bytes, at: int, end: int) -> tuple[int, int]:
    """Where the payload at a position begins and ends, which is never behind ``end``."""
    if at >= end:
        raise Malformed("unexpected EOF")
    size = data[at]
    at += 1
    if size >= 0x80:
        size, at = read_varint(data, at - 1, end)
        if size >> _MOST_SHIFT:
            raise Malformed("proto: negative length found during unmarshaling")
    stop = at + size
    if stop > end:
        raise Malformed("unexpected EOF")
    return at, stop


def signed(value: int, bits: int) -> int:
    """An unsigned integer as Go sees it in a signed one of this many bits."""
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> (bits - 1) else value


def skip(data: bytes, at: int, end: int, wire: int) -> int:
    """The position behind a field that nobody asked for; ``at`` is behind its key."""
    match wire:
        case 0:
            return read_varint(data, at, end)[1]
        case 1:
            at += 8
        case 2:
            return read_size(data, at, end)[1]
        case 3:
            return _skip_group(data, at, end)
        case 5:
            at += 4
        case _:
            raise Malformed(f"proto: illegal wireType {wire}")
    if at > end:
        raise Malformed("unexpected EOF")
    return at


def _skip_group(data: bytes, at: int, end: int) -> int:
    depth = 1
    while depth:
        found, at = read_varint(data, at, end)
        match found & 7:
            case 3:
                depth += 1
            case 4:
                depth -= 1
            case wire:
                at = skip(data, at, end, wire)
    return at


def small(data: bytes, at: int, end: int) -> dict[int, int | bytes]:
    """The numbers and payloads of a message that has few of them, by field."""
    found: dict[int, int | bytes] = {}
    while at < end:
        tag, at = read_varint(data, at, end)
        number, wire = tag >> 3, tag & 7
        if not number:
            raise Malformed(f"proto: illegal tag {number} (wire type {tag})")
        if wire == VARINT:
            found[number], at = read_varint(data, at, end)
        elif wire == BYTES:
            start, at = read_size(data, at, end)
            found[number] = data[start:at]
        else:
            at = skip(data, at, end, wire)
    return found

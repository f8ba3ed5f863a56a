"""Bodies in chunks (RFC 9112, section 7.1), decoded while they arrive."""

from __future__ import annotations

import re
from typing import Final

from dray.wire.errors import ProtocolError, TooLarge

_SIZE: Final = re.compile(rb"([0-9A-Fa-f]{1,8})[ \t]*(?:;[\t\x20-\x7e\x80-\xff]*)?")
_LINE_BYTES: Final = 4096
_TRAILER_BYTES: Final = 64 << 10


class ChunkedBody:
    """Takes its chunks from the front of a buffer. Trailers are read and dropped: a field that comes after the body
    would otherwise pass for one that was looked at before it."""

    def __init__(self, limit: int) -> None:
        self.content = bytearray()
        self.keeps = True  # False: what arrives is thrown away
        self._limit = limit
        self._size = 0
        self._left = 0  # of the chunk that is being read
        self._chunk_ends = False  # the line break after a chunk is next
        self._trailers: int | None = None  # how many bytes of them there were

    def take(self, buffer: bytearray) -> bool:
        """Whether the body is complete; what follows it stays in the buffer."""
        at = 0
        try:
            while True:
                if self._left:
                    piece = buffer[at : at + self._left]
                    if self.keeps:
                        self.content += piece
                    at += len(piece)
                    self._left -= len(piece)
                    if self._left:
                        return False
                    self._chunk_ends = True
                end = buffer.find(b"\r\n", at, at + _LINE_BYTES)
                if end < 0:
                    if len(buffer) - at >= _LINE_BYTES:
                        raise ProtocolError("a line of a chunked body is too long")
                    if self._chunk_ends and not b"\r\n".startswith(buffer[at:]):
                        raise ProtocolError("a chunk is longer than it says")
                    return False
                line = bytes(buffer[at:end])
                at = end + 2
                if self._trailers is not None:
                    if not line:
                        return True
                    self._trailers += len(line) + 2
                    if self._trailers > _TRAILER_BYTES:
                        raise TooLarge("the trailers are too large")
                elif self._chunk_ends:
                    if line:
                        raise ProtocolError("a chunk is longer than it says")
                    self._chunk_ends = False
                else:
                    self._begin(line)
        finally:
            del buffer[:at]

    def _begin(self, line: bytes) -> None:
        found = _SIZE.fullmatch(line)
        if found is None:
            raise ProtocolError("the size of a chunk is not a number")
        self._left = int(found[1], 16)
        self._size += self._left
        if self._size > self._limit:
            raise TooLarge(f"limit is {self._limit}")
        if not self._left:
            self._trailers = 0

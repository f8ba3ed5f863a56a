"""Channels in a WebSocket's messages: a byte in front says which, or a digit where the rest is base64 text."""

from __future__ import annotations

import base64
import binascii
from typing import NamedTuple

from dray.wire import websocket


class Channels(NamedTuple):
    """How one subprotocol writes and reads messages of channels."""

    is_base64: bool = False

    def encode(self, channel: int, data: bytes) -> bytes:
        """The frame of a message."""
        if self.is_base64:
            return websocket.frame(websocket.TEXT, b"%d%b" % (channel, base64.b64encode(data)))
        return websocket.frame(websocket.BINARY, bytes([channel]) + data)

    def decode(self, message: bytes) -> tuple[int, bytes] | None:
        """Channel and data of a message that is not empty; None if it is not written as it should be."""
        if not self.is_base64:
            return message[0], message[1:]
        try:
            return int(message[:1]), base64.b64decode(message[1:], validate=True)
        except (ValueError, binascii.Error):
            return None

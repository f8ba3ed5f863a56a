"""What goes wrong on a connection that was open. Failures to open one pass as the ``OSError`` that they are.

WireError
├── ConnectionLost   the peer hung up, or the network broke
├── ProtocolError    the peer does not keep to the protocol
└── TooLarge         the peer sends more than is allowed
"""

from __future__ import annotations


class WireError(OSError):
    """A connection is of no further use. ``reason`` is the error behind it; without one the peer just hung up."""

    def __init__(self, message: str, reason: Exception | None = None) -> None:
        super().__init__(message)
        self.reason = reason


class ConnectionLost(WireError):
    pass


class ProtocolError(WireError):
    pass


class TooLarge(WireError):
    pass

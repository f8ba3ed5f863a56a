"""Terminals in the /dev/pts of a container: programs there find them by name."""

# The less there is between fork and exec the better:

from __future__ import annotations

import fcntl
import os
import struct

#: Unlocks the far end of a terminal, and opens it.
_TIOCSPTLCK, _TIOCGPTPEER = 0x40045431, 0x5441
_FLAGS = os.O_RDWR | os.O_NOCTTY | os.O_CLOEXEC


def open_in(multiplexer: str) -> tuple[int, int]:
    """Both ends of a new terminal of the file system that this ``ptmx`` belongs to."""
    near = os.open(multiplexer, _FLAGS)
    try:
        fcntl.ioctl(near, _TIOCSPTLCK, struct.pack("i", 0))
        return near, fcntl.ioctl(near, _TIOCGPTPEER, _FLAGS)
    except OSError:
        os.close(near)
        raise

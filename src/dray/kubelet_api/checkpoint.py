"""What the checkpoints of the node agent and of drivers have in common."""

from __future__ import annotations

from pathlib import Path


class CorruptCheckpoint(Exception):
    """The file is not what was written. Nothing is guessed: the node must be drained and the file removed."""


def boot_id() -> str:
    """Names this start of the machine: what was set up on devices before another one is gone."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""

"""The holder identity of a lease, from which another process of the same machine can tell whether the holder has ended.

A component that was killed cannot give its lease up, and the one that is started in its place would have to wait until
it has run out. Where the holder was a process of this machine that has ended, there is nothing to wait for.
"""

from __future__ import annotations

import hashlib
import os
import platform
import uuid
from pathlib import Path


def new_identity() -> str:
    """A name for this process, as upstream's ``host_uuid`` with the process in between."""
    return f"{platform.node()}_{os.getpid()}.{_started(os.getpid())}.{_space()}_{uuid.uuid4()}"


def process_ended(identity: str) -> bool:
    """Whether this is the name of a process of this machine that has ended; False if that is not known."""
    _, _, rest = identity.partition("_")
    process, _, _ = rest.partition("_")
    match process.split("."):
        case [pid, started, space] if pid.isdecimal() and started and space and space == _space():
            return _started(int(pid)) != started
    return False


def _space() -> str:
    """Where process numbers mean the same: since the same boot, in the same namespace. "" if unknown."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        namespace = Path("/proc/self/ns/pid").readlink()
    except OSError:
        return ""
    return hashlib.sha256(f"{boot} {namespace}".encode()).hexdigest()[:12]


def _started(pid: int) -> str:
    """When a process began, which tells it from a later one with its number; "" if there is none."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return ""
    after_name = stat.rpartition(")")[2].split()  # the name may have any character in it
    return "" if after_name[0] == "Z" else after_name[19]

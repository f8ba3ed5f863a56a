"""The data directory of a cluster: its lock, the file that says where the cluster listens, and how to stop it.

The lock, not the process id, says whether a cluster runs: the kernel releases it however the process ends.
"""

from __future__ import annotations

import fcntl
import json
import os
import shlex
import signal
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Final

from dray.app.options import OptionError
from dray.app.pki import write_private

_POLL_SECONDS: Final = 0.05
#: Where the keys and the objects of the cluster are.
_SECRET: Final = ("pki", "store.db")


@dataclass(frozen=True, slots=True)
class ClusterState:
    """What a running cluster writes down about itself."""

    pid: int
    url: str
    kubeconfig: str
    store: str
    release: str
    started: float
    devices: list[str] = field(default_factory=list)  # a line for each node and driver, once they are there
    commands: list[str] = field(default_factory=list)  # what to type next
    nodes: list[str] = field(default_factory=list)  # those of its nodes that have directories on this machine
    dashboard: str = ""  # the address to open in a browser, with its token


def node_directory(data: Path, node: str) -> Path:
    """Where one of the cluster's own nodes has its kubelet, CDI and log directories."""
    return data / "nodes" / node


def _lock_path(data: Path) -> Path:
    return data / "dray.lock"


def _state_path(data: Path) -> Path:
    return data / "dray.json"


def ensure_private(data: Path) -> None:
    """Create a directory that only its owner can enter, or check one that is there."""
    data.mkdir(parents=True, exist_ok=True, mode=0o700)
    check_private(data)


def check_private(data: Path) -> None:
    """The directory and what is in it must be the user's own, for root too, without links, and nobody else may write
    there: a user who can put files or links into it controls the cluster."""
    _check_own(data, data.stat())
    _check_not_shared(data)
    with os.scandir(data) as entries:
        for entry in entries:
            if entry.is_symlink():
                raise OptionError(
                    f"{entry.path} is a link, which is not followed; put a file or directory there"
                )
            _check_own(Path(entry.path), entry.stat(follow_symlinks=False))
            if entry.name in _SECRET:
                _check_not_shared(Path(entry.path))


def _check_own(path: Path, found: os.stat_result) -> None:
    if found.st_uid != os.geteuid():
        raise OptionError(
            f"{path} belongs to user {found.st_uid}, not to {os.geteuid()}; choose another directory, or become that user"
        )


def _check_not_shared(path: Path) -> None:
    mode = path.stat().st_mode
    if mode & stat.S_IWOTH:
        raise OptionError(
            f"{path} can be written by everybody; choose another directory, or: chmod o-w {path}"
        )
    if mode & stat.S_IWGRP:
        raise OptionError(
            f"{path} can be written by its group; choose another directory, or: chmod g-w {path}"
        )


@contextmanager
def locked(data: Path) -> Iterator[None]:
    """Hold the data directory; one process at a time may."""
    ensure_private(data)
    descriptor = os.open(_lock_path(data), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            found = read_state(data)
            where = f" (pid {found.pid}, {found.url})" if found is not None else ""
            end = f"dray down --data {shlex.quote(str(data))}"
            raise OptionError(f"a cluster already runs on {data}{where}; end it with: {end}") from None
        yield
    finally:
        os.close(descriptor)


def is_running(data: Path) -> bool:
    try:
        descriptor = os.open(_lock_path(data), os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


def write_state(data: Path, state: ClusterState) -> None:
    write_private(_state_path(data), json.dumps(asdict(state), indent=2).encode())


def remove_state(data: Path) -> None:
    _state_path(data).unlink(missing_ok=True)


def read_state(data: Path) -> ClusterState | None:
    try:
        return ClusterState(**json.loads(_state_path(data).read_bytes()))
    except (OSError, ValueError, TypeError):
        return None


def stop(data: Path, *, seconds: float) -> bool:
    """Ask the running cluster to end and wait for it; False if it is still there."""
    found = read_state(data)
    if found is None or not is_running(data):
        return True
    check_private(data)  # whoever else can write the state file chooses the process that is ended
    os.kill(found.pid, signal.SIGTERM)
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if not is_running(data):
            return True
        time.sleep(_POLL_SECONDS)
    return False

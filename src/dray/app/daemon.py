"""Running in the background: a child process that says on a pipe when it is ready, or why it is not."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

_VARIABLE: Final = "DRAY_READY_FD"
_READY: Final = b"ready\n"


class StartFailed(Exception):
    """The child ended, or took too long, before it was ready."""


def detach(arguments: Sequence[str], *, log: Path, seconds: float) -> int:
    """Start ``dray`` with these arguments in a session of its own; returns its pid once it is ready."""
    import select

    reading, writing = os.pipe()
    log.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    try:
        with log.open("ab") as output:
            child = subprocess.Popen(
                [sys.executable, "-c", "from dray.cli import main; main()", *arguments],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
                pass_fds=(writing,),
                env={**os.environ, _VARIABLE: str(writing)},
            )
        os.close(writing)
        readable, _, _ = select.select([reading], [], [], seconds)
        said = os.read(reading, 4096) if readable else b""
    finally:
        os.close(reading)
    if said == _READY:
        return child.pid
    if child.poll() is None and not readable:
        raise StartFailed(f"not ready after {seconds:g} s; see {log}")
    raise StartFailed(said.decode(errors="replace").strip() or f"it ended at once; see {log}")


def notify_parent(message: str | None = None) -> None:
    """Say that this process is ready or, with a message, that it will not be. Without a parent nothing happens."""
    number = os.environ.pop(_VARIABLE, "")
    if not number:
        return
    with os.fdopen(int(number), "wb") as pipe:
        pipe.write(_READY if message is None else message.encode())

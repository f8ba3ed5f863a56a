"""Termination messages: what a container wrote about its end, for its status to show."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from dray.runtimes.interface import ContainerStatus
from dray.runtimes.logs import parse

if TYPE_CHECKING:
    from dray.api.types.core import Container

DEFAULT_PATH = "/dev/termination-log"
#: Bytes of a message; and lines and bytes of the log where that has to do instead.
MAX_MESSAGE_BYTES = 4096
MAX_LOG_LINES = 80
MAX_LOG_BYTES = 2048


def file_for(directory: Path, container: str, attempt: int) -> Path:
    """Where a container's message is written on the host."""
    return directory / "containers" / container / f"message-{attempt}"


def make(file: Path) -> None:
    """Makes the file writable for every user, because the container may run as any of them."""
    file.parent.mkdir(parents=True, exist_ok=True)
    file.touch()
    file.chmod(0o666)


def message(spec: Container, status: ContainerStatus, file: Path) -> str:
    """What a container that has ended wrote to its file; or the end of its log, if it wants that and failed."""
    text = _end_of(file, MAX_MESSAGE_BYTES)
    if not text and status.exit_code and spec.get("terminationMessagePolicy") == "FallbackToLogsOnError":
        raw = _end_of(status.log_path, MAX_MESSAGE_BYTES).splitlines()
        lines = [line.text for entry in raw[-MAX_LOG_LINES:] if (line := parse(entry))]
        text = b"".join(line + b"\n" for line in lines)[-MAX_LOG_BYTES:]
    return text.decode(errors="replace")


def _end_of(file: Path, size: int) -> bytes:
    try:
        with file.open("rb") as handle:
            handle.seek(max(file.stat().st_size - size, 0))
            return handle.read(size)
    except OSError:
        return b""

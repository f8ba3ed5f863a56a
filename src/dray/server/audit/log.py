"""The audit log: one JSON document a line, appended to a file that only its owner can read."""

from __future__ import annotations

import logging
import os
from pathlib import Path
from typing import Final

from dray.api.scheme.kinds import Object
from dray.server.storage.codec import encode

log = logging.getLogger(__name__)

_STDOUT: Final = 1


class Log:
    """Where events go. ``-`` is the standard output."""

    def __init__(self, path: str) -> None:
        self._failed = False
        if path == "-":
            self._file = _STDOUT
            return
        Path(path).parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)

    def write(self, event: Object) -> None:
        """Append an event. A log that cannot be written does not stop the server, but it says so once."""
        try:
            os.write(self._file, encode(event) + b"\n")
            self._failed = False
        except OSError as e:
            if not self._failed:
                log.error("the audit log cannot be written: %s", e)
            self._failed = True

    def close(self) -> None:
        if self._file != _STDOUT:
            os.close(self._file)

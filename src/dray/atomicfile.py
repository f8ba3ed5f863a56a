"""Files that hold either the old or the new content, never half of one: they are written aside, then renamed.

Every layer may use this module; it knows nothing of Kubernetes.
"""

from __future__ import annotations

import os
import tempfile
import threading
from pathlib import Path


def write(path: Path, data: bytes, *, mode: int = 0o644, durable: bool = False, wait: bool = True) -> None:
    """Replaces ``path``. ``durable`` also survives a loss of power, at the price of a sync; a caller need not ``wait`` for
    that if the old content would do as well after such a loss."""
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as aside:
            aside.write(data)
            aside.flush()
            os.fchmod(aside.fileno(), mode)
            if durable and wait:
                os.fsync(aside.fileno())
            unsynced = os.dup(aside.fileno()) if durable and not wait else None
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
    if unsynced is not None:
        threading.Thread(target=_sync, args=(unsynced,), daemon=True).start()


def _sync(handle: int) -> None:
    try:
        os.fsync(handle)
    finally:
        os.close(handle)

"""Files that are replaced as a whole."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from dray import atomicfile


def test_a_file_is_the_old_content_or_the_new(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "f"
    atomicfile.write(path, b"old", mode=0o600)

    def fails(self: Path, target: Path) -> Path:
        raise OSError("no")

    with monkeypatch.context() as patched, pytest.raises(OSError, match="no"):
        patched.setattr(Path, "replace", fails)
        atomicfile.write(path, b"new")
    assert [(p.name, p.read_bytes()) for p in tmp_path.iterdir()] == [("f", b"old")]
    atomicfile.write(path, b"new")
    assert path.read_bytes() == b"new"


@pytest.mark.parametrize("wait", [True, False])
def test_a_durable_file_is_synced_whether_the_caller_waits_or_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wait: bool
) -> None:
    synced, done, sync = [], threading.Event(), os.fsync

    def noted(handle: int) -> None:
        sync(handle)
        synced.append(threading.current_thread() is threading.main_thread())
        done.set()

    monkeypatch.setattr(os, "fsync", noted)
    atomicfile.write(tmp_path / "f", b"x", durable=True, wait=wait)
    assert (tmp_path / "f").read_bytes() == b"x"
    assert done.wait(10)
    assert synced == [wait]

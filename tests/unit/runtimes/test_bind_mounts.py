"""Directories that containers have written to."""

from __future__ import annotations

import os
import resource
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from dray.runtimes import bind_mounts


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[Path]:
    """A directory that is quick, where there is one."""
    quick = Path("/dev/shm")
    with TemporaryDirectory(dir=quick if quick.is_dir() else tmp_path) as directory:
        yield Path(directory)


@pytest.fixture
def few_descriptors() -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    used = max(int(p.name) for p in Path("/proc/self/fd").iterdir())
    resource.setrlimit(resource.RLIMIT_NOFILE, (used + 20, hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_however_deep_directories_are_they_are_removed_and_links_are_not_followed(
    memory: Path, few_descriptors: None
) -> None:
    """A container can nest directories deeper than a path, a stack or a table of descriptors reaches."""
    victim, volume = memory / "victim", memory / "volume"
    victim.mkdir()
    (victim / "precious").touch()
    volume.mkdir()
    handle = os.open(volume, os.O_RDONLY)
    for number in range(1200):
        os.mkdir("d", dir_fd=handle)
        if number % 400 == 0:
            os.symlink(victim, "link", dir_fd=handle)
            os.close(os.open("file", os.O_CREAT, dir_fd=handle))
            os.mkdir("empty", dir_fd=handle)
        inner = os.open("d", os.O_RDONLY, dir_fd=handle)
        os.close(handle)
        handle = inner
    os.close(handle)
    bind_mounts.remove_tree(str(volume))
    assert [p.name for p in memory.iterdir()] == ["victim"]
    assert (victim / "precious").exists()


def test_a_link_is_no_tree(tmp_path: Path) -> None:
    (tmp_path / "victim").mkdir()
    (tmp_path / "victim" / "precious").touch()
    (tmp_path / "link").symlink_to(tmp_path / "victim")
    bind_mounts.remove_tree(str(tmp_path / "link"))
    bind_mounts.remove_tree(str(tmp_path / "nothing"))
    assert (tmp_path / "victim" / "precious").exists()

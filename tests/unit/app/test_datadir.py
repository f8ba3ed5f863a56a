from __future__ import annotations

import os
from pathlib import Path

import pytest

from dray.app import datadir
from dray.app.options import OptionError


def state() -> datadir.ClusterState:
    return datadir.ClusterState(os.getpid(), "https://127.0.0.1:1", "/k", "memory", "all", 0.0)


def test_a_data_directory_has_one_cluster_at_a_time(tmp_path: Path):
    with datadir.locked(tmp_path):
        datadir.write_state(tmp_path, state())
        assert datadir.is_running(tmp_path)
        with (
            pytest.raises(OptionError, match=r"a cluster already runs on .* https://127\.0\.0\.1:1"),
            datadir.locked(tmp_path),
        ):
            pass
    assert not datadir.is_running(tmp_path)


def test_a_directory_that_others_can_write_to_is_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    open_to_all = tmp_path / "open"
    open_to_all.mkdir()
    open_to_all.chmod(0o777)
    with pytest.raises(OptionError, match="can be written by everybody"), datadir.locked(open_to_all):
        pass
    monkeypatch.setattr(os, "geteuid", lambda: 12345)
    with pytest.raises(OptionError, match="belongs to somebody else"), datadir.locked(tmp_path):
        pass


def test_a_directory_is_made_for_its_owner_alone(tmp_path: Path):
    with datadir.locked(tmp_path / "new"):
        assert (tmp_path / "new").stat().st_mode & 0o777 == 0o700


def test_what_a_dead_cluster_left_behind_is_no_running_cluster(tmp_path: Path):
    datadir.write_state(tmp_path, state())
    assert datadir.read_state(tmp_path) == state()
    assert not datadir.is_running(tmp_path)
    assert datadir.stop(tmp_path, seconds=0)
    datadir.remove_state(tmp_path)
    assert datadir.read_state(tmp_path) is None


def test_a_broken_note_is_no_note(tmp_path: Path):
    (tmp_path / "dray.json").write_text("{")
    assert datadir.read_state(tmp_path) is None

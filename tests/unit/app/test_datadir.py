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
    open_to_all.chmod(0o770)
    with (
        pytest.raises(OptionError, match=r"can be written by its group.* chmod g-w"),
        datadir.locked(open_to_all),
    ):
        pass
    open_to_all.chmod(0o700)
    (open_to_all / "pki").mkdir()
    (open_to_all / "pki").chmod(0o770)
    with pytest.raises(OptionError, match="pki can be written by its group"), datadir.locked(open_to_all):
        pass
    monkeypatch.setattr(os, "geteuid", lambda: 12345)
    with pytest.raises(OptionError, match="belongs to user"), datadir.locked(tmp_path):
        pass


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a directory away")
@pytest.mark.parametrize("name", ["", "pki", "store.db"])
def test_root_does_not_use_what_belongs_to_another_user(tmp_path: Path, name: str):
    data = tmp_path / "data"
    (data / "pki").mkdir(parents=True, mode=0o700)
    (data / "store.db").touch(0o600)
    data.chmod(0o700)
    os.chown(data / name, 12345, 12345)
    with pytest.raises(OptionError, match="belongs to user 12345, not to 0"), datadir.locked(data):
        pass


@pytest.mark.parametrize("name", ["pki", "store.db", "dray.log", "runtime"])
def test_links_in_a_data_directory_are_not_followed(tmp_path: Path, name: str):
    data, elsewhere = tmp_path / "data", tmp_path / "elsewhere"
    data.mkdir(mode=0o700)
    elsewhere.mkdir()
    (data / name).symlink_to(elsewhere)
    with pytest.raises(OptionError, match=f"{name} is a link"), datadir.locked(data):
        pass
    assert list(elsewhere.iterdir()) == []


def test_a_cluster_is_not_ended_by_what_another_user_wrote(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    ended: list[int] = []
    monkeypatch.setattr(os, "kill", lambda pid, signal: ended.append(pid))
    with datadir.locked(tmp_path):
        datadir.write_state(tmp_path, state())
        monkeypatch.setattr(os, "geteuid", lambda: 12345)
        with pytest.raises(OptionError, match="belongs to user"):
            datadir.stop(tmp_path, seconds=0)
    assert ended == []


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

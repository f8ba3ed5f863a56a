"""What is typed next can be typed: a shell finds the command that it is told to run. And the scheduler's configuration."""

from __future__ import annotations

import sys
from pathlib import Path

import click
import pytest

from dray.cli.up import _bin_dir_off_path, _scheduler_configuration


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A virtual environment with the command in it."""
    command = tmp_path / "dray"
    command.write_text("#!/bin/sh\n")
    command.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    return tmp_path


def test_a_command_that_no_shell_finds_is_told_of(home, monkeypatch):
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    assert _bin_dir_off_path() == home


def test_nothing_is_said_where_the_shell_finds_it(home, monkeypatch):
    monkeypatch.setenv("PATH", f"{home}:/usr/bin:/bin")
    assert _bin_dir_off_path() is None


def test_nothing_is_said_where_there_is_no_command_to_find(home, monkeypatch):
    (home / "dray").unlink()
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    assert _bin_dir_off_path() is None


CONFIGURATION = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
leaderElection: {leaderElect: true}
profiles:
- schedulerName: other
  plugins: {multiPoint: {disabled: [{name: DynamicResources}]}}
"""


def test_the_scheduler_of_a_cluster_takes_a_configuration(tmp_path: Path):
    file = tmp_path / "scheduler.yaml"
    file.write_text(CONFIGURATION)
    flags = {"device_policy": "default", "device_preemption": False, "scheduler_config": file}
    configuration = _scheduler_configuration(flags)
    (profile,) = configuration.profiles
    assert profile.name == "other" and not profile.enabled("DynamicResources")
    assert not configuration.leader_election.enabled  # there is no other scheduler in the process
    with pytest.raises(click.UsageError, match="write them into the file"):
        _scheduler_configuration({**flags, "device_policy": "pack"})


def test_without_a_configuration_the_flags_decide():
    flags = {"device_policy": "pack", "device_preemption": True, "scheduler_config": None}
    (profile,) = _scheduler_configuration(flags).profiles
    assert (profile.device_policy, profile.device_preemption) == ("pack", True)

"""What is typed next can be typed: a shell finds the command that it is told to run. And the scheduler's configuration."""

from __future__ import annotations

import sys
from pathlib import Path

import click
import pytest

from dray.cli.scheduler import read_configuration
from dray.cli.up import _bin_dir_off_path


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


def test_a_scheduler_takes_a_configuration_or_device_options_but_not_both(tmp_path: Path):
    file = tmp_path / "scheduler.yaml"
    file.write_text(CONFIGURATION)
    (profile,) = read_configuration(file).profiles
    assert profile.name == "other" and not profile.enabled("DynamicResources")
    with pytest.raises(click.UsageError, match=r"write them into .*scheduler\.yaml"):
        read_configuration(file, device_policy="pack")
    (profile,) = read_configuration(None, device_policy="pack", device_preemption=True).profiles
    assert (profile.device_policy, profile.device_preemption) == ("pack", True)

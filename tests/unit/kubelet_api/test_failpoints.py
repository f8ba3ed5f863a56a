"""Crash points strike where and when they are told to."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

from dray.kubelet_api.failpoints import armed

PROGRAM = """
from dray.kubelet_api.failpoints import failpoint
for i in range(3):
    failpoint("here")
    print(i, flush=True)
"""


def run(faults: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "DRAY_FAULTS": faults}
    return subprocess.run(
        [sys.executable, "-c", PROGRAM], env=environment, capture_output=True, text=True, check=False
    )


def test_a_point_that_is_not_named_does_nothing() -> None:
    assert run("elsewhere").stdout.split() == ["0", "1", "2"]


def test_a_named_point_kills_at_its_nth_pass() -> None:
    done = run("elsewhere,here:2")
    assert (done.returncode, done.stdout.split()) == (-signal.SIGKILL, ["0"])


def test_points_are_read_from_the_environment() -> None:
    assert armed({"DRAY_FAULTS": "a,b:3"}) == {"a": 1, "b": 3}
    assert armed({}) == {}

"""A short run of robustness; ``make robustness`` has the long one."""

from __future__ import annotations

import random
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.paths import ROOT, TOOLS

from . import network, powerloss

SHORT = ["--seed", "5", "--operations", "2500", "--least-faults", "4", "--long-faults", "0"]


@pytest.mark.skipif(not (TOOLS / "etcd").exists(), reason="etcd is not in .tools/bin: make tools")
@pytest.mark.skipif(bool(why := network.unavailable()), reason=why or "namespaces can be made")
@pytest.mark.timeout(240)
def test_nothing_is_lost_or_booked_twice_whatever_fails() -> None:
    """In a process of its own, because it moves into a network namespace."""
    faults = ["kill", "pause", "partition", "one-way partition", "leader loss", "compaction"]
    line = [*SHORT, "--pods", "6", "--faults", *faults]
    done = subprocess.run(
        [sys.executable, "-m", "tests.robustness", *line],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "no violation" in done.stdout


@pytest.mark.skipif(bool(no_layer := powerloss.unavailable()), reason=no_layer or "the layer can be built")
@pytest.mark.timeout(240)
def test_a_power_cut_loses_nothing_that_was_acknowledged() -> None:
    line = [*SHORT, "--pods", "4", "--one-machine"]
    done = subprocess.run(
        [sys.executable, "-m", "tests.robustness", *line],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "power loss" in done.stdout and "no violation" in done.stdout, done.stdout
    assert re.search(r"power cuts took back \d+ writes", done.stdout), done.stdout


def test_the_layer_takes_back_what_was_not_synced(tmp_path: Path) -> None:
    file = tmp_path / "f"
    file.write_bytes(b"keptNEW!")
    first = f"W 0 0 4 0 {file}\n".encode() + b"kept" + f"S 0 0 0 0 {file}\n".encode()
    journal = first + f"W 4 0 4 4 {file}\n".encode() + b"NEW!"
    assert [write.new for write in powerloss.unsynced(journal)[str(file)]] == [b"NEW!"]
    (tmp_path / "journal").write_bytes(journal + f"W 8 0 100 8 {file}\n".encode() + b"cut off")
    outcomes = set()
    for seed in range(20):
        file.write_bytes(b"keptNEW!")
        (tmp_path / "journal").write_bytes(journal)
        powerloss.lose(tmp_path / "journal", random.Random(seed))
        outcomes.add(file.read_bytes())
    assert outcomes == {b"kept", b"keptNEW!"}

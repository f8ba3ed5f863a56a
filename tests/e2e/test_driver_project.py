"""The project of a new driver passes its own tests as it comes, and its chart installs."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.support.paths import DRAY, TOOLS


def test_a_new_project_passes_its_own_tests(tmp_path: Path) -> None:
    subprocess.run([DRAY, "driver", "new", "cats.example.com"], cwd=tmp_path, check=True, capture_output=True)
    project = tmp_path / "cats-driver"
    # The plugin is named, so that the test does not depend on how dray was installed.
    plugin = ["-p", "no:dray", "-p", "dray.testing.plugin", "-p", "no:cacheprovider"]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-n", "0", *plugin],
        cwd=project,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "4 passed" in done.stdout


def test_its_chart_is_right(tmp_path: Path) -> None:
    subprocess.run([DRAY, "driver", "new", "cats.example.com"], cwd=tmp_path, check=True, capture_output=True)
    chart = tmp_path / "cats-driver" / "charts" / "cats-driver"
    for helm in ("helm", "helm-4"):
        line = [str(TOOLS / helm), "template", "cats", str(chart), "--api-versions", "resource.k8s.io/v1"]
        done = subprocess.run(
            line, capture_output=True, text=True, check=False, env={**os.environ, "HOME": str(tmp_path)}
        )
        assert done.returncode == 0, done.stderr
        assert "kind: DaemonSet" in done.stdout and "name: cats.example.com" in done.stdout

"""``python -m dray``."""

from __future__ import annotations

import subprocess
import sys

from dray import __version__


def test_the_command_line_is_there_without_a_path_to_it():
    done = subprocess.run(
        [sys.executable, "-m", "dray", "--version"], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == f"dray, version {__version__}"

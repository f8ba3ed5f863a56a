"""How a process of dray starts."""

from __future__ import annotations

import subprocess
import sys

_PROGRAM = """
import resource
resource.setrlimit(resource.RLIMIT_NOFILE, (256, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
from dray.app.process import run_loop
async def main():
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    assert soft == (65536 if hard == resource.RLIM_INFINITY else min(hard, 65536)), (soft, hard)
run_loop(main())
"""


def test_the_limit_of_file_descriptors_is_raised_at_start() -> None:
    subprocess.run([sys.executable, "-c", _PROGRAM], check=True, timeout=60)

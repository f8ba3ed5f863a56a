"""Points at which a test may end this process, as a crash would.

``DRAY_FAULTS=prepare.intent,checkpoint.written:2`` kills the process with SIGKILL when it reaches the named point
(the second time, in the second case). Without the variable every point is a dictionary look-up and no more.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Mapping

VARIABLE = "DRAY_FAULTS"


def armed(environ: Mapping[str, str]) -> dict[str, int]:
    """The points named in the environment, each with the number of passes until it strikes."""
    points = {}
    for entry in filter(None, environ.get(VARIABLE, "").split(",")):
        name, _, nth = entry.partition(":")
        points[name] = int(nth or 1)
    return points


_armed = armed(os.environ)


def failpoint(name: str) -> None:
    left = _armed.get(name)
    if left is None:
        return
    if left > 1:
        _armed[name] = left - 1
        return
    os.kill(os.getpid(), signal.SIGKILL)

"""What containers use of the host: the CPU time and memory of all their processes, from /proc."""

# It starts faster and stays smaller without pathlib:
# ruff: noqa: PTH123, PTH208

from __future__ import annotations

import os
from collections.abc import Mapping

_TICKS = os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")


def of_trees(roots: Mapping[str, int]) -> dict[str, tuple[float, int]]:
    """Seconds and bytes of each process and its descendants. What has ended counts with the process that waited for it."""
    children: dict[int, list[int]] = {}
    own: dict[int, tuple[int, int]] = {}
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        try:
            with open(f"/proc/{name}/stat") as stat:
                # The name of the program may hold anything, also parentheses.
                fields = stat.read().rpartition(")")[2].split()
        except OSError:  # it has ended
            continue
        children.setdefault(int(fields[1]), []).append(int(name))
        own[int(name)] = sum(map(int, fields[11:15])), int(fields[21])
    return {id: _total(pid, children, own) for id, pid in roots.items()}


def _total(
    pid: int, children: Mapping[int, list[int]], own: Mapping[int, tuple[int, int]]
) -> tuple[float, int]:
    ticks = pages = 0
    waiting = [pid]
    while waiting:
        current = waiting.pop()
        waiting += children.get(current, ())
        used = own.get(current, (0, 0))
        ticks, pages = ticks + used[0], pages + used[1]
    return ticks / _TICKS, pages * _PAGE

"""The command line. Commands import what they need when they run, so that ``dray --help`` is quick."""

from __future__ import annotations

import sys
from pathlib import Path

_COMPLETE = "_DRAY_COMPLETE"

#: This process runs one command and ends with it (click: standalone mode).
own_process = False


def main() -> None:
    global own_process
    from dray.cli.commands import dray

    own_process = True
    # kubectl runs what is on the PATH as kubectl-dra for ``kubectl dra``.
    plugin = Path(sys.argv[0]).name.startswith("kubectl-dra")
    dray(prog_name="kubectl dra" if plugin else "dray", complete_var=_COMPLETE)


def kubectl_complete() -> None:
    """What kubectl asks for as ``kubectl_complete-dra``: candidates, and a last line that says no more than that."""
    from click.shell_completion import ShellComplete

    from dray.cli.commands import dray

    *words, last = sys.argv[1:] or [""]
    for one in ShellComplete(dray, {}, "dray", _COMPLETE).get_completions(words, last):
        print(one.value)
    print(":4")  # kubectl's "these are all, do not add file names"

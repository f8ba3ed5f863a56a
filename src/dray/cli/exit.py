"""How a tool ends: exit codes, and an end that does not give back memory piece by piece."""

from __future__ import annotations

import sys
from contextlib import suppress
from typing import NoReturn

import click

#: The tool worked, and its answer is no: pending, does not fit, does not match. click uses 2 for mistakes on the
#: command line, and 1 is for everything that keeps a tool from answering.
EXIT_NEGATIVE = 3


def disable_gc() -> None:
    """A tool lives for one answer: what it has loaded stays until the end, and collecting garbage only costs time."""
    import gc

    gc.disable()
    click.get_current_context().call_on_close(gc.enable)


def exit_process(code: int = 0) -> NoReturn:
    """End a tool that has answered. Giving back piece by piece what it has loaded would take a third of its time."""
    import os

    from dray import cli

    if not cli.own_process:
        raise SystemExit(code)
    with suppress(OSError):  # the reader has gone
        sys.stdout.flush()
        sys.stderr.flush()
    os._exit(code)

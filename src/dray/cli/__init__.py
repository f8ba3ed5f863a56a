"""The command line. Commands import what they need when they run, so that ``dray --help`` is quick."""

from __future__ import annotations


def main() -> None:
    from dray.cli.commands import dray

    dray()

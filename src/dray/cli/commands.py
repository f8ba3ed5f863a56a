"""The ``dray`` command and its subcommands, each imported from its module when it is named."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import click

import dray as package

#: Where each subcommand lives. Other parts add theirs here.
_COMMANDS = {
    "server": "dray.cli.server:server",
    "up": "dray.cli.up:up",
    "down": "dray.cli.up:down",
    "status": "dray.cli.up:status",
    "scheduler": "dray.cli.scheduler:scheduler",
    "controllers": "dray.cli.controllers:controllers",
    "node": "dray.cli.node:node",
    "token": "dray.cli.token:token",
    "driver": "dray.cli.driver:driver",
    "demo": "dray.cli.demo:demo",
    "devices": "dray.cli.devices:devices",
    "explain": "dray.cli.explain:explain",
    "allocate": "dray.cli.allocate:allocate",
    "cel": "dray.cli.cel:cel",
    "check": "dray.cli.check:check",
    "snapshot": "dray.cli.snapshot:snapshot",
    "convert": "dray.cli.convert:convert",
}


class _Lazy(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        target = _COMMANDS.get(cmd_name)
        if target is None:
            return None
        module, _, name = target.partition(":")
        command: click.Command = getattr(import_module(module), name)
        return command

    def invoke(self, ctx: click.Context) -> Any:
        from dray.cli.failures import failures_as_lines

        with failures_as_lines():
            return super().invoke(ctx)


@click.group(cls=_Lazy, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package.__version__, prog_name="dray")
def dray() -> None:
    """Dynamic Resource Allocation, whole, in Python."""

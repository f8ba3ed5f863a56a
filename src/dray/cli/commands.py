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
    "config": "dray.cli.configfile:config",
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
    "simulate": "dray.cli.simulate:simulate",
    "backup": "dray.cli.storage:backup",
    "restore": "dray.cli.storage:restore",
    "export": "dray.cli.storage:export_",
    "import": "dray.cli.storage:import_",
    "check-store": "dray.cli.storage:check_store",
    "storage": "dray.cli.storage:storage",
    "snapshot": "dray.cli.snapshot:snapshot",
    "convert": "dray.cli.convert:convert",
    "ui": "dray.cli.ui:ui",
    "exporter": "dray.cli.exporter:exporter",
    "envtest": "dray.cli.envtest:envtest",
    "help": "dray.cli.help:show_help",
}


#: What text processors make of hyphens.
_DASHES = "\u2010\u2011\u2012\u2013\u2014\u2015\u2212"


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

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] not in _COMMANDS and not args[0].startswith("-"):
            from difflib import get_close_matches

            if close := get_close_matches(args[0], _COMMANDS, n=1):
                raise click.UsageError(f"No such command '{args[0]}'. Did you mean {close[0]}?", ctx)
        return super().resolve_command(ctx, args)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        for one in args:
            if one[:1] and one[0] in _DASHES:
                name = one.lstrip("-" + _DASHES)
                meant = f"-{name}" if len(name) == 1 else f"--{name}"
                raise click.UsageError(f"{one} begins with a dash that is no hyphen: type {meant}", ctx)
        return super().parse_args(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        from dray.cli.failures import failures_as_lines

        with failures_as_lines():
            return super().invoke(ctx)


@click.group(cls=_Lazy, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package.__version__, prog_name="dray")
def dray() -> None:
    """Dynamic Resource Allocation, whole, in Python. `dray help` lists topics to read about."""

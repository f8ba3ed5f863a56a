"""Options that several tools share: the cluster or snapshot to look at, manifests, and the form of the answer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from dray.cli.config_flags import context_option, kubeconfig_option
from dray.cli.files import InputPath

Command = Callable[..., Any]


def source_options(command: Command) -> Command:
    """``--kubeconfig``, ``--context`` and ``--snapshot``: the cluster that is looked at."""
    for option in (_snapshot_option, context_option, kubeconfig_option):
        command = option(command)
    return command


_snapshot_option = click.option(
    "--snapshot",
    "snapshot_file",
    type=InputPath(dir_okay=False, allow_dash=True),
    help="Look at this file instead of a cluster: of dray snapshot, or of kubectl get -o yaml.",
)


def files_option(help: str) -> Callable[[Command], Command]:
    """``-f``, as often as wanted; ``-`` is the standard input."""
    path = InputPath(allow_dash=True)
    return click.option("-f", "--filename", "--file", "files", multiple=True, type=path, help=help)


output_option = click.option(
    "-o",
    "--output",
    type=click.Choice(["text", "json", "yaml"]),
    default="text",
    show_default=True,
    help="How to show the answer.",
)


def table_option(help: str) -> Callable[[Command], Command]:
    """``-o`` of tools whose answer is a table: for people, or in JSON."""
    form = click.Choice(["text", "json"])
    return click.option("-o", "--output", type=form, default="text", show_default=True, help=help)


pod_network_option = click.option(
    "--pod-network",
    type=click.Choice(["bridge", "host"]),
    default="bridge",
    show_default=True,
    help="Pods of the process runtime: each with an address of its own, where the host allows it, or all on the host's.",
)

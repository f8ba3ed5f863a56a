"""Which API server a command talks to: ``--kubeconfig``, then KUBECONFIG, then the cluster of ``dray up``; and the
options that say so."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from dray.client.client import Client
    from dray.client.config import Config


kubeconfig_option = click.option(
    "--kubeconfig",
    type=click.Path(path_type=Path),
    help="Default: KUBECONFIG, then the running cluster of dray up.",
)
context_option = click.option("--context", default="", help="The kubeconfig's context to use.")
namespace_option = click.option(
    "-n", "--namespace", default="", help="Default: that of the kubeconfig's context, or default."
)


def kubeconfig_path(given: Path | None) -> Path | None:
    """None means: whatever the client finds by itself, such as in-cluster configuration."""
    if given is not None:
        return given
    # A pod of the process runtime sees the files of its host; the cluster that it means is the one it runs in.
    if os.environ.get("KUBECONFIG") or os.environ.get("KUBERNETES_SERVICE_HOST"):
        return None
    from dray.app.options import default_data

    running = default_data() / "kubeconfig"
    return running if running.exists() else None


def current_namespace(kubeconfig: Path | None, context: str = "") -> str:
    """The namespace that the kubeconfig's context is about, as kubectl takes it."""
    found = _config(kubeconfig, context)
    return found.namespace if found is not None else "default"


def server_url(kubeconfig: Path | None, context: str = "") -> str:
    """Where the API server is that the kubeconfig's context is about."""
    found = _config(kubeconfig, context)
    return found.server if found is not None else ""


def _config(kubeconfig: Path | None, context: str) -> Config | None:
    from dray.client.config import ConfigError
    from dray.client.kubeconfig import load

    try:
        return load(kubeconfig_path(kubeconfig), context=context)
    except ConfigError:
        return None  # connecting to the cluster will report the error


def resolve_namespace(given: str, kubeconfig: Path | None, context: str, *, offline: bool) -> str:
    """The namespace of what names none."""
    return given or ("default" if offline else current_namespace(kubeconfig, context))


@asynccontextmanager
async def connect(kubeconfig: Path | None = None, *, context: str = "") -> AsyncIterator[Client]:
    from dray.client import factory

    async with factory.connect(kubeconfig_path(kubeconfig), context=context) as client:
        yield client

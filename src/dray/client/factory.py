"""From a kubeconfig to a client."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from dray.client.client import Client
from dray.client.config import Config


@asynccontextmanager
async def connect(config: Config | Path | str | None = None, *, context: str = "") -> AsyncIterator[Client]:
    """A client for a configuration, for a kubeconfig file, or for what the environment says."""
    from dray.client import kubeconfig
    from dray.client.http import HttpTransport

    if not isinstance(config, Config):
        config = kubeconfig.load(config, context=context)
    client = Client(HttpTransport(config))
    try:
        yield client
    finally:
        await client.close()

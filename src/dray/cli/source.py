"""The snapshot of the cluster that a tool looks at: gathered from an API server, or read from a file."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from dray.explain import Snapshot

_LARGE = 1 << 20
_ERASE = "\r\x1b[K"
#: Kinds without which there is little to say.
_NEEDED = ("ResourceSlice", "DeviceClass", "ResourceClaim", "Node", "Pod")
#: Without this line every tool would look for what nobody can create there: devices, classes, claims.
NO_RESOURCE_API = (
    "This cluster has no Dynamic Resource Allocation: the server has no ResourceClaims in any version; "
    "DynamicResourceAllocation or its API versions are switched off."
)


def load_snapshot(
    kubeconfig: Path | None, context: str, snapshot_file: Path | None, *, namespace: str = ""
) -> Snapshot:
    """The cluster as it is now, or as the file has it. ``namespace``: the one to look at if all are not allowed."""
    from dray.explain.model import snapshot

    if snapshot_file is not None:
        with _notice_large_file(snapshot_file):
            return snapshot.load(snapshot_file)
    import asyncio

    found = asyncio.run(_gather(kubeconfig, context, namespace))
    missing = [kind for kind in _NEEDED if kind in found.unread]
    if missing:
        click.echo(
            f"You may not read every {', '.join(missing)} of the cluster: this is less than the whole.",
            err=True,
        )
    return found


async def _gather(kubeconfig: Path | None, context: str, namespace: str) -> Snapshot:
    from dray.cli.config_flags import connect, current_namespace
    from dray.explain.model.collector import collect_snapshot, serves_claims

    namespace = namespace or current_namespace(kubeconfig, context)
    async with connect(kubeconfig, context=context) as client:
        async with _notice_slow_cluster():
            found = await collect_snapshot(client, namespace=namespace)
        if not (found.classes or found.resource_classes) and not await serves_claims(client):
            click.echo(NO_RESOURCE_API, err=True)
        return found


@contextmanager
def _notice_large_file(path: Path) -> Iterator[None]:
    """Say on a terminal that a large file is being read."""
    slow = sys.stderr.isatty() and path.is_file() and path.stat().st_size > _LARGE
    if slow:
        click.echo(f"reading {path.name} …", err=True, nl=False)
    try:
        yield
    finally:
        if slow:
            click.echo(_ERASE, err=True, nl=False)


@asynccontextmanager
async def _notice_slow_cluster() -> AsyncIterator[None]:
    """Say on a terminal what takes so long, if it does."""
    import asyncio

    async def ask() -> None:
        await asyncio.sleep(1)
        click.echo("reading the cluster …", err=True, nl=False)

    if not sys.stderr.isatty():
        yield
        return
    asking = asyncio.ensure_future(ask())
    try:
        yield
    finally:
        if not asking.cancel():
            click.echo(_ERASE, err=True, nl=False)

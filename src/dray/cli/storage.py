"""Commands about what is stored: in one file and back, by keys or by objects, and whether it is right."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, TypedDict, Unpack

import click

from dray.cli.exit import EXIT_NEGATIVE
from dray.cli.files import InputPath
from dray.cli.server import ETCD_FLAGS
from dray.store.access import EtcdAccess

if TYPE_CHECKING:
    from dray.app.store_check import StoreReport
    from dray.controllers.storageversionmigrator import Migration
    from dray.store.backup import Header


class EtcdFlags(TypedDict):
    """The values of ``ETCD_FLAGS``."""

    etcd_cafile: Path | None
    etcd_certfile: Path | None
    etcd_keyfile: Path | None
    etcd_username: str
    etcd_password_file: Path | None


def _etcd_flags(command: Callable[..., None]) -> Callable[..., None]:
    for option in reversed(ETCD_FLAGS):
        command = option(command)
    return command


def _access(flags: EtcdFlags) -> EtcdAccess:
    return EtcdAccess(
        flags["etcd_cafile"],
        flags["etcd_certfile"],
        flags["etcd_keyfile"],
        flags["etcd_username"],
        flags["etcd_password_file"],
    )


_DATA = click.option(
    "--data",
    type=click.Path(path_type=Path),
    help="Data directory. Default $DRAY_DATA or ~/.local/share/dray.",
)
_FORMS = "sqlite[:PATH] or etcd://HOST:PORT[,…]"


def _data(data: Path | None) -> Path:
    from dray.app.options import default_data

    return (data or default_data()).absolute()


@click.command()
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
@click.option(
    "--kubeconfig",
    type=click.Path(path_type=Path),
    help="Of the cluster. Default: KUBECONFIG, then dray up's.",
)
@click.option("--store", "spec", default=None, metavar="SPEC", help=f"Read the store itself: {_FORMS}.")
@_DATA
@_etcd_flags
def backup(
    file: Path, kubeconfig: Path | None, spec: str | None, data: Path | None, **etcd: Unpack[EtcdFlags]
) -> None:
    """Write everything that a cluster stores, at one revision, into FILE.

    The cluster goes on meanwhile. The file holds the cluster's secrets and the keys of its certificate authority; only
    its owner can read it. With --store no API server is asked: etcd may be in use, a SQLite file may not.

    \b
    Examples:
      dray backup monday.backup
      dray backup monday.backup --store etcd://10.0.0.1:2379
    """
    from dray.app import backups
    from dray.cli.config_flags import connect

    async def run() -> Header:
        if spec is not None:
            return await backups.from_store(file, spec, _data(data), _access(etcd))
        async with connect(kubeconfig) as client:
            return await backups.from_server(file, client)

    found = asyncio.run(run())
    click.echo(f"dray: {found.keys} keys at revision {found.revision} are in {file}")


@click.command()
@click.argument("file", type=InputPath(dir_okay=False))
@click.option(
    "--store", "spec", default="sqlite", metavar="SPEC", help=f"Where to: {_FORMS}. Default sqlite."
)
@_DATA
@_etcd_flags
def restore(file: Path, spec: str, data: Path | None, **etcd: Unpack[EtcdFlags]) -> None:
    """Put what a backup holds into an empty store, and check that all of it is there.

    On SQLite objects keep their resource versions. On etcd they get new ones: start the components anew. The certificate
    authority of the cluster is written to the data directory, so that its kubeconfigs go on working.

    \b
    Examples:
      dray restore monday.backup --data /srv/dray
      dray restore monday.backup --store etcd://10.0.0.1:2379
    """
    from dray.app import backups

    report = asyncio.run(backups.restore(file, spec, _data(data), _access(etcd)))
    click.echo(f"dray: {report.keys} keys were restored; the store is at revision {report.revision}")
    _tell(report)


_KUBECONFIG = click.option(
    "--kubeconfig",
    type=click.Path(path_type=Path),
    help="Of the cluster. Default: KUBECONFIG, then dray up's.",
)


@click.command("export")
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
@_KUBECONFIG
def export_(file: Path, kubeconfig: Path | None) -> None:
    """Write all objects of a cluster, dray's or any other, into FILE: a List in JSON that kubectl can read too.

    Events and leases are left out. The file holds the cluster's Secrets; only its owner can read it.

    \b
    Examples:
      dray export everything.json
      dray import everything.json --kubeconfig other-cluster.kubeconfig
    """
    import json

    from dray.app import transfer
    from dray.app.pki import write_private
    from dray.cli.config_flags import connect

    async def run() -> list[transfer.Document]:
        async with connect(kubeconfig) as client:
            return [document async for document in transfer.documents(client)]

    items = asyncio.run(run())
    content = {"apiVersion": "v1", "kind": "List", "items": items}
    write_private(file.absolute(), json.dumps(content, indent=1).encode())
    click.echo(f"dray: {len(items)} objects are in {file}")


@click.command("import")
@click.argument("file", type=InputPath(dir_okay=False))
@_KUBECONFIG
def import_(file: Path, kubeconfig: Path | None) -> None:
    """Create the objects of FILE, which dray export has written, in a cluster, with their statuses.

    What is there already is left as it is. Stop controllers and schedulers of both clusters meanwhile, or they work on
    what is half there. Exit code 3 says that some objects could not be created.
    """
    import json

    from dray.app import transfer
    from dray.cli.config_flags import connect

    try:
        items = transfer.items_of(json.loads(file.read_bytes()))
    except (ValueError, RecursionError) as e:
        raise click.ClickException(f"{file}: {e}; dray export writes what can be imported") from None

    async def run() -> transfer.Transferred:
        async with connect(kubeconfig) as client:
            return await transfer.Importer(client).run(items)

    outcome = asyncio.run(run())
    for problem in outcome.problems:
        click.echo(f"not imported: {problem}")
    click.echo(f"dray: {outcome.created} objects were created; {outcome.there} were there already")
    if outcome.problems:
        raise SystemExit(EXIT_NEGATIVE)


@click.group()
def storage() -> None:
    """Care for the form in which objects are stored."""


@storage.command()
@_KUBECONFIG
def migrate(kubeconfig: Path | None) -> None:
    """Write all objects again that are stored in an older version than the API server would write today.

    It works through the API of any cluster, while the cluster goes on, and may be run again at any time: what is stored
    as it should be is left alone. Custom kinds of which all objects are migrated note the one version that is left in
    their definition's status. Exit code 3 says that some objects could not be written.

    \b
    Examples:
      dray storage migrate
      dray storage migrate --kubeconfig cluster.kubeconfig
    """
    from dray.app import storage_migration
    from dray.cli.config_flags import connect

    async def run() -> Migration:
        async with connect(kubeconfig) as client:
            return await storage_migration.migrate(client, tell=click.echo)

    done = asyncio.run(run())
    for problem in done.problems:
        click.echo(f"not migrated: {problem}")
    click.echo(f"dray: {done.rewritten} of {done.objects} objects were written anew")
    if done.problems:
        raise SystemExit(EXIT_NEGATIVE)


@click.command("check-store")
@click.option("--store", "spec", default="sqlite", metavar="SPEC", help=f"{_FORMS}. Default sqlite.")
@_DATA
@_etcd_flags
@click.option("--repair", is_flag=True, help="Put booking records right; nothing else is changed.")
def check_store(spec: str, data: Path | None, repair: bool, **etcd: Unpack[EtcdFlags]) -> None:
    """Look at everything that is stored: whether it can be read, names are unique, and devices are booked once.

    Exit code 3 says that something is wrong. A SQLite file must not be in use; etcd may be.

    \b
    Examples:
      dray check-store --data /srv/dray
      dray check-store --store etcd://10.0.0.1:2379 --repair
    """
    from dray.app import store_check

    async def run() -> StoreReport:
        async with store_check.opened(spec, _data(data), _access(etcd)) as store:
            return await store_check.check(store, repair=repair)

    report = asyncio.run(run())
    if report.repaired:
        click.echo(f"dray: {report.repaired} booking records were put right")
    _tell(report)


def _tell(report: StoreReport) -> None:
    for problem in report.problems:
        click.echo(f"wrong: {problem}")
    if report.outdated:
        click.echo(
            f"{report.outdated} objects are stored in an older version: dray storage migrate writes them anew"
        )
    click.echo(
        f"dray: {report.objects} objects and {report.bookings} booked devices at revision {report.revision}: "
        + (f"{len(report.problems)} problems" if report.problems else "all is well")
    )
    if report.problems:
        raise SystemExit(EXIT_NEGATIVE)

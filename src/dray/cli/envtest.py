"""``dray envtest``: a directory for KUBEBUILDER_ASSETS, so that Go test-suites start dray."""

from __future__ import annotations

import shlex
from pathlib import Path

import click


@click.command()
@click.argument("directory", type=click.Path(file_okay=False, path_type=Path))
def envtest(directory: Path) -> None:
    """Write stand-ins for kube-apiserver, etcd and kubectl into DIRECTORY.

    \b
    Example:
      dray envtest ./bin
      KUBEBUILDER_ASSETS=$PWD/bin go test ./...

    Every suite of controller-runtime then starts dray's API server. With DRAY_ENVTEST_NODES=3 in its environment it also
    starts a scheduler, controllers and so many nodes with devices.
    """
    from dray.envtest import standins

    try:
        written = standins.write(directory.absolute())
    except OSError as problem:
        raise click.ClickException(f"{directory}: {problem.strerror}") from None
    for path in written:
        click.echo(path)
    click.echo(f"\nexport KUBEBUILDER_ASSETS={shlex.quote(str(directory.absolute()))}")

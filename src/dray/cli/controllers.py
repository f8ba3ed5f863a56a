"""``dray controllers``: the controllers on any API server."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from dray.cli.component import (
    effective_version,
    emulate_option,
    gates_for,
    gates_option,
    metrics_option,
    run_component,
)
from dray.cli.config_flags import kubeconfig_option
from dray.cli.files import InputPath, read_text

if TYPE_CHECKING:
    from dray.client.client import Client

_FILE = InputPath(dir_okay=False)


@click.command()
@kubeconfig_option
@click.option("--controllers", "names", default="*", help="which to run: *, name, -name, separated by commas")
@click.option(
    "--leader-elect/--no-leader-elect",
    default=True,
    show_default=True,
    help="Work only while holding the lease of kube-controller-manager.",
)
@click.option(
    "--cluster-signing-cert-file", "ca_file", type=_FILE, help="The CA that signs certificate requests, PEM."
)
@click.option("--cluster-signing-key-file", "ca_key_file", type=_FILE, help="That CA's key, PEM.")
@click.option("--root-ca-file", type=_FILE, help="The CA that pods trust; default: the one that signs.")
@click.option(
    "--service-account-private-key-file",
    "account_key_file",
    type=_FILE,
    help="The key that signs the tokens in Secrets of service accounts, PEM.",
)
@metrics_option
@gates_option
@emulate_option
def controllers(
    kubeconfig: Path | None,
    names: str,
    leader_elect: bool,
    ca_file: Path | None,
    ca_key_file: Path | None,
    root_ca_file: Path | None,
    account_key_file: Path | None,
    metrics_listen: str | None,
    feature_gates: str,
    emulate: str,
) -> None:
    """Run controllers: claims, garbage collection, namespaces, workloads and more.

    \b
    Examples:
      dray controllers --kubeconfig ~/.kube/config
      dray controllers --controllers resourceclaim-controller
      dray controllers --controllers '*,bootstrapsigner,tokencleaner' \\
        --cluster-signing-cert-file ca.crt --cluster-signing-key-file ca.key
    """
    from dray.app.quirks import Quirks
    from dray.controllers import manager

    version, gates = effective_version(emulate, feature_gates)
    wanted = tuple(n.strip() for n in names.split(",") if n.strip())
    manager.enabled_controllers(wanted, gates)  # unknown names are refused before anything starts
    options = manager.Options(
        controllers=wanted,
        version=version,
        gates=gates,
        leader_election=leader_elect,
        settings={
            "resourceclaim-controller": {
                "creates_with_finalizer": Quirks.of(version).claims_are_created_with_finalizer
            },
            **_signing_settings(ca_file, ca_key_file, root_ca_file, account_key_file),
        },
    )

    async def run(client: Client) -> None:
        asked = gates if emulate else await gates_for(client, version, feature_gates)
        await manager.run(client, options=replace(options, gates=asked))

    run_component(kubeconfig, run, metrics_listen=metrics_listen, metrics=options.metrics.registry.text)


def _signing_settings(
    ca: Path | None, key: Path | None, root: Path | None, account_key: Path | None
) -> dict[str, dict[str, str]]:
    """Settings of the controllers for certificates. Controllers without settings do not run."""
    found: dict[str, dict[str, str]] = {}
    if trusted := root or ca:
        found["root-ca-certificate-publisher-controller"] = {"ca": read_text(trusted)}
    if account_key:
        trusted_ca = read_text(trusted) if trusted else ""
        found["serviceaccount-token-controller"] = {"key": read_text(account_key), "ca": trusted_ca}
    if ca and key:
        signing = {"certificate": read_text(ca), "key": read_text(key)}
        found["certificatesigningrequest-signing-controller"] = signing
    return found

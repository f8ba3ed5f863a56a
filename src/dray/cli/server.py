"""``dray server``: the API server alone."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Final, TypedDict, Unpack

import click

from dray.api.release import EMULATED
from dray.app.options import OptionError, ServerOptions, default_data, parse_listen, split_list
from dray.cli.files import InputPath
from dray.store.access import EtcdAccess

Command = Callable[..., None]


def server_flags(command: Command) -> Command:
    """The flags that ``dray server`` and ``dray up`` share."""
    for option in reversed(_FLAGS):
        command = option(command)
    return command


#: Named as kube-apiserver's, which has no user and password.
ETCD_FLAGS: Final = [
    click.option(
        "--etcd-cafile", type=InputPath(dir_okay=False), help="Authority of etcd's certificates: TLS."
    ),
    click.option("--etcd-certfile", type=InputPath(dir_okay=False), help="Client certificate for etcd."),
    click.option("--etcd-keyfile", type=InputPath(dir_okay=False), help="Its key."),
    click.option("--etcd-username", default="", metavar="NAME", help="User of etcd."),
    click.option(
        "--etcd-password-file", type=InputPath(dir_okay=False), help="File with that user's password."
    ),
]

_FLAGS = [
    click.option(
        "--listen",
        metavar="HOST:PORT",
        help="Where to listen. Default 127.0.0.1:6443, or the next free port.",
    ),
    click.option(
        "--advertise-address",
        default="",
        metavar="HOST",
        help="By which name or address others reach the server. Default: the one it listens on.",
    ),
    click.option(
        "--advertise-servers",
        default="",
        metavar="URL,…",
        help="All API servers of the cluster, for kubeconfigs: dray's components use one that answers.",
    ),
    click.option(
        "--data",
        type=click.Path(path_type=Path),
        help="Data directory. Default $DRAY_DATA or ~/.local/share/dray.",
    ),
    click.option(
        "--store", default="sqlite", metavar="SPEC", help="memory, sqlite[:PATH] or etcd://HOST:PORT[,…]."
    ),
    *ETCD_FLAGS,
    click.option(
        "--admin-token", default="", metavar="TOKEN", help="Bearer token of user admin in system:masters."
    ),
    click.option(
        "--kubeconfig", type=click.Path(path_type=Path), help="Where to write the administrator's kubeconfig."
    ),
    click.option(
        "--emulate",
        default="",
        metavar="RELEASE",
        help=f"Be as this Kubernetes release: {', '.join(map(str, EMULATED))}.",
    ),
    click.option("--feature-gates", default="", metavar="A=true,…", help="Switch features."),
    click.option("--runtime-config", default="", metavar="GROUP/VERSION=true,…", help="Switch API versions."),
    click.option(
        "--enable-admission-plugins", default="", metavar="A,B", help="Beside those that are on by default."
    ),
    click.option(
        "--disable-admission-plugins", default="", metavar="A,B", help="Of those that are on by default."
    ),
    click.option(
        "--token-auth-file",
        type=InputPath(dir_okay=False),
        help="CSV of tokens.",
    ),
    click.option(
        "--authorization-mode", default="Node,RBAC", metavar="MODES", help="Node, RBAC or AlwaysAllow."
    ),
    click.option(
        "--anonymous-auth", type=bool, default=True, metavar="BOOL", help="Let anonymous requests in."
    ),
    click.option(
        "--service-account-issuer",
        default="",
        metavar="URL",
        help="Who issues tokens of service accounts. Default https://kubernetes.default.svc; a URL by which this server "
        "can be reached lets others verify the tokens.",
    ),
    click.option(
        "--audit-policy-file",
        type=InputPath(dir_okay=False),
        help="What to audit (audit.k8s.io/v1).",
    ),
    click.option("--audit-log-path", default="", metavar="FILE", help="The audit log; - for stdout."),
]


class ServerFlags(TypedDict):
    """The values of ``server_flags``."""

    listen: str | None
    advertise_address: str
    advertise_servers: str
    data: Path | None
    store: str
    etcd_cafile: Path | None
    etcd_certfile: Path | None
    etcd_keyfile: Path | None
    etcd_username: str
    etcd_password_file: Path | None
    admin_token: str
    kubeconfig: Path | None
    emulate: str
    feature_gates: str
    runtime_config: str
    enable_admission_plugins: str
    disable_admission_plugins: str
    token_auth_file: Path | None
    authorization_mode: str
    anonymous_auth: bool
    service_account_issuer: str
    audit_policy_file: Path | None
    audit_log_path: str


def server_options(flags: ServerFlags) -> ServerOptions:
    if (flags["audit_policy_file"] is None) != (not flags["audit_log_path"]):
        raise click.UsageError("--audit-policy-file and --audit-log-path go together: give both or none")
    try:
        return ServerOptions(
            listen=parse_listen(flags["listen"]),
            advertise=flags["advertise_address"],
            servers=_urls(flags["advertise_servers"]),
            data=(flags["data"] or default_data()).absolute(),
            store=flags["store"],
            etcd=EtcdAccess(
                flags["etcd_cafile"],
                flags["etcd_certfile"],
                flags["etcd_keyfile"],
                flags["etcd_username"],
                flags["etcd_password_file"],
            ),
            admin_token=flags["admin_token"],
            kubeconfig=flags["kubeconfig"].absolute() if flags["kubeconfig"] else None,
            emulate=flags["emulate"],
            feature_gates=flags["feature_gates"],
            runtime_config=flags["runtime_config"],
            enable_plugins=split_list(flags["enable_admission_plugins"]),
            disable_plugins=split_list(flags["disable_admission_plugins"]),
            token_file=flags["token_auth_file"],
            authorization=split_list(flags["authorization_mode"]),
            anonymous=flags["anonymous_auth"],
            account_issuer=flags["service_account_issuer"],
            audit_policy=flags["audit_policy_file"],
            audit_log=_absolute(flags["audit_log_path"]),
        )
    except OptionError as e:
        raise click.UsageError(str(e)) from None


def _urls(text: str) -> tuple[str, ...]:
    found = split_list(text)
    for url in found:
        if not url.startswith("https://"):
            raise OptionError(f"--advertise-servers {url}: it is https://HOST:PORT")
    return found


def _absolute(path: str) -> str:
    """A cluster in the background has another working directory."""
    return path if path in ("", "-") else str(Path(path).absolute())


@click.command()
@server_flags
def server(**flags: Unpack[ServerFlags]) -> None:
    """Run the API server alone, until a signal ends it."""
    from dray.app.process import run_api_server

    run_api_server(server_options(flags))

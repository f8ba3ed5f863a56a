"""kube-apiserver's flags, as far as they mean something to dray's API server, which is then run in its place.

The data are in memory: a test-suite begins empty. With ``DRAY_ENVTEST_NODES=3`` in the environment there are also
a scheduler, controllers and so many nodes with devices, which envtest itself does not have.
"""

from __future__ import annotations

import asyncio
import os
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from dray import atomicfile
from dray.app.options import Address, OptionError, ServerOptions, split_list
from dray.envtest import flags

NODES: Final = "DRAY_ENVTEST_NODES"

#: The flags that are understood. Whatever else comes is accepted, because a test-suite cannot know, and said once.
_UNDERSTOOD: Final = {
    "advertise-address": "the address by which others reach this server",
    "anonymous-auth": "whether requests without credentials are let in",
    "audit-log-path": "a file, or - for the standard output",
    "audit-policy-file": "which requests are logged",
    "authorization-mode": "RBAC, Node, AlwaysAllow, ... as a list",
    "bind-address": "the address to listen on",
    "cert-dir": "where apiserver.crt and apiserver.key are",
    "client-ca-file": "signs client certificates",
    "disable-admission-plugins": "admission plugins that are off, as a list",
    "enable-admission-plugins": "admission plugins that are on beside the usual ones, as a list",
    "feature-gates": "Gate=true|false, as a list",
    "runtime-config": "API versions that are served or not, as a list",
    "secure-port": "the port to listen on",
    "service-account-issuer": "the issuer of service accounts' tokens",
    "service-account-signing-key-file": "signs service accounts' tokens",
    "tls-cert-file": "the certificate to serve with",
    "tls-private-key-file": "its key",
    "token-auth-file": "users with tokens, as CSV",
}
#: These say what another flag already says, or hold here without being asked for.
_IMPLIED: Final = frozenset({"service-account-key-file"})


def usage() -> str:
    about = "dray in the place of kube-apiserver: an API server in memory. Other flags are accepted and said once."
    return flags.usage("kube-apiserver", about, _UNDERSTOOD)


def server_options(given: Mapping[str, Sequence[str]], data: Path) -> ServerOptions:
    """The options that these flags ask for."""

    def last(name: str, default: str = "") -> str:
        return given[name][-1] if name in given else default

    def file(name: str) -> Path | None:
        return Path(last(name)) if name in given else None

    port = last("secure-port", "6443")
    if not port.isdigit():
        raise OptionError(f"--secure-port {port}: not a port")
    host = last("bind-address", "127.0.0.1")
    certificate, key = file("tls-cert-file"), file("tls-private-key-file")
    if certificate is None and "cert-dir" in given:
        folder = Path(last("cert-dir"))
        if (folder / "apiserver.crt").exists() and (folder / "apiserver.key").exists():
            certificate, key = folder / "apiserver.crt", folder / "apiserver.key"
    return ServerOptions(
        listen=Address("127.0.0.1" if host == "0.0.0.0" else host, int(port), 1),
        advertise=last("advertise-address"),
        data=data,
        store="memory",
        tls_certificate=certificate,
        tls_key=key,
        client_ca=file("client-ca-file"),
        authorization=tuple(
            mode for mode in split_list(last("authorization-mode", "RBAC")) if mode != "Webhook"
        ),
        enable_plugins=split_list(last("enable-admission-plugins")),
        disable_plugins=split_list(last("disable-admission-plugins")),
        feature_gates=",".join(given.get("feature-gates", ())),
        runtime_config=",".join(given.get("runtime-config", ())),
        token_file=file("token-auth-file"),
        anonymous=last("anonymous-auth", "true") == "true",
        account_issuer=last("service-account-issuer"),
        audit_policy=file("audit-policy-file"),
        audit_log=last("audit-log-path"),
    )


def without_meaning(given: Mapping[str, Sequence[str]]) -> list[str]:
    return sorted(f"--{name}" for name in given if name not in _UNDERSTOOD and name not in _IMPLIED)


def _take_signing_key(given: Mapping[str, Sequence[str]], data: Path) -> None:
    """A suite that verifies service accounts' tokens by itself has the key's other half."""
    if "service-account-signing-key-file" not in given:
        return
    path = Path(given["service-account-signing-key-file"][-1])
    try:
        key = path.read_bytes()
    except OSError as problem:
        raise OptionError(f"--service-account-signing-key-file {path}: {problem.strerror}") from None
    kept = data / "pki" / "sa.key"
    kept.parent.mkdir(mode=0o700, exist_ok=True)
    atomicfile.write(kept, key, mode=0o600)


def run(arguments: Sequence[str]) -> int:
    """Serve until a signal ends it."""
    from dray.app.process import setup_logging

    given = flags.parse(arguments)
    setup_logging()
    if ignored := without_meaning(given):
        print(f"dray as kube-apiserver: without meaning here: {', '.join(ignored)}", file=sys.stderr)
    with tempfile.TemporaryDirectory(prefix="dray-envtest-") as data:
        try:
            options = server_options(given, Path(data))
            _take_signing_key(given, options.data)
            asyncio.run(_serve(options))
        except OptionError as problem:
            print(f"dray as kube-apiserver: {problem}", file=sys.stderr)
            return 1
    return 0


async def _serve(options: ServerOptions) -> None:
    from dray.app.process import shutdown_event
    from dray.app.server import run_server
    from dray.app.up import UpOptions, run_up

    end = shutdown_event()
    nodes = os.environ.get(NODES, "0")
    if not nodes.isdigit():
        raise OptionError(f"{NODES}={nodes}: not a number of nodes")
    if int(nodes):
        if "Node" not in options.authorization:  # a suite that knows of no nodes does not ask for it
            options = replace(options, authorization=("Node", *options.authorization))
        await run_up(
            UpOptions(server=options, nodes=int(nodes), drivers=("gpu",), runtime="simulated"), end=end
        )
        return
    async with run_server(options):
        await end.wait()

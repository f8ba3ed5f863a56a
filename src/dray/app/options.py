"""The options of the API server, as data, and how their texts are read."""

from __future__ import annotations

import errno
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import socket

from dray.store.access import EtcdAccess

DEFAULT_HOST: Final = "127.0.0.1"
DEFAULT_PORT: Final = 6443
_PORTS_TO_TRY: Final = 100


class OptionError(ValueError):
    """An option makes no sense."""


@dataclass(frozen=True, slots=True)
class Address:
    host: str = DEFAULT_HOST
    port: int = DEFAULT_PORT
    #: how many ports may be tried, counting up, when the first is taken; 1 when the user named the port
    tries: int = _PORTS_TO_TRY


def parse_listen(text: str | None, *, port: int = DEFAULT_PORT) -> Address:
    """``HOST:PORT``, ``:PORT``, ``HOST`` or ``[V6]:PORT``; ``port`` is the one to begin with if none is named."""
    if not text:
        return Address(port=port)
    if text.startswith("["):
        host, bracket, rest = text[1:].partition("]")
        if not bracket or (rest and not rest.startswith(":")):
            raise OptionError(f"--listen {text}: not HOST:PORT")
        named = rest[1:]
    elif text.count(":") > 1:
        host, named = text, ""
    else:
        host, _, named = text.partition(":")
    if not named:
        return Address(host or DEFAULT_HOST, port)
    if not named.isdigit() or int(named) > 65535:
        raise OptionError(f"--listen {text}: not a port: {named}")
    return Address(host or DEFAULT_HOST, int(named), 1)


def listen(address: Address) -> socket.socket:
    """A listening socket on the address, or on the next free port if the user did not insist on one."""
    from dray.wire.http_server import listening_socket

    for port in range(address.port, address.port + address.tries):
        try:
            return listening_socket(address.host, port)
        except OSError as e:
            if address.tries == 1 or e.errno != errno.EADDRINUSE:
                raise OptionError(f"cannot listen on {address.host}:{port}: {e.strerror}") from e
    raise OptionError(f"no free port on {address.host} from {address.port} on")


def default_data() -> Path:
    """Where a cluster lives unless ``--data`` says otherwise."""
    if found := os.environ.get("DRAY_DATA"):
        return Path(found)
    base = os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share"
    return Path(base) / "dray"


def split_list(text: str | None) -> tuple[str, ...]:
    return tuple(part.strip() for part in (text or "").split(",") if part.strip())


@dataclass(frozen=True, kw_only=True, slots=True)
class ServerOptions:
    """Options of the API server."""

    listen: Address = Address()
    servers: tuple[
        str, ...
    ] = ()  # URLs of all API servers of the cluster, for the kubeconfigs that this one writes
    advertise: str = ""  # the host name or address by which others reach this server
    data: Path = field(default_factory=default_data)
    store: str = "sqlite"
    etcd: EtcdAccess = field(default_factory=EtcdAccess)
    admin_token: str = ""
    kubeconfig: Path | None = None  # default: in the data directory
    tls_certificate: Path | None = (
        None  # to serve with, together with its key; default: one of the cluster's own CA
    )
    tls_key: Path | None = None
    client_ca: Path | None = None  # signs client certificates, beside the cluster's own CA
    emulate: str = ""
    feature_gates: str = ""
    runtime_config: str = ""
    enable_plugins: tuple[str, ...] = ()
    disable_plugins: tuple[str, ...] = ()
    token_file: Path | None = None
    authorization: tuple[str, ...] = ("Node", "RBAC")
    anonymous: bool = True
    account_issuer: str = ""  # of service accounts' tokens; default: the service of the API server
    audit_policy: Path | None = None
    audit_log: str = ""  # a file, or "-" for the standard output

    @property
    def kubeconfig_path(self) -> Path:
        return self.kubeconfig or self.data / "kubeconfig"

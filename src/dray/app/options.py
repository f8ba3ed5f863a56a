"""The options of the API server, as data, and how their texts are read."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

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


def parse_listen(text: str | None) -> Address:
    """``HOST:PORT``, ``:PORT``, ``HOST`` or ``[V6]:PORT``."""
    if not text:
        return Address()
    if text.startswith("["):
        host, bracket, rest = text[1:].partition("]")
        if not bracket or (rest and not rest.startswith(":")):
            raise OptionError(f"--listen {text}: not HOST:PORT")
        port = rest[1:]
    elif text.count(":") > 1:
        host, port = text, ""
    else:
        host, _, port = text.partition(":")
    if not port:
        return Address(host or DEFAULT_HOST)
    if not port.isdigit() or int(port) > 65535:
        raise OptionError(f"--listen {text}: not a port: {port}")
    return Address(host or DEFAULT_HOST, int(port), 1)


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
    advertise: str = ""  # the host name or address by which others reach this server
    data: Path = field(default_factory=default_data)
    store: str = "sqlite"
    admin_token: str = ""
    kubeconfig: Path | None = None  # default: in the data directory
    emulate: str = ""
    feature_gates: str = ""
    runtime_config: str = ""
    enable_plugins: tuple[str, ...] = ()
    disable_plugins: tuple[str, ...] = ()
    token_file: Path | None = None
    authorization: tuple[str, ...] = ("Node", "RBAC")
    anonymous: bool = True
    audit_policy: Path | None = None
    audit_log: str = ""  # a file, or "-" for the standard output

    @property
    def kubeconfig_path(self) -> Path:
        return self.kubeconfig or self.data / "kubeconfig"

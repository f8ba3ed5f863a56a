"""Configuration from kubeconfig files, as kubectl reads them, and from inside a pod."""

from __future__ import annotations

import base64
import binascii
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, TypedDict, cast

from dray.api import yamldocs
from dray.client.config import Config, ConfigError

#: The extension of a cluster that lists all of its API servers; kubectl ignores it and uses ``server``.
SERVERS_EXTENSION: Final = "dray.dev/servers"
SERVICE_ACCOUNT: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount")


if TYPE_CHECKING:
    # What a kubeconfig says (client-go's clientcmd/api/v1).
    class Context(TypedDict, total=False):
        cluster: str
        user: str
        namespace: str

    class NamedExtension(TypedDict, total=False):
        name: str
        extension: Mapping[str, Any]

    Cluster = TypedDict(
        "Cluster",
        {
            "server": str,
            "certificate-authority": str,
            "certificate-authority-data": str,
            "insecure-skip-tls-verify": bool,
            "tls-server-name": str,
            "proxy-url": str,
            "extensions": Sequence[NamedExtension],
        },
        total=False,
    )
    AuthInfo = TypedDict(
        "AuthInfo",
        {
            "client-certificate": str,
            "client-certificate-data": str,
            "client-key": str,
            "client-key-data": str,
            "token": str,
            "tokenFile": str,
            "username": str,
            "password": str,
            "as": str,
            "as-uid": str,
            "as-groups": Sequence[str],
            "as-user-extra": Mapping[str, Sequence[str]],
            "exec": Mapping[str, str],
            "auth-provider": Mapping[str, str],
        },
        total=False,
    )

    class NamedContext(TypedDict):
        name: str
        context: Context

    class NamedCluster(TypedDict):
        name: str
        cluster: Cluster

    class NamedAuthInfo(TypedDict):
        name: str
        user: AuthInfo

    Kubeconfig = TypedDict(
        "Kubeconfig",
        {
            "current-context": str,
            "contexts": Sequence[NamedContext],
            "clusters": Sequence[NamedCluster],
            "users": Sequence[NamedAuthInfo],
        },
        total=False,
    )
    _Section = Literal["contexts", "clusters", "users"]


def load(
    path: Path | str | None = None, *, context: str = "", environment: Mapping[str, str] = os.environ
) -> Config:
    """The configuration of a context.

    Without a path: the files of KUBECONFIG, else ``~/.kube/config``, else the service account of the pod we are in.
    """
    if path is not None:
        paths = [Path(path)]
    elif listed := environment.get("KUBECONFIG", ""):
        paths = [Path(name) for name in listed.split(os.pathsep) if name]
    else:
        paths = [Path(environment.get("HOME", "~")).expanduser() / ".kube" / "config"]
    found = [file for file in paths if file.exists()]
    if not found:
        if path is None and environment.get("KUBERNETES_SERVICE_HOST"):
            return in_cluster(environment=environment)
        raise ConfigError(
            f"there is no kubeconfig at {os.pathsep.join(map(str, paths))}; start a cluster with: dray up; "
            "or name a kubeconfig with --kubeconfig or KUBECONFIG"
        )
    return resolve([(file, _parse(file)) for file in found], context=context)


def in_cluster(*, environment: Mapping[str, str] = os.environ, directory: Path = SERVICE_ACCOUNT) -> Config:
    """The configuration that every pod finds in its file system."""
    host, port = (
        environment.get("KUBERNETES_SERVICE_HOST", ""),
        environment.get("KUBERNETES_SERVICE_PORT", "443"),
    )
    token = directory / "token"
    if not host or not token.exists():
        raise ConfigError("this is not a pod with a service account")
    namespace = directory / "namespace"
    return Config(
        server=f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}",
        ca=_read(directory / "ca.crt"),
        token_file=token,
        namespace=namespace.read_text().strip() if namespace.exists() else "default",
    )


def resolve(documents: Sequence[tuple[Path, Kubeconfig]], *, context: str = "") -> Config:
    """Merge kubeconfig documents, the first to say something being right, and pick a context out of them."""
    chosen = context or next((d["current-context"] for _, d in documents if d.get("current-context")), "")
    if not chosen:
        raise ConfigError(f"{_names(documents)}: names no current context; choose one with --context")
    picked: Context = _find(documents, "contexts", "context", chosen)[1]
    cluster: Cluster
    cluster_file, cluster = _find(documents, "clusters", "cluster", picked.get("cluster", ""))
    if not cluster.get("server"):
        raise ConfigError(f"cluster {picked.get('cluster')!r} has no server")
    if cluster.get("proxy-url"):
        raise ConfigError(f"cluster {picked.get('cluster')!r} is behind a proxy, which is not supported")
    user_file, user = cluster_file, cast("AuthInfo", {})
    if picked.get("user"):
        user_file, user = _find(documents, "users", "user", picked["user"])
    for plugin, settings in (("exec", user.get("exec")), ("auth-provider", user.get("auth-provider"))):
        if settings:
            command = settings.get("command") or settings.get("name") or ""
            raise ConfigError(
                f"user {picked['user']!r} gets its credentials from the {plugin} plugin {command!r}; plugins are not "
                "supported: give a token, a token file or a client certificate"
            )
    token_file = user.get("tokenFile")
    return Config(
        server=cluster["server"].rstrip("/"),
        other_servers=other_servers(cluster),
        ca=_material(
            cluster.get("certificate-authority-data"),
            cluster.get("certificate-authority"),
            "certificate-authority",
            cluster_file,
        ),
        insecure=bool(cluster.get("insecure-skip-tls-verify")),
        server_name=cluster.get("tls-server-name", ""),
        certificate=_material(
            user.get("client-certificate-data"),
            user.get("client-certificate"),
            "client-certificate",
            user_file,
        ),
        key=_material(user.get("client-key-data"), user.get("client-key"), "client-key", user_file),
        certificate_file=_file(
            user.get("client-certificate-data"), user.get("client-certificate"), user_file
        ),
        key_file=_file(user.get("client-key-data"), user.get("client-key"), user_file),
        token=user.get("token", ""),
        token_file=user_file.parent / token_file if token_file and not user.get("token") else None,
        username=user.get("username", ""),
        password=user.get("password", ""),
        impersonate=user.get("as", ""),
        impersonate_uid=user.get("as-uid", ""),
        impersonate_groups=tuple(user.get("as-groups") or ()),
        impersonate_extra=tuple(
            (name, value) for name, values in (user.get("as-user-extra") or {}).items() for value in values
        ),
        namespace=picked.get("namespace") or "default",
    )


def _parse(path: Path) -> Kubeconfig:
    try:
        document = yamldocs.load(path.read_text())
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror or error}") from error
    except ValueError as error:  # not text, or not YAML
        raise ConfigError(f"{path}: not YAML: {' '.join(str(error).split())}") from error
    if not isinstance(document, dict):
        raise ConfigError(f"{path} is no kubeconfig")
    return cast("Kubeconfig", document)


def other_servers(cluster: Cluster) -> tuple[str, ...]:
    """The API servers that a kubeconfig's cluster has beside ``server``."""
    for each in cluster.get("extensions") or ():
        if each.get("name") == SERVERS_EXTENSION:
            listed = (each.get("extension") or {}).get("servers")
            if not isinstance(listed, list) or not all(isinstance(server, str) for server in listed):
                raise ConfigError(f"the extension {SERVERS_EXTENSION} has no list of servers")
            return tuple(server for server in listed if server != cluster.get("server"))
    return ()


def _names(documents: Sequence[tuple[Path, Kubeconfig]]) -> str:
    return os.pathsep.join(str(path) for path, _ in documents)


def _find(
    documents: Sequence[tuple[Path, Kubeconfig]], section: _Section, field: str, name: str
) -> tuple[Path, Any]:
    for path, document in documents:
        entries: Sequence[Any] = document.get(section) or ()
        for entry in entries:
            if entry.get("name") == name:
                return path, entry.get(field) or {}
    raise ConfigError(f"{_names(documents)}: there is no {field} named {name!r}")


def _material(inline: str | None, name: str | None, field: str, path: Path) -> bytes | None:
    """A certificate or key: given inline, or in a file named relative to the kubeconfig."""
    if inline:
        try:
            return base64.b64decode(inline, validate=True)
        except binascii.Error as error:
            raise ConfigError(f"{field}-data in {path} is not base64: {error}") from error
    return _read(path.parent / name) if name else None


def _file(inline: str | None, name: str | None, path: Path) -> Path | None:
    return path.parent / name if name and not inline else None


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error}") from error

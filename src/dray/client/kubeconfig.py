"""Configuration from kubeconfig files, as kubectl reads them, and from inside a pod."""

from __future__ import annotations

import base64
import binascii
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from dray.client.config import Config, ConfigError

SERVICE_ACCOUNT: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount")


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
        raise ConfigError(f"there is no kubeconfig at {os.pathsep.join(map(str, paths))}")
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


def resolve(documents: Sequence[tuple[Path, Mapping[str, Any]]], *, context: str = "") -> Config:
    """Merge kubeconfig documents, the first to say something being right, and pick a context out of them."""
    chosen = context or next((d["current-context"] for _, d in documents if d.get("current-context")), "")
    if not chosen:
        raise ConfigError("the kubeconfig names no current context; choose one")
    _, picked = _entry(documents, "contexts", "context", chosen)
    cluster_file, cluster = _entry(documents, "clusters", "cluster", picked.get("cluster", ""))
    if not cluster.get("server"):
        raise ConfigError(f"cluster {picked.get('cluster')!r} has no server")
    if cluster.get("proxy-url"):
        raise ConfigError(f"cluster {picked.get('cluster')!r} is behind a proxy, which is not supported")
    user_file, user = (
        _entry(documents, "users", "user", picked["user"]) if picked.get("user") else (cluster_file, {})
    )
    for plugin in ("exec", "auth-provider"):
        if user.get(plugin):
            command = user[plugin].get("command") or user[plugin].get("name") or ""
            raise ConfigError(
                f"user {picked['user']!r} gets its credentials from the {plugin} plugin {command!r}; plugins are not "
                "supported: give a token, a token file or a client certificate"
            )
    token_file = user.get("tokenFile")
    return Config(
        server=cluster["server"].rstrip("/"),
        ca=_material(cluster, "certificate-authority", cluster_file),
        insecure=bool(cluster.get("insecure-skip-tls-verify")),
        server_name=cluster.get("tls-server-name", ""),
        certificate=_material(user, "client-certificate", user_file),
        key=_material(user, "client-key", user_file),
        certificate_file=_file(user, "client-certificate", user_file),
        key_file=_file(user, "client-key", user_file),
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


def _parse(path: Path) -> Mapping[str, Any]:
    import yaml

    try:
        document = yaml.safe_load(path.read_text())
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise ConfigError(f"{path} cannot be read: {error}") from error
    if not isinstance(document, dict):
        raise ConfigError(f"{path} is no kubeconfig")
    return document


def _entry(
    documents: Sequence[tuple[Path, Mapping[str, Any]]], section: str, field: str, name: str
) -> tuple[Path, Mapping[str, Any]]:
    for path, document in documents:
        for entry in document.get(section) or ():
            if entry.get("name") == name:
                return path, entry.get(field) or {}
    raise ConfigError(f"the kubeconfig has no {field} named {name!r}")


def _material(entry: Mapping[str, Any], field: str, path: Path) -> bytes | None:
    """A certificate or key: given inline, or in a file named relative to the kubeconfig."""
    if inline := entry.get(f"{field}-data"):
        try:
            return base64.b64decode(inline, validate=True)
        except binascii.Error as error:
            raise ConfigError(f"{field}-data in {path} is not base64: {error}") from error
    if name := entry.get(field):
        return _read(path.parent / name)
    return None


def _file(entry: Mapping[str, Any], field: str, path: Path) -> Path | None:
    name = "" if entry.get(f"{field}-data") else entry.get(field)
    return path.parent / name if name else None


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error}") from error

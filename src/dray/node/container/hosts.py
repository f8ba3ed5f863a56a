"""The ``/etc/hosts`` of a pod's containers: its own name and its ``hostAliases``. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dray.api.types.core import HostAlias, Pod

PATH = "/etc/hosts"
CLUSTER_DOMAIN = "cluster.local"
_LOCAL = (
    ("127.0.0.1", "localhost"),
    ("::1", "localhost ip6-localhost ip6-loopback"),
    ("fe00::", "ip6-localnet"),
    ("fe00::1", "ip6-allnodes"),
    ("fe00::2", "ip6-allrouters"),
)


def hosts_file(pod: Pod, *, ip: str, hostname: str, of_host: str) -> str:
    """What the file says. A pod that shares the host's network (it has no ``ip``) sees the host's own file, too."""
    aliases = [(alias["ip"], " ".join(alias.get("hostnames") or ())) for alias in _aliases(pod)]
    if not ip:
        header = "# Kubernetes-managed hosts file (host network)."
        return "\n".join((header, of_host.rstrip("\n"), *_lines(aliases), ""))
    names = hostname
    if subdomain := pod["spec"].get("subdomain"):
        namespace = pod["metadata"]["namespace"]
        names = f"{hostname}.{subdomain}.{namespace}.svc.{CLUSTER_DOMAIN} {hostname}"
    return "\n".join(("# Kubernetes-managed hosts file.", *_lines([*_LOCAL, (ip, names), *aliases]), ""))


def _lines(entries: list[tuple[str, str]]) -> Iterator[str]:
    for ip, names in entries:
        yield "\t".join((ip, *names.split()))


def _aliases(pod: Pod) -> list[HostAlias]:
    return list(pod["spec"].get("hostAliases") or ())

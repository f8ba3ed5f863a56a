"""How a pod's containers resolve names: ``dnsPolicy`` and ``dnsConfig`` over the cluster's DNS and the host's resolver. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from dray.runtimes.interface import DNSConfig

if TYPE_CHECKING:
    from dray.api.types.core import Pod, PodDNSConfigOption

PATH: Final = "/etc/resolv.conf"
#: What resolvers take at most; the rest is left out, as a kubelet leaves it out.
_MAX_SERVERS: Final = 3
_MAX_SEARCHES: Final = 32
_MAX_SEARCH_LENGTH: Final = 253
_MAX_SEARCHES_LENGTH: Final = 2048
#: Names with fewer dots are looked for in the search domains first, so that ``service.namespace.svc`` is found.
_CLUSTER_OPTIONS: Final = ("ndots:5",)


@dataclass(frozen=True, slots=True)
class ClusterDNS:
    """The cluster's own DNS, as a kubelet's ``clusterDNS`` and ``clusterDomain``."""

    servers: tuple[str, ...] = ()
    domain: str = "cluster.local"


NO_CLUSTER_DNS: Final = ClusterDNS()


def parse_resolv_conf(text: str) -> DNSConfig:
    """Servers and options add up, of several lines with search domains the last one counts."""
    servers: list[str] = []
    searches: list[str] = []
    options: dict[str, str] = {}
    for line in text.splitlines():
        match line.split():
            case ["nameserver", server, *_]:
                servers.append(server)
            case ["search", *domains]:
                searches = [domain.removesuffix(".") for domain in domains if domain != "."]
            case ["options", *given]:
                options |= {option.partition(":")[0]: option for option in given}
    return DNSConfig(tuple(servers), tuple(searches), tuple(options.values()))


def pod_dns(pod: Pod, *, of_host: DNSConfig, of_cluster: ClusterDNS = NO_CLUSTER_DNS) -> DNSConfig:
    """What a pod's resolver is told. Where no DNS of the cluster is known, pods that want it resolve as the host does."""
    own = pod["spec"].get("dnsConfig") or {}
    base = _base(pod, of_host, of_cluster)
    return DNSConfig(
        _unique(base.servers, own.get("nameservers") or ())[:_MAX_SERVERS],
        _fitting(_unique(base.searches, own.get("searches") or ())),
        _merged(base.options, own.get("options") or ()),
    )


def _base(pod: Pod, of_host: DNSConfig, of_cluster: ClusterDNS) -> DNSConfig:
    spec = pod["spec"]
    policy = spec.get("dnsPolicy") or "ClusterFirst"
    if policy == "None":
        return DNSConfig()
    wants_cluster = policy == "ClusterFirstWithHostNet" or (
        policy == "ClusterFirst" and not spec.get("hostNetwork")
    )
    if not (wants_cluster and of_cluster.servers):
        return of_host
    domain = of_cluster.domain
    searches = (f"{pod['metadata']['namespace']}.svc.{domain}", f"svc.{domain}", domain) if domain else ()
    return DNSConfig(of_cluster.servers, _unique(searches, of_host.searches), _CLUSTER_OPTIONS)


def _unique(first: Iterable[str], second: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys((*first, *second)))


def _fitting(searches: tuple[str, ...]) -> tuple[str, ...]:
    kept = [domain for domain in searches[:_MAX_SEARCHES] if len(domain) <= _MAX_SEARCH_LENGTH]
    while len(" ".join(kept)) > _MAX_SEARCHES_LENGTH:
        kept.pop()
    return tuple(kept)


def _merged(options: Iterable[str], own: Iterable[PodDNSConfigOption]) -> tuple[str, ...]:
    values = {name: value for name, _, value in (option.partition(":") for option in options)}
    values |= {option.get("name", ""): option.get("value") or "" for option in own}
    return tuple(f"{name}:{value}" if value else name for name, value in values.items())

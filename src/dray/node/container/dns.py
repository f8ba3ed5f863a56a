"""How a pod's containers resolve names: ``dnsPolicy`` and ``dnsConfig`` over the resolver's configuration of the host. Pure."""

from __future__ import annotations

from collections.abc import Iterable
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


def pod_dns(pod: Pod, *, of_host: DNSConfig) -> DNSConfig:
    """What a pod's resolver is told. A node of dray knows no DNS of the cluster, so every policy but ``None`` begins with the
    host's configuration, as on a kubelet without ``clusterDNS``."""
    spec = pod["spec"]
    base = DNSConfig() if spec.get("dnsPolicy") == "None" else of_host
    own = spec.get("dnsConfig") or {}
    return DNSConfig(
        _unique(base.servers, own.get("nameservers") or ())[:_MAX_SERVERS],
        _fitting(_unique(base.searches, own.get("searches") or ())),
        _merged(base.options, own.get("options") or ()),
    )


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

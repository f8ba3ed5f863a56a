"""Network policies: which traffic pods take and send."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from dray.api.scheme import printers
from dray.api.scheme.kinds import Column, Kind, Version
from dray.api.scheme.strategy import SPEC, Context, SubdomainStrategy, update_generation
from dray.api.selectors import format_label_selector
from dray.api.validation import addresses, checks, field, names
from dray.api.validation.field import FieldError, Path

if TYPE_CHECKING:
    from dray.api.types.networking import (
        IPBlock,
        NetworkPolicy,
        NetworkPolicyPeer,
        NetworkPolicyPort,
        NetworkPolicySpec,
    )

_PROTOCOLS: Final = ("TCP", "UDP", "SCTP")
_TYPES: Final = ("Ingress", "Egress")


def _default(obj: NetworkPolicy) -> None:
    spec = obj.setdefault("spec", {})
    for rule in (*(spec.get("ingress") or ()), *(spec.get("egress") or ())):
        for port in rule.get("ports") or ():
            port.setdefault("protocol", "TCP")
    if not spec.get("policyTypes"):
        spec["policyTypes"] = ["Ingress", "Egress"] if spec.get("egress") else ["Ingress"]


def _check_port(entry: NetworkPolicyPort, path: Path) -> list[FieldError]:
    found: list[FieldError] = []
    if (protocol := entry.get("protocol")) is not None and protocol not in _PROTOCOLS:
        found.append(field.not_supported(path.child("protocol"), protocol, _PROTOCOLS))
    port, last, at = entry.get("port"), entry.get("endPort"), path.child("endPort")
    if port is None:
        if last is not None:
            found.append(field.invalid(at, last, "may not be specified when `port` is not specified"))
    elif isinstance(port, str):
        if last is not None:
            found.append(field.invalid(at, last, "may not be specified when `port` is non-numeric"))
        found += checks.each(port, path.child("port"), names.port_name(port))
    else:
        found += checks.port(port, path.child("port"))
        if last is not None and last < port:
            found.append(field.invalid(at, port, "must be greater than or equal to `port`"))
        if last is not None:
            found += checks.port(last, at)
    return found


def _check_block(block: IPBlock, path: Path, known: frozenset[str]) -> list[FieldError]:
    """Ranges that the policy had before may stay as they are."""
    cidr = block.get("cidr", "")
    if not cidr:
        return [field.required(path.child("cidr"))]
    found = addresses.check_cidr(cidr, path.child("cidr"), strict=cidr not in known)
    network = addresses.parse_network(cidr)
    if network is None:
        return found
    for i, text in enumerate(block.get("except") or ()):
        at = path.child("except").index(i)
        found += addresses.check_cidr(text, at, strict=text not in known)
        part = addresses.parse_network(text)
        if part is None:
            continue
        if part.network_address not in network or part.prefixlen <= network.prefixlen:
            found.append(field.invalid(at, text, "must be a strict subset of `cidr`"))
    return found


def _check_peer(peer: NetworkPolicyPeer, path: Path, known: frozenset[str]) -> list[FieldError]:
    found = checks.label_selector(peer.get("podSelector"), path.child("podSelector"))
    found += checks.label_selector(peer.get("namespaceSelector"), path.child("namespaceSelector"))
    block = peer.get("ipBlock")
    selects = peer.get("podSelector") is not None or peer.get("namespaceSelector") is not None
    if block is not None:
        found += _check_block(block, path.child("ipBlock"), known)
        if selects:
            found.append(field.forbidden(path, "may not specify both ipBlock and another peer"))
    elif not selects:
        found.append(field.required(path, "must specify a peer"))
    return found


def _ranges(spec: NetworkPolicySpec) -> frozenset[str]:
    peers = [p for rule in spec.get("ingress") or () for p in rule.get("from") or ()]
    peers += [p for rule in spec.get("egress") or () for p in rule.get("to") or ()]
    blocks = [block for peer in peers if (block := peer.get("ipBlock")) is not None]
    return frozenset(
        text for block in blocks for text in (block.get("cidr", ""), *(block.get("except") or ()))
    )


class NetworkPolicyStrategy(SubdomainStrategy["NetworkPolicy"]):
    def prepare_create(self, obj: NetworkPolicy, ctx: Context) -> None:
        obj["metadata"]["generation"] = 1

    def prepare_update(self, new: NetworkPolicy, old: NetworkPolicy, ctx: Context) -> None:
        update_generation(new, old, changed=new.get("spec") != old.get("spec"))

    def validate(self, obj: NetworkPolicy, ctx: Context) -> Sequence[FieldError]:
        return self._check(obj.get("spec", {}), frozenset())

    def validate_update(self, new: NetworkPolicy, old: NetworkPolicy, ctx: Context) -> Sequence[FieldError]:
        return self._check(new.get("spec", {}), _ranges(old.get("spec", {})))

    def _check(self, spec: NetworkPolicySpec, known: frozenset[str]) -> list[FieldError]:
        found = checks.label_selector(spec.get("podSelector"), SPEC.child("podSelector"))
        for i, incoming in enumerate(spec.get("ingress") or ()):
            path = SPEC.child("ingress").index(i)
            found += _check_traffic(incoming.get("ports"), incoming.get("from"), path, "from", known)
        for i, outgoing in enumerate(spec.get("egress") or ()):
            path = SPEC.child("egress").index(i)
            found += _check_traffic(outgoing.get("ports"), outgoing.get("to"), path, "to", known)
        types = spec.get("policyTypes") or ()
        if len(types) > len(_TYPES):
            words = "may not specify more than two policyTypes"
            return [*found, field.invalid(SPEC.child("policyTypes"), types, words)]
        for i, chosen in enumerate(types):
            if chosen not in _TYPES:
                found.append(field.not_supported(SPEC.child("policyTypes").index(i), chosen, _TYPES))
        return found


def _check_traffic(
    ports: Sequence[NetworkPolicyPort] | None,
    peers: Sequence[NetworkPolicyPeer] | None,
    path: Path,
    direction: str,
    known: frozenset[str],
) -> list[FieldError]:
    at = path.child("ports")
    found = [p for i, port in enumerate(ports or ()) for p in _check_port(port, at.index(i))]
    at = path.child(direction)
    return found + [p for i, peer in enumerate(peers or ()) for p in _check_peer(peer, at.index(i), known)]


KIND = Kind(
    group="networking.k8s.io",
    kind="NetworkPolicy",
    plural="networkpolicies",
    short_names=("netpol",),
    versions=(Version(name="v1", type="networking/v1.NetworkPolicy", default=_default),),
    storage="v1",
    strategy=NetworkPolicyStrategy(),
    printer=printers.printer(
        (printers.NAME, Column("Pod-Selector", description="The pods that it is about."), printers.AGE),
        lambda obj, now: (
            printers.name(obj),
            format_label_selector(obj.get("spec", {}).get("podSelector")),
            printers.age(obj, now),
        ),
    ),
)

"""What is right in a service's spec: its ports, addresses and policies, and how they go together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from dray.api.groups.core.endpoints import check_special
from dray.api.scheme.strategy import METADATA, SPEC, Context
from dray.api.validation import addresses, checks, field
from dray.api.validation.field import FieldError, Path

if TYPE_CHECKING:
    from dray.api.types.core import Service, ServicePort, ServiceSpec

TYPES: Final = ("ClusterIP", "ExternalName", "LoadBalancer", "NodePort")
HEADLESS: Final = "None"
WITH_NODE_PORTS: Final = ("NodePort", "LoadBalancer")
_AFFINITIES: Final = ("ClientIP", "None")
_FAMILIES: Final = ("IPv4", "IPv6")
_FAMILY_POLICIES: Final = ("PreferDualStack", "RequireDualStack", "SingleStack")
_TRAFFIC_POLICIES: Final = ("Cluster", "Local")
_LOAD_BALANCER_ONLY: Final = "may only be used when `type` is 'LoadBalancer'"
_SOURCE_RANGES: Final = "service.beta.kubernetes.io/load-balancer-source-ranges"
_PORTS: Final = SPEC.child("ports")
_CLUSTER_IPS: Final = SPEC.child("clusterIPs")


def is_headless(spec: ServiceSpec) -> bool:
    return bool((spec.get("clusterIPs") or [""])[0] == HEADLESS)


def externally_accessible(spec: ServiceSpec) -> bool:
    kind = spec.get("type")
    return kind in WITH_NODE_PORTS or (kind == "ClusterIP" and bool(spec.get("externalIPs")))


def needs_health_check(spec: ServiceSpec) -> bool:
    return spec.get("type") == "LoadBalancer" and spec.get("externalTrafficPolicy") == "Local"


def _check_port(port: ServicePort, seen: set[str], path: Path, *, named: bool) -> list[FieldError]:
    found: list[FieldError] = []
    name = port.get("name", "")
    if name:
        found += checks.dns_label(name, path.child("name"))
        if name in seen:
            found.append(field.duplicate(path.child("name"), name))
        seen.add(name)
    elif named:
        found.append(field.required(path.child("name")))
    found += checks.port(port.get("port", 0), path.child("port"))
    found += checks.one_of(port.get("protocol", ""), path.child("protocol"), checks.PROTOCOLS)
    found += checks.port_or_name(port.get("targetPort", 0), path.child("targetPort"))
    if (protocol := port.get("appProtocol")) is not None:
        found += checks.qualified_name(protocol, path.child("appProtocol"))
    return found


def _check_ports(spec: ServiceSpec) -> list[FieldError]:
    ports = spec.get("ports") or ()
    seen: set[str] = set()
    return [
        p
        for i, port in enumerate(ports)
        for p in _check_port(port, seen, _PORTS.index(i), named=len(ports) > 1)
    ]


def _check_port_pairs(spec: ServiceSpec) -> list[FieldError]:
    """Node ports fit the type, and no port is given twice."""
    ports = spec.get("ports") or ()
    found: list[FieldError] = []
    if spec.get("type") == "ClusterIP":
        words = "may not be used when `type` is 'ClusterIP'"
        found += [
            field.forbidden(_PORTS.index(i).child("nodePort"), words)
            for i, port in enumerate(ports)
            if port.get("nodePort")
        ]
    node_ports: set[tuple[str, int]] = set()
    for i, port in enumerate(ports):
        pair = (port.get("protocol", ""), port.get("nodePort", 0))
        if pair[1] and pair in node_ports:
            found.append(field.duplicate(_PORTS.index(i).child("nodePort"), pair[1]))
        node_ports.add(pair)
    pairs: set[tuple[str, int]] = set()
    for i, port in enumerate(ports):
        protocol, number = port.get("protocol", ""), port.get("port", 0)
        if (protocol, number) in pairs:
            shown = {
                "Name": "",
                "Protocol": protocol,
                "AppProtocol": None,
                "Port": number,
                "TargetPort": 0,
                "NodePort": 0,
            }
            found.append(field.duplicate(_PORTS.index(i), shown))
        pairs.add((protocol, number))
    return found


def _check_type(spec: ServiceSpec) -> list[FieldError]:
    found: list[FieldError] = []
    kind = spec.get("type", "")
    if not spec.get("ports") and not is_headless(spec) and kind != "ExternalName":
        found.append(field.required(_PORTS))
    if kind in WITH_NODE_PORTS and is_headless(spec):
        words = f"may not be set to 'None' for {kind} services"
        found.append(field.invalid(_CLUSTER_IPS.index(0), HEADLESS, words))
    if kind == "ExternalName":
        for part in ("clusterIPs", "ipFamilies", "ipFamilyPolicy"):
            if spec.get(part):
                words = "may not be set for ExternalName services"
                found.append(field.forbidden(SPEC.child(part), words))
        target = spec.get("externalName", "").removesuffix(".")
        path = SPEC.child("externalName")
        found += checks.dns_subdomain(target, path) if target else [field.required(path)]
    return found


def _check_affinity(spec: ServiceSpec) -> list[FieldError]:
    affinity, path = spec.get("sessionAffinity", ""), SPEC.child("sessionAffinityConfig")
    found = checks.one_of(affinity, SPEC.child("sessionAffinity"), _AFFINITIES)
    if affinity == "ClientIP":
        seconds = spec["sessionAffinityConfig"]["clientIP"]["timeoutSeconds"]
        if not 0 < seconds <= 86400:
            at = path.child("clientIP", "timeoutSeconds")
            found.append(field.invalid(at, seconds, "must be greater than 0 and less than 86400"))
    elif affinity == "None" and spec.get("sessionAffinityConfig") is not None:
        found.append(field.forbidden(path, "must not be set when session affinity is None"))
    return found


def _check_cluster_ips(spec: ServiceSpec, old: ServiceSpec, ctx: Context) -> list[FieldError]:
    if spec.get("type") == "ExternalName":
        return []
    one, many = spec.get("clusterIP", ""), spec.get("clusterIPs") or []
    found: list[FieldError] = []
    if one and not many:
        found.append(field.required(_CLUSTER_IPS))
    elif one and many[0] != one:
        found.append(field.invalid(_CLUSTER_IPS, many, "first value must match `clusterIP`"))
    elif many and not one:
        found.append(field.invalid(_CLUSTER_IPS, many, "must be empty when `clusterIP` is not specified"))
    seen: set[str] = set()
    for i, family in enumerate(spec.get("ipFamilies") or ()):
        at = SPEC.child("ipFamilies").index(i)
        found += checks.one_of(family, at, _FAMILIES)
        if family in seen:
            found.append(field.duplicate(at, family))
        seen.add(family)
    found += checks.one_of(
        spec.get("ipFamilyPolicy") or "", SPEC.child("ipFamilyPolicy"), _FAMILY_POLICIES, needed=False
    )
    wrong = _check_each_ip(many, old.get("clusterIPs") or (), ctx)
    found += wrong
    if len(many) > 2:
        found.append(field.invalid(_CLUSTER_IPS, many, "may only hold up to 2 values"))
    if wrong:
        return found
    parsed = [addresses.parse(ip) for ip in many]
    versions = [address.version for address in parsed if address]
    if len(versions) > 1 and len(set(versions)) < len(versions):
        words = "may specify no more than one IP for each IP family"
        found.append(field.invalid(_CLUSTER_IPS, many, words))
    if not is_headless(spec):
        for i, (address, family) in enumerate(zip(parsed, spec.get("ipFamilies") or (), strict=False)):
            if address and family in _FAMILIES and family != f"IPv{address.version}":
                words = f"expected an {family} value as indicated by `ipFamilies[{i}]`"
                found.append(field.invalid(_CLUSTER_IPS.index(i), many[i], words))
    return found


def _check_each_ip(ips: Sequence[str], accepted: Sequence[str], ctx: Context) -> list[FieldError]:
    strict = "StrictIPCIDRValidation" in ctx.gates
    found: list[FieldError] = []
    for i, ip in enumerate(ips):
        if i == 0 and ip == HEADLESS:
            if len(ips) > 1:
                found.append(field.invalid(_CLUSTER_IPS, ips, "'None' must be the first and only value"))
        elif ip not in accepted:
            found += addresses.check_ip(ip, _CLUSTER_IPS.index(i), strict=strict)
    return found


def _check_external(obj: Service, old: ServiceSpec, ctx: Context) -> list[FieldError]:
    """Where traffic from outside comes in."""
    spec, strict = obj["spec"], "StrictIPCIDRValidation" in ctx.gates
    found: list[FieldError] = []
    for i, ip in enumerate(spec.get("externalIPs") or ()):
        at = SPEC.child("externalIPs").index(i)
        known = ip in (old.get("externalIPs") or ())
        wrong = [] if known else addresses.check_ip(ip, at, strict=strict)
        found += wrong or check_special(ip, at)
    return found


def _check_ranges(obj: Service, old: ServiceSpec, ctx: Context) -> list[FieldError]:
    spec, strict = obj["spec"], "StrictIPCIDRValidation" in ctx.gates
    found: list[FieldError] = []
    ranges, path = spec.get("loadBalancerSourceRanges") or (), SPEC.child("LoadBalancerSourceRanges")
    annotated = (obj["metadata"].get("annotations") or {}).get(_SOURCE_RANGES)
    if not ranges and annotated is not None:
        path = METADATA.child("annotations").key(_SOURCE_RANGES)
    if (ranges or annotated is not None) and spec.get("type") != "LoadBalancer":
        found.append(field.forbidden(path, _LOAD_BALANCER_ONLY))
    if ranges:
        for i, text in enumerate(ranges):
            if text not in (old.get("loadBalancerSourceRanges") or ()):
                found += addresses.check_cidr(text.strip(), path.index(i), strict=strict)
    elif annotated and annotated.strip():
        for text in annotated.split(","):
            found += addresses.check_cidr(text.strip(), path, strict=strict)
    return found


def _check_policies(spec: ServiceSpec, ctx: Context) -> list[FieldError]:
    found: list[FieldError] = []
    balanced = spec.get("type") == "LoadBalancer"
    if not balanced and "allocateLoadBalancerNodePorts" in spec:
        found.append(field.forbidden(SPEC.child("allocateLoadBalancerNodePorts"), _LOAD_BALANCER_ONLY))
    if (balancer := spec.get("loadBalancerClass")) is not None:
        path = SPEC.child("loadBalancerClass")
        if balanced:
            found += checks.qualified_name(balancer, path)
        else:
            found.append(field.forbidden(path, _LOAD_BALANCER_ONLY))
    policy, path = spec.get("externalTrafficPolicy", ""), SPEC.child("externalTrafficPolicy")
    if externally_accessible(spec):
        found += checks.one_of(policy, path, _TRAFFIC_POLICIES)
    elif policy:
        found.append(field.invalid(path, policy, "may only be set for externally-accessible services"))
    check_port, path = spec.get("healthCheckNodePort", 0), SPEC.child("healthCheckNodePort")
    if check_port and not needs_health_check(spec):
        words = "may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'"
        found.append(field.invalid(path, check_port, words))
    elif check_port:
        found += checks.port(check_port, path)
    found += checks.one_of(
        spec.get("internalTrafficPolicy") or "",
        SPEC.child("internalTrafficPolicy"),
        _TRAFFIC_POLICIES,
        needed=False,
    )
    if (distribution := spec.get("trafficDistribution")) is not None:
        allowed = ["PreferClose"]
        if "PreferSameTrafficDistribution" in ctx.gates:
            allowed += ["PreferSameZone", "PreferSameNode"]
        found += checks.one_of(distribution, SPEC.child("trafficDistribution"), allowed)
    return found


def check_service(obj: Service, old: ServiceSpec, ctx: Context) -> list[FieldError]:
    spec = obj["spec"]
    found = _check_type(spec) + _check_ports(spec)
    found += checks.labels(spec.get("selector"), SPEC.child("selector"))
    found += _check_affinity(spec) + _check_cluster_ips(spec, old, ctx) + _check_external(obj, old, ctx)
    found += checks.one_of(spec.get("type", ""), SPEC.child("type"), TYPES)
    return found + _check_port_pairs(spec) + _check_ranges(obj, old, ctx) + _check_policies(spec, ctx)


def check_kept(spec: ServiceSpec, old: ServiceSpec) -> list[FieldError]:
    """Addresses stay once given, except on the way from or to an external name."""
    if "ExternalName" in (spec.get("type"), old.get("type")):
        return []
    found: list[FieldError] = []
    ips, old_ips = spec.get("clusterIPs") or [], old.get("clusterIPs") or []
    if not (is_headless(spec) and is_headless(old)):
        if old_ips and not ips:
            found.append(field.invalid(_CLUSTER_IPS.index(0), None, "primary clusterIP can not be unset"))
        changed = range(len(ips)) if len(ips) == len(old_ips) else range(min(1, len(ips), len(old_ips)))
        found += [
            field.invalid(_CLUSTER_IPS.index(i), ips, "may not change once set")
            for i in changed
            if ips[i] != old_ips[i]
        ]
        families, old_families = spec.get("ipFamilies") or [], old.get("ipFamilies") or []
        if families and old_families and families[0] != old_families[0] and not is_headless(spec):
            path = SPEC.child("ipFamilies").index(0)
            found.append(field.invalid(path, families, "may not change once set"))
    if spec.get("type") == old.get("type") == "LoadBalancer":
        balancer = spec.get("loadBalancerClass")
        if balancer != old.get("loadBalancerClass"):
            path = SPEC.child("loadBalancerClass")
            found.append(field.invalid(path, balancer, "may not change once set"))
    return found

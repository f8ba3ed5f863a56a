"""Services: a name and an address for a set of pods. Addresses and node ports are given out by the server."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from dray.api import addresses, checks, field, names, printing
from dray.api.core.endpoints import check_special
from dray.api.field import FieldError, Path
from dray.api.kinds import Column, Context, Kind, Object, Rules, UpdateRules, Version
from dray.api.strategies import METADATA, SPEC, STATUS, keep, named

TYPES: Final = ("ClusterIP", "ExternalName", "LoadBalancer", "NodePort")
HEADLESS: Final = "None"
_WITH_NODE_PORTS: Final = ("NodePort", "LoadBalancer")
_AFFINITIES: Final = ("ClientIP", "None")
_FAMILIES: Final = ("IPv4", "IPv6")
_FAMILY_POLICIES: Final = ("PreferDualStack", "RequireDualStack", "SingleStack")
_TRAFFIC_POLICIES: Final = ("Cluster", "Local")
_LOAD_BALANCER_ONLY: Final = "may only be used when `type` is 'LoadBalancer'"
_SOURCE_RANGES: Final = "service.beta.kubernetes.io/load-balancer-source-ranges"
_STICKY_SECONDS: Final = 10800
_PORTS: Final = SPEC.child("ports")
_CLUSTER_IPS: Final = SPEC.child("clusterIPs")


def is_headless(spec: Mapping[str, Any]) -> bool:
    return bool((spec.get("clusterIPs") or [""])[0] == HEADLESS)


def _externally_accessible(spec: Mapping[str, Any]) -> bool:
    kind = spec.get("type")
    return kind in _WITH_NODE_PORTS or (kind == "ClusterIP" and bool(spec.get("externalIPs")))


def _needs_health_check(spec: Mapping[str, Any]) -> bool:
    return spec.get("type") == "LoadBalancer" and spec.get("externalTrafficPolicy") == "Local"


def _default(obj: Object) -> None:
    spec = obj.setdefault("spec", {})
    affinity = spec.setdefault("sessionAffinity", "None")
    if affinity == "None":
        spec.pop("sessionAffinityConfig", None)
    elif affinity == "ClientIP":
        config = (spec.get("sessionAffinityConfig") or {}).get("clientIP") or {}
        if config.get("timeoutSeconds") is None:
            spec["sessionAffinityConfig"] = {"clientIP": {"timeoutSeconds": _STICKY_SECONDS}}
    kind = spec.setdefault("type", "ClusterIP")
    for port in spec.get("ports") or ():
        port.setdefault("protocol", "TCP")
        if port.get("targetPort") in (None, 0, ""):
            port["targetPort"] = port["port"]
    if _externally_accessible(spec):
        spec.setdefault("externalTrafficPolicy", "Cluster")
    if kind in ("NodePort", "LoadBalancer", "ClusterIP"):
        spec.setdefault("internalTrafficPolicy", "Cluster")
    if kind == "LoadBalancer":
        spec.setdefault("allocateLoadBalancerNodePorts", True)
        for ingress in obj.get("status", {}).get("loadBalancer", {}).get("ingress") or ():
            if ingress.get("ip"):
                ingress.setdefault("ipMode", "VIP")


def _one_and_many(new: Object, old: Mapping[str, Any]) -> None:
    """``clusterIP`` and ``clusterIPs`` say the same; whichever the client changed decides."""
    before, after = old.get("spec", {}), new["spec"]
    one, many = after.get("clusterIP", ""), after.get("clusterIPs") or []
    if not old:
        if one and not many:
            after["clusterIPs"] = [one]
        return
    if before.get("clusterIP", "") and not one and many == before.get("clusterIPs"):
        after.pop("clusterIPs", None)
    elif (not before.get("clusterIP", "") and one and not many) or (
        one != before.get("clusterIP", "") and many == (before.get("clusterIPs") or [])
    ):
        after["clusterIPs"] = [one]


def _check_port(port: Mapping[str, Any], seen: set[str], path: Path, *, named: bool) -> list[FieldError]:
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


def _check_ports(spec: Mapping[str, Any]) -> list[FieldError]:
    ports = spec.get("ports") or ()
    seen: set[str] = set()
    return [
        p
        for i, port in enumerate(ports)
        for p in _check_port(port, seen, _PORTS.index(i), named=len(ports) > 1)
    ]


def _check_port_pairs(spec: Mapping[str, Any]) -> list[FieldError]:
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


def _check_type(spec: Mapping[str, Any]) -> list[FieldError]:
    found: list[FieldError] = []
    kind = spec.get("type", "")
    if not spec.get("ports") and not is_headless(spec) and kind != "ExternalName":
        found.append(field.required(_PORTS))
    if kind in _WITH_NODE_PORTS and is_headless(spec):
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


def _check_affinity(spec: Mapping[str, Any]) -> list[FieldError]:
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


def _check_cluster_ips(spec: Mapping[str, Any], old: Mapping[str, Any], ctx: Context) -> list[FieldError]:
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
    versions = [address.version for ip in many if (address := addresses.parse(ip))]
    if len(versions) > 1 and len(set(versions)) < len(versions):
        words = "may specify no more than one IP for each IP family"
        found.append(field.invalid(_CLUSTER_IPS, many, words))
    if not is_headless(spec):
        for i, (ip, family) in enumerate(zip(many, spec.get("ipFamilies") or (), strict=False)):
            if family in _FAMILIES and family != f"IPv{versions[i]}":
                words = f"expected an {family} value as indicated by `ipFamilies[{i}]`"
                found.append(field.invalid(_CLUSTER_IPS.index(i), ip, words))
    return found


def _check_each_ip(ips: list[str], accepted: Sequence[str], ctx: Context) -> list[FieldError]:
    strict = "StrictIPCIDRValidation" in ctx.gates
    found: list[FieldError] = []
    for i, ip in enumerate(ips):
        if i == 0 and ip == HEADLESS:
            if len(ips) > 1:
                found.append(field.invalid(_CLUSTER_IPS, ips, "'None' must be the first and only value"))
        elif ip not in accepted:
            found += addresses.check_ip(ip, _CLUSTER_IPS.index(i), strict=strict)
    return found


def _check_external(obj: Object, old: Mapping[str, Any], ctx: Context) -> list[FieldError]:
    """Where traffic from outside comes in."""
    spec, strict = obj["spec"], "StrictIPCIDRValidation" in ctx.gates
    found: list[FieldError] = []
    for i, ip in enumerate(spec.get("externalIPs") or ()):
        at = SPEC.child("externalIPs").index(i)
        known = ip in (old.get("externalIPs") or ())
        wrong = [] if known else addresses.check_ip(ip, at, strict=strict)
        found += wrong or check_special(ip, at)
    return found


def _check_ranges(obj: Object, old: Mapping[str, Any], ctx: Context) -> list[FieldError]:
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


def _check_policies(spec: Mapping[str, Any], ctx: Context) -> list[FieldError]:
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
    if _externally_accessible(spec):
        found += checks.one_of(policy, path, _TRAFFIC_POLICIES)
    elif policy:
        found.append(field.invalid(path, policy, "may only be set for externally-accessible services"))
    check_port, path = spec.get("healthCheckNodePort", 0), SPEC.child("healthCheckNodePort")
    if check_port and not _needs_health_check(spec):
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


def _check(obj: Object, old: Mapping[str, Any], ctx: Context) -> list[FieldError]:
    spec = obj["spec"]
    found = _check_type(spec) + _check_ports(spec)
    found += checks.labels(spec.get("selector"), SPEC.child("selector"))
    found += _check_affinity(spec) + _check_cluster_ips(spec, old, ctx) + _check_external(obj, old, ctx)
    found += checks.one_of(spec.get("type", ""), SPEC.child("type"), TYPES)
    return found + _check_port_pairs(spec) + _check_ranges(obj, old, ctx) + _check_policies(spec, ctx)


def _check_kept(spec: Mapping[str, Any], old: Mapping[str, Any]) -> list[FieldError]:
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


class ServiceRules(Rules):
    check_name = staticmethod(named(names.dns1035_label))
    delete_returns_object = True
    create_on_update = True

    def prepare_create(self, obj: Object, ctx: Context) -> None:
        obj["status"] = {"loadBalancer": {}}
        _one_and_many(obj, {})

    def validate(self, obj: Object, ctx: Context) -> Sequence[FieldError]:
        return _check(obj, {}, ctx)

    def prepare_update(self, new: Object, old: Object, ctx: Context) -> None:
        keep(new, old, "status")
        _one_and_many(new, old)
        _keep_given(new["spec"], old.get("spec", {}))
        _drop_by_type(new["spec"], old.get("spec", {}))
        if new["spec"].get("type") != "LoadBalancer":
            new["status"] = {**new.get("status", {}), "loadBalancer": {}}

    def validate_update(self, new: Object, old: Object, ctx: Context) -> Sequence[FieldError]:
        before = old.get("spec", {})
        return _check_kept(new["spec"], before) + _check(new, before, ctx)


def _keep_given(spec: Object, old: Mapping[str, Any]) -> None:
    """An update that leaves out what the server gave keeps it."""
    if "ExternalName" in (spec.get("type"), old.get("type")):
        return
    for part in ("clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy"):
        if part not in spec and part in old:
            spec[part] = old[part]
    if spec.get("type") in _WITH_NODE_PORTS and old.get("type") in _WITH_NODE_PORTS:
        given = {(p.get("protocol"), p.get("port")): p.get("nodePort") for p in old.get("ports") or ()}
        for port in spec.get("ports") or ():
            kept = given.get((port.get("protocol"), port.get("port")))
            if kept and not port.get("nodePort"):
                port["nodePort"] = kept
    if _needs_health_check(spec) and _needs_health_check(old) and old.get("healthCheckNodePort"):
        spec.setdefault("healthCheckNodePort", old["healthCheckNodePort"])


def _drop_by_type(spec: Object, old: Mapping[str, Any]) -> None:
    """What the old type needed and the new one does not goes, unless the client changed it too."""
    parts: list[str] = []
    kind, before = spec.get("type"), old.get("type")
    if before != "ExternalName" and kind == "ExternalName":
        parts += ["clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy"]
    if before in _WITH_NODE_PORTS and kind not in _WITH_NODE_PORTS:
        held = {port.get("nodePort") for port in old.get("ports") or ()}
        if all(port.get("nodePort") in held for port in spec.get("ports") or () if port.get("nodePort")):
            for port in spec.get("ports") or ():
                port.pop("nodePort", None)
    if _needs_health_check(old) and not _needs_health_check(spec):
        parts.append("healthCheckNodePort")
    if before == "LoadBalancer" and kind != "LoadBalancer":
        parts += ["allocateLoadBalancerNodePorts", "loadBalancerClass"]
    if _externally_accessible(old) and not _externally_accessible(spec):
        parts.append("externalTrafficPolicy")
    for part in parts:
        if part in spec and spec[part] == old.get(part):
            del spec[part]


class ServiceStatus(UpdateRules):
    def prepare_update(self, new: Object, old: Object, ctx: Context) -> None:
        keep(new, old, "spec")

    def validate_update(self, new: Object, old: Object, ctx: Context) -> Sequence[FieldError]:
        path = STATUS.child("loadBalancer", "ingress")
        ingress = new.get("status", {}).get("loadBalancer", {}).get("ingress") or ()
        if ingress and new["spec"].get("type") != "LoadBalancer":
            return [field.forbidden(path, "may only be used when `spec.type` is 'LoadBalancer'")]
        return [p for i, entry in enumerate(ingress) for p in _check_ingress(entry, path.index(i), ctx)]


def _check_ingress(entry: Mapping[str, Any], path: Path, ctx: Context) -> list[FieldError]:
    found: list[FieldError] = []
    ip, mode, host = entry.get("ip", ""), entry.get("ipMode"), entry.get("hostname", "")
    if ip:
        found += addresses.check_ip(ip, path.child("ip"), strict="StrictIPCIDRValidation" in ctx.gates)
    if mode is None and ip:
        found.append(field.required(path.child("ipMode"), "must be specified when `ip` is set"))
    elif mode is not None and not ip:
        found.append(field.forbidden(path.child("ipMode"), "may not be specified when `ip` is not set"))
    elif mode is not None:
        found += checks.one_of(mode, path.child("ipMode"), ("Proxy", "VIP"))
    if host:
        found += checks.dns_subdomain(host, path.child("hostname"))
        if addresses.parse(host) is not None:
            words = "must be a DNS name, not an IP address"
            found.append(field.invalid(path.child("hostname"), host, words))
    return found


def _external_ip(obj: Object) -> str:
    spec = obj.get("spec", {})
    external = spec.get("externalIPs") or []
    match spec.get("type"):
        case "ClusterIP" | "NodePort":
            return ",".join(external) or "<none>"
        case "LoadBalancer":
            ingress = obj.get("status", {}).get("loadBalancer", {}).get("ingress") or ()
            given = sorted({i.get("ip") or i.get("hostname") or "" for i in ingress} - {""})
            return ",".join([*given, *external]) or "<pending>"
        case "ExternalName":
            return str(spec.get("externalName", ""))
    return "<unknown>"


def _ports(spec: Mapping[str, Any]) -> str:
    shown = [
        f"{p['port']}:{p['nodePort']}/{p['protocol']}"
        if p.get("nodePort")
        else f"{p['port']}/{p['protocol']}"
        for p in spec.get("ports") or ()
    ]
    return ",".join(shown) or "<none>"


def _cells(obj: Object, now: float) -> Sequence[object]:
    spec = obj.get("spec", {})
    return (
        printing.name(obj),
        spec.get("type", ""),
        (spec.get("clusterIPs") or ["<none>"])[0],
        _external_ip(obj),
        _ports(spec),
        printing.age(obj, now),
        printing.labels(spec.get("selector")),
    )


KIND = Kind(
    group="",
    kind="Service",
    plural="services",
    short_names=("svc",),
    categories=("all",),
    prefix="services/specs",
    versions=(Version(name="v1", type="core/v1.Service", default=_default),),
    storage="v1",
    rules=ServiceRules(),
    views={"status": ServiceStatus()},
    actions={"proxy": ("create", "delete", "get", "patch", "update")},
    printer=printing.printer(
        (
            printing.NAME,
            Column("Type", description="How the service can be reached."),
            Column("Cluster-IP", description="Its address within the cluster."),
            Column("External-IP", description="Its addresses outside of the cluster."),
            Column("Port(s)", description="The ports it listens on."),
            printing.AGE,
            Column("Selector", priority=1, description="The labels of the pods behind it."),
        ),
        _cells,
    ),
    fields={
        "spec.clusterIP": lambda obj: str(obj.get("spec", {}).get("clusterIP", "")),
        "spec.type": lambda obj: str(obj.get("spec", {}).get("type", "")),
    },
)

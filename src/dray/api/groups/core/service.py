"""Services: a name and an address for a set of pods. Addresses and node ports are given out by the server."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from dray.api.groups.core.servicespec import (
    WITH_NODE_PORTS,
    check_kept,
    check_service,
    externally_accessible,
    needs_health_check,
)
from dray.api.scheme import printers
from dray.api.scheme.kinds import Column, Kind, Version
from dray.api.scheme.strategy import (
    METADATA,
    STATUS,
    Context,
    Strategy,
    UpdateStrategy,
    keep_fields,
    name_is_dns_label,
)
from dray.api.validation import addresses, checks, field, names
from dray.api.validation.field import FieldError, Path

if TYPE_CHECKING:
    from dray.api.types.core import LoadBalancerIngress, Service, ServiceSpec

_STICKY_SECONDS: Final = 10800


def _default(obj: Service) -> None:
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
    if externally_accessible(spec):
        spec.setdefault("externalTrafficPolicy", "Cluster")
    if kind in ("NodePort", "LoadBalancer", "ClusterIP"):
        spec.setdefault("internalTrafficPolicy", "Cluster")
    if kind == "LoadBalancer":
        spec.setdefault("allocateLoadBalancerNodePorts", True)
        for ingress in obj.get("status", {}).get("loadBalancer", {}).get("ingress") or ():
            if ingress.get("ip"):
                ingress.setdefault("ipMode", "VIP")


def _one_and_many(new: Service, old: Service) -> None:
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


class ServiceStrategy(Strategy["Service"]):
    check_name = staticmethod(name_is_dns_label)
    delete_returns_object = True
    create_on_update = True

    def prepare_create(self, obj: Service, ctx: Context) -> None:
        obj["status"] = {"loadBalancer": {}}
        _one_and_many(obj, {})

    def validate(self, obj: Service, ctx: Context) -> Sequence[FieldError]:
        name = obj["metadata"].get("name", "")
        strict = "RelaxedServiceNameValidation" not in ctx.gates and not names.dns1123_label(name)
        messages = names.dns1035_label(name) if strict else ()
        return [*checks.each(name, METADATA.child("name"), messages), *check_service(obj, {}, ctx)]

    def prepare_update(self, new: Service, old: Service, ctx: Context) -> None:
        keep_fields(new, old, "status")
        _one_and_many(new, old)
        _keep_given(new["spec"], old.get("spec", {}))
        _drop_by_type(new["spec"], old.get("spec", {}))
        if new["spec"].get("type") != "LoadBalancer":
            new["status"] = {**new.get("status", {}), "loadBalancer": {}}

    def validate_update(self, new: Service, old: Service, ctx: Context) -> Sequence[FieldError]:
        before = old.get("spec", {})
        return check_kept(new["spec"], before) + check_service(new, before, ctx)


def _keep_given(spec: ServiceSpec, old: ServiceSpec) -> None:
    """An update that leaves out what the server gave keeps it."""
    if "ExternalName" in (spec.get("type"), old.get("type")):
        return
    for part in ("clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy"):
        if part not in spec and part in old:
            spec[part] = old[part]
    if spec.get("type") in WITH_NODE_PORTS and old.get("type") in WITH_NODE_PORTS:
        given = {(p.get("protocol"), p.get("port")): p.get("nodePort") for p in old.get("ports") or ()}
        for port in spec.get("ports") or ():
            kept = given.get((port.get("protocol"), port.get("port")))
            if kept and not port.get("nodePort"):
                port["nodePort"] = kept
    if needs_health_check(spec) and needs_health_check(old) and old.get("healthCheckNodePort"):
        spec.setdefault("healthCheckNodePort", old["healthCheckNodePort"])


def _drop_by_type(spec: ServiceSpec, old: ServiceSpec) -> None:
    """What the old type needed and the new one does not goes, unless the client changed it too."""
    parts: list[str] = []
    kind, before = spec.get("type"), old.get("type")
    if before != "ExternalName" and kind == "ExternalName":
        parts += ["clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy"]
    if before in WITH_NODE_PORTS and kind not in WITH_NODE_PORTS:
        held = {port.get("nodePort") for port in old.get("ports") or ()}
        if all(port.get("nodePort") in held for port in spec.get("ports") or () if port.get("nodePort")):
            for port in spec.get("ports") or ():
                port.pop("nodePort", None)
    if needs_health_check(old) and not needs_health_check(spec):
        parts.append("healthCheckNodePort")
    if before == "LoadBalancer" and kind != "LoadBalancer":
        parts += ["allocateLoadBalancerNodePorts", "loadBalancerClass"]
    if externally_accessible(old) and not externally_accessible(spec):
        parts.append("externalTrafficPolicy")
    document: Any = spec
    for part in parts:
        if part in document and document[part] == old.get(part):
            del document[part]


class ServiceStatusStrategy(UpdateStrategy["Service"]):
    def prepare_update(self, new: Service, old: Service, ctx: Context) -> None:
        keep_fields(new, old, "spec")

    def validate_update(self, new: Service, old: Service, ctx: Context) -> Sequence[FieldError]:
        path = STATUS.child("loadBalancer", "ingress")
        ingress = new.get("status", {}).get("loadBalancer", {}).get("ingress") or ()
        if ingress and new["spec"].get("type") != "LoadBalancer":
            return [field.forbidden(path, "may only be used when `spec.type` is 'LoadBalancer'")]
        return [p for i, entry in enumerate(ingress) for p in _check_ingress(entry, path.index(i), ctx)]


def _check_ingress(entry: LoadBalancerIngress, path: Path, ctx: Context) -> list[FieldError]:
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


def _external_ip(obj: Service) -> str:
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


def _ports(spec: ServiceSpec) -> str:
    shown = [
        f"{p['port']}:{p['nodePort']}/{p['protocol']}"
        if p.get("nodePort")
        else f"{p['port']}/{p['protocol']}"
        for p in spec.get("ports") or ()
    ]
    return ",".join(shown) or "<none>"


def _cells(obj: Service, now: float) -> Sequence[object]:
    spec = obj.get("spec", {})
    return (
        printers.name(obj),
        spec.get("type", ""),
        (spec.get("clusterIPs") or ["<none>"])[0],
        _external_ip(obj),
        _ports(spec),
        printers.age(obj, now),
        printers.labels(spec.get("selector")),
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
    strategy=ServiceStrategy(),
    subresources={"status": ServiceStatusStrategy()},
    actions={"proxy": ("create", "delete", "get", "patch", "update")},
    printer=printers.printer(
        (
            printers.NAME,
            Column("Type", description="How the service can be reached."),
            Column("Cluster-IP", description="Its address within the cluster."),
            Column("External-IP", description="Its addresses outside of the cluster."),
            Column("Port(s)", description="The ports it listens on."),
            printers.AGE,
            Column("Selector", priority=1, description="The labels of the pods behind it."),
        ),
        _cells,
    ),
    fields={
        "spec.clusterIP": lambda obj: str(obj.get("spec", {}).get("clusterIP", "")),
        "spec.type": lambda obj: str(obj.get("spec", {}).get("type", "")),
    },
)

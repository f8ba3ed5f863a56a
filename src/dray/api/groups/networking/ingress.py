"""Ingresses: which requests from outside go to which service."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Final

from dray.api.scheme import printers
from dray.api.scheme.kinds import Column, Kind, Version
from dray.api.scheme.strategy import SPEC, STATUS, Context, SpecAndStatusStrategy, StatusStrategy
from dray.api.validation import addresses, checks, field, names
from dray.api.validation.field import FieldError, Path

if TYPE_CHECKING:
    from dray.api.types.core import TypedLocalObjectReference
    from dray.api.types.networking import HTTPIngressPath, Ingress, IngressBackend, IngressRule, IngressTLS

_CLASS: Final = "kubernetes.io/ingress.class"
_PATH_TYPES: Final = ("Exact", "ImplementationSpecific", "Prefix")
_WITHIN: Final = ("//", "/./", "/../", "%2f", "%2F")
_AT_THE_END: Final = ("/..", "/.")
_NOT_AN_IP: Final = "must be a DNS name, not an IP address"
_SHOWN_HOSTS: Final = 3
_ADDRESS_WIDTH: Final = 16


def check_reference(reference: TypedLocalObjectReference | Mapping[str, Any], path: Path) -> list[FieldError]:
    """A reference by group, kind and name to whatever it may be."""
    found: list[FieldError] = []
    if (group := reference.get("apiGroup")) is not None:
        found += checks.dns_subdomain(group, path.child("apiGroup"))
    for part in ("kind", "name"):
        value = str(reference.get(part, ""))
        at = path.child(part)
        found += checks.each(value, at, names.path_segment(value)) if value else [field.required(at)]
    return found


def _check_backend(backend: IngressBackend, path: Path) -> list[FieldError]:
    service, resource = backend.get("service"), backend.get("resource")
    if service is not None and resource is not None:
        return [field.invalid(path, "", "cannot set both resource and service backends")]
    if resource is not None:
        return check_reference(resource, path.child("resource"))
    if service is None:
        return [field.invalid(path, "", "resource or service backend is required")]
    name, at = service.get("name", ""), path.child("service", "name")
    found = checks.each(name, at, names.dns1035_label(name)) if name else [field.required(at)]
    port = service.get("port") or {}
    called, number = port.get("name", ""), port.get("number", 0)
    if called and number:
        return [*found, field.invalid(path, "", "cannot set both port name & port number")]
    if called:
        return found + checks.each(called, path.child("service", "port", "name"), names.port_name(called))
    if number:
        return found + checks.port(number, path.child("service", "port", "number"))
    return [*found, field.required(path, "port name or number is required")]


def _check_path(entry: HTTPIngressPath, path: Path) -> list[FieldError]:
    kind, text, at = entry.get("pathType", ""), entry.get("path", ""), path.child("path")
    if not kind:
        return [field.required(path.child("pathType"), "pathType must be specified")]
    found: list[FieldError] = []
    if kind not in _PATH_TYPES:
        found.append(field.not_supported(path.child("pathType"), kind, _PATH_TYPES))
    elif kind == "ImplementationSpecific":
        if text and not text.startswith("/"):
            found.append(field.invalid(at, text, "must be an absolute path"))
    else:
        if not text.startswith("/"):
            found.append(field.invalid(at, text, "must be an absolute path"))
        found += [field.invalid(at, text, f"must not contain '{part}'") for part in _WITHIN if part in text]
        found += [
            field.invalid(at, text, f"cannot end with '{end}'") for end in _AT_THE_END if text.endswith(end)
        ]
    return found + _check_backend(entry.get("backend") or {}, path.child("backend"))


def _check_host(host: str, path: Path) -> list[FieldError]:
    wild = "*" in host
    return checks.each(
        host, path, names.wildcard_dns1123_subdomain(host) if wild else names.dns1123_subdomain(host)
    )


def _check_rule(rule: IngressRule, path: Path) -> list[FieldError]:
    found: list[FieldError] = []
    if host := rule.get("host", ""):
        if addresses.parse(host) is not None:
            found.append(field.invalid(path.child("host"), host, _NOT_AN_IP))
        found += _check_host(host, path.child("host"))
    if (http := rule.get("http")) is not None:
        paths, at = http.get("paths") or (), path.child("http", "paths")
        found += [] if paths else [field.required(at)]
        found += [p for i, entry in enumerate(paths) for p in _check_path(entry, at.index(i))]
    return found


def _check_tls(entry: IngressTLS, path: Path) -> list[FieldError]:
    hosts = entry.get("hosts") or ()
    found = [p for i, host in enumerate(hosts) for p in _check_host(host, path.child("hosts").index(i))]
    if secret := entry.get("secretName", ""):
        found += checks.dns_subdomain(secret, path.child("secretName"))
    return found


class IngressStrategy(SpecAndStatusStrategy["Ingress"]):
    empty_status: ClassVar[Mapping[str, Any]] = {"loadBalancer": {}}

    def validate(self, obj: Ingress, ctx: Context) -> Sequence[FieldError]:
        found = self._check(obj)
        chosen = obj.get("spec", {}).get("ingressClassName")
        annotated = (obj["metadata"].get("annotations") or {}).get(_CLASS)
        if chosen is not None and annotated is not None and chosen != annotated:
            words = "must match `ingressClassName` when both are specified"
            found.append(field.invalid(Path("annotations").child(_CLASS), annotated, words))
        return found

    def validate_update(self, new: Ingress, old: Ingress, ctx: Context) -> Sequence[FieldError]:
        return self._check(new)

    def _check(self, obj: Ingress) -> list[FieldError]:
        spec = obj.get("spec", {})
        rules, backend = spec.get("rules") or (), spec.get("defaultBackend")
        found: list[FieldError] = []
        if not rules and backend is None:
            words = "either `defaultBackend` or `rules` must be specified"
            found.append(field.invalid(SPEC, list(rules) or None, words))
        if backend is not None:
            found += _check_backend(backend, SPEC.child("defaultBackend"))
        for i, rule in enumerate(rules):
            found += _check_rule(rule, SPEC.child("rules").index(i))
        for i, entry in enumerate(spec.get("tls") or ()):
            found += _check_tls(entry, SPEC.child("tls").index(i))
        if (chosen := spec.get("ingressClassName")) is not None:
            found += checks.dns_subdomain(chosen, SPEC.child("ingressClassName"))
        return found


class IngressStatusStrategy(StatusStrategy["Ingress"]):
    def validate_update(self, new: Ingress, old: Ingress, ctx: Context) -> Sequence[FieldError]:
        found: list[FieldError] = []
        path = STATUS.child("loadBalancer", "ingress")
        for i, point in enumerate((new.get("status", {}).get("loadBalancer") or {}).get("ingress") or ()):
            if address := point.get("ip", ""):
                found += addresses.check_ip(address, path.index(i).child("ip"))
            if host := point.get("hostname", ""):
                at = path.index(i).child("hostname")
                found += checks.dns_subdomain(host, at)
                found += [] if addresses.parse(host) is None else [field.invalid(at, host, _NOT_AN_IP)]
        return found


def _hosts(rules: Sequence[IngressRule]) -> str:
    named = [rule["host"] for rule in rules[:_SHOWN_HOSTS] if rule.get("host")]
    if not named:
        return "*"
    more = f" + {len(rules) - _SHOWN_HOSTS} more..." if len(rules) > _SHOWN_HOSTS else ""
    return ",".join(named) + more


def _cells(obj: Ingress, now: float) -> Sequence[object]:
    spec = obj.get("spec", {})
    points = (obj.get("status", {}).get("loadBalancer") or {}).get("ingress") or ()
    found = ",".join(sorted({p.get("ip") or p.get("hostname") or "" for p in points} - {""}))
    return (
        printers.name(obj),
        spec.get("ingressClassName", "<none>"),
        _hosts(spec.get("rules") or ()),
        found if len(found) <= _ADDRESS_WIDTH else found[: _ADDRESS_WIDTH - 3] + "...",
        "80, 443" if spec.get("tls") else "80",
        printers.age(obj, now),
    )


KIND = Kind(
    group="networking.k8s.io",
    kind="Ingress",
    plural="ingresses",
    short_names=("ing",),
    versions=(Version(name="v1", type="networking/v1.Ingress"),),
    storage="v1",
    prefix="ingress",
    strategy=IngressStrategy(),
    subresources={"status": IngressStatusStrategy()},
    printer=printers.printer(
        (
            printers.NAME,
            Column("Class", description="The class whose controller looks after it."),
            Column("Hosts", description="The hosts that requests are for."),
            Column("Address", description="Where requests come in."),
            Column("Ports", description="The ports that are open."),
            printers.AGE,
        ),
        _cells,
    ),
)

"""The spec of a pod, in a pod or in a template."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from dray.api.groups.core import resourcenames
from dray.api.groups.core.pod.affinity import check_affinity, check_spread
from dray.api.groups.core.pod.containers import (
    PodContext,
    check_containers,
    check_ephemeral_containers,
    check_init_containers,
)
from dray.api.groups.core.pod.options import PodValidationOptions
from dray.api.groups.core.pod.resourceclaims import check_claims
from dray.api.groups.core.pod.resources import check_container_resource, check_pod_level
from dray.api.groups.core.pod.security import (
    check_host_process,
    check_host_users,
    check_os,
    check_pod_context,
    containers,
)
from dray.api.groups.core.pod.tolerations import check_tolerations
from dray.api.groups.core.pod.volumes import check_volumes
from dray.api.validation import addresses, checks, field, names
from dray.api.validation.field import FieldError, Path

if TYPE_CHECKING:
    from dray.api.types.core import PodSpec
    from dray.api.types.meta import ObjectMeta

_RESTART_POLICIES: Final = ("Always", "OnFailure", "Never")
_DNS_POLICIES: Final = ("ClusterFirstWithHostNet", "ClusterFirst", "Default", "None")
_PREEMPTION: Final = ("PreemptLowerPriority", "Never")
_LONGEST: Final = (1 << 31) - 1


def check_spec(spec: PodSpec, meta: ObjectMeta, path: Path, opts: PodValidationOptions) -> list[FieldError]:
    volumes, found = check_volumes(
        spec.get("volumes") or (),
        path.child("volumes"),
        opts,
        pod_name=meta.get("name", "") if opts.is_pod else "",
    )
    claims = [entry.get("name", "") for entry in spec.get("resourceClaims") or ()]
    around = PodContext(spec, volumes, claims, opts)
    found += check_claims(spec, meta, path.child("resourceClaims"), opts)
    found += check_containers(around, path.child("containers"))
    found += check_init_containers(around, path.child("initContainers"))
    found += check_ephemeral_containers(around, path.child("ephemeralContainers"))
    if opts.on("PodLevelResources"):
        found += check_pod_level(spec, path, claims=claims)
    found += _check_host_network(spec, path, opts)
    found += checks.one_of(spec.get("restartPolicy", ""), path.child("restartPolicy"), _RESTART_POLICIES)
    found += checks.one_of(spec.get("dnsPolicy", ""), path.child("dnsPolicy"), _DNS_POLICIES)
    found += checks.labels(spec.get("nodeSelector"), path.child("nodeSelector"))
    found += check_pod_context(spec, path, opts)
    found += check_affinity(spec, path)
    found += _check_dns(spec, path.child("dnsConfig"), opts)
    found += _check_gates(spec, path)
    found += check_spread(spec, path, opts)
    found += check_host_process(spec, path)
    found += check_host_users(spec, path, opts)
    found += _check_names(spec, path)
    found += check_tolerations(spec.get("tolerations") or (), path.child("tolerations"), opts)
    found += _check_host_aliases(spec, path.child("hostAliases"), opts)
    found += _check_classes(spec, path)
    found += check_os(spec, path)
    found += _check_group(spec, path.child("schedulingGroup"))
    return found + _check_env_files(spec, path)


def _check_host_network(spec: PodSpec, path: Path, opts: PodValidationOptions) -> list[FieldError]:
    """On the host's network a container's port is the host's port; a template may leave it out."""
    if not spec.get("hostNetwork"):
        return []
    words = "must match `containerPort` when `hostNetwork` is true"
    return [
        field.invalid(
            path.child("containers").index(i).child("ports").index(j).child("hostPort"), host, words
        )
        for i, container in enumerate(spec.get("containers") or ())
        for j, port in enumerate(container.get("ports") or ())
        if ((host := port.get("hostPort", 0)) or opts.is_pod) and host != port.get("containerPort", 0)
    ]


def _check_dns(spec: PodSpec, path: Path, opts: PodValidationOptions) -> list[FieldError]:
    config = spec.get("dnsConfig")
    if spec.get("dnsPolicy") == "None":
        if config is None:
            return [field.required(path, "must provide `dnsConfig` when `dnsPolicy` is None")]
        if not config.get("nameservers"):
            words = "must provide at least one DNS nameserver when `dnsPolicy` is None"
            return [field.required(path.child("nameservers"), words)]
    if config is None:
        return []
    servers, searches = config.get("nameservers") or [], config.get("searches") or []
    found: list[FieldError] = []
    if len(servers) > 3:
        words = "must not have more than 3 nameservers"
        found.append(field.invalid(path.child("nameservers"), servers, words))
    strict = opts.on("StrictIPCIDRValidation")
    for i, server in enumerate(servers):
        found += addresses.check_ip(server, path.child("nameservers").index(i), strict=strict)
    if len(searches) > 32:
        words = "must not have more than 32 search paths"
        found.append(field.invalid(path.child("searches"), searches, words))
    if len(" ".join(searches)) > 2048:
        words = "must not have more than 2048 characters (including spaces) in the search list"
        found.append(field.invalid(path.child("searches"), searches, words))
    for i, search in enumerate(searches):
        at, domain = path.child("searches").index(i), search.removesuffix(".")
        if search != ".":
            found += checks.each(domain, at, names.dns1123_subdomain_with_underscore(domain))
    for i, option in enumerate(config.get("options") or ()):
        if not option.get("name"):
            found.append(field.required(path.child("options").index(i), "must not be empty"))
    return found


def _check_gates(spec: PodSpec, path: Path) -> list[FieldError]:
    found: list[FieldError] = []
    for i, gate in enumerate(spec.get("readinessGates") or ()):
        at = path.child("readinessGates").index(i).child("conditionType")
        found += checks.qualified_name(gate.get("conditionType", ""), at)
    seen: set[str] = set()
    for i, held in enumerate(spec.get("schedulingGates") or ()):
        at, name = path.child("schedulingGates").index(i), held.get("name", "")
        found += checks.qualified_name(name, at)
        if name in seen:
            found.append(field.duplicate(at, name))
        seen.add(name)
    return found


def _check_names(spec: PodSpec, path: Path) -> list[FieldError]:
    found: list[FieldError] = []
    if (override := spec.get("hostnameOverride")) is not None:
        at = path.child("hostnameOverride")
        if spec.get("setHostnameAsFQDN"):
            found.append(field.forbidden(at, "may not be specified when setHostnameAsFQDN is true"))
        if spec.get("hostNetwork"):
            found.append(field.forbidden(at, "may not be specified when hostNetwork is true"))
        if len(override) > 64:
            found.append(field.too_long(at, 64))
        found += checks.dns_subdomain(override, at)
    for part in ("serviceAccountName", "nodeName"):
        if spec.get(part):
            found += checks.dns_subdomain(spec[part], path.child(part))
    deadline = spec.get("activeDeadlineSeconds")
    if deadline is not None and not 1 <= deadline <= _LONGEST:
        words = f"must be between 1 and {_LONGEST}, inclusive"
        found.append(field.invalid(path.child("activeDeadlineSeconds"), deadline, words))
    if hostname := spec.get("hostname"):
        found += checks.dns_label(hostname, path.child("hostname"))
    if subdomain := spec.get("subdomain"):
        found += checks.dns_label(subdomain, path.child("subdomain"))
    return found


def _check_host_aliases(spec: PodSpec, path: Path, opts: PodValidationOptions) -> list[FieldError]:
    found: list[FieldError] = []
    strict = opts.on("StrictIPCIDRValidation")
    for i, alias in enumerate(spec.get("hostAliases") or ()):
        at = path.index(i)
        found += addresses.check_ip(alias.get("ip", ""), at.child("ip"), strict=strict)
        for j, name in enumerate(alias.get("hostnames") or ()):
            found += checks.dns_subdomain(name, at.child("hostnames").index(j))
    return found


def _check_classes(spec: PodSpec, path: Path) -> list[FieldError]:
    found: list[FieldError] = []
    for part in ("priorityClassName", "runtimeClassName"):
        if spec.get(part):
            found += checks.dns_subdomain(spec[part], path.child(part))
    if (preemption := spec.get("preemptionPolicy")) is not None:
        found += checks.one_of(preemption, path.child("preemptionPolicy"), _PREEMPTION)
    for name, amount in sorted((spec.get("overhead") or {}).items()):
        at = path.child("overhead", "limits").key(name)
        found += check_container_resource(name, at) + resourcenames.check_value(name, amount, at)
    return found


def _check_group(spec: PodSpec, path: Path) -> list[FieldError]:
    group = spec.get("schedulingGroup")
    if group is None:
        return []
    name, at = group.get("podGroupName"), path.child("podGroupName")
    if name is None:
        return [field.invalid(at, None, "must specify one of: `podGroupName`")]
    return checks.dns_subdomain(name, at)


def _check_env_files(spec: PodSpec, path: Path) -> list[FieldError]:
    """Variables read from a file come from an emptyDir of the same pod."""
    volumes = {volume.get("name", ""): volume for volume in spec.get("volumes") or ()}
    found: list[FieldError] = []
    for container, at in containers(spec, path):
        for i, variable in enumerate(container.get("env") or ()):
            ref = (variable.get("valueFrom") or {}).get("fileKeyRef")
            if ref is None:
                continue
            name, where = (
                ref.get("volumeName", ""),
                at.child("env").index(i).child("valueFrom", "fileKeyRef", "volumeName"),
            )
            if name not in volumes:
                found.append(field.not_found(where, name))
            elif volumes[name].get("emptyDir") is None:
                found.append(field.invalid(where, name, "referenced volume must be of type emptyDir"))
    return found

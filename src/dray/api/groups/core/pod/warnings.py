"""Advice about pods that are valid and yet unlikely to do what was meant."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from dray.api.groups.core.pod.options import Part
from dray.api.groups.core.pod.security import containers
from dray.api.quantity import Quantity
from dray.api.validation import addresses, field
from dray.api.validation.field import Path

if TYPE_CHECKING:
    from dray.api.types.core import Pod, PodSpec, PodTemplateSpec
    from dray.api.types.meta import ObjectMeta

_ANNOTATIONS: Final = {
    "scheduler.alpha.kubernetes.io/critical-pod": (
        'non-functional in v1.16+; use the "priorityClassName" field instead'
    ),
    "security.alpha.kubernetes.io/sysctls": 'non-functional in v1.11+; use the "sysctls" field instead',
    "security.alpha.kubernetes.io/unsafe-sysctls": 'non-functional in v1.11+; use the "sysctls" field instead',
}
_NODE_LABELS: Final = {
    "beta.kubernetes.io/arch": 'deprecated since v1.14; use "kubernetes.io/arch" instead',
    "beta.kubernetes.io/os": 'deprecated since v1.14; use "kubernetes.io/os" instead',
    "failure-domain.beta.kubernetes.io/region": (
        'deprecated since v1.17; use "topology.kubernetes.io/region" instead'
    ),
    "failure-domain.beta.kubernetes.io/zone": 'deprecated since v1.17; use "topology.kubernetes.io/zone" instead',
    "beta.kubernetes.io/instance-type": 'deprecated since v1.17; use "node.kubernetes.io/instance-type" instead',
}
_VOLUMES: Final = {
    "photonPersistentDisk": "deprecated in v1.11, non-functional in v1.16+",
    "gitRepo": "deprecated in v1.11, and disabled by default in v1.33+",
    "scaleIO": "deprecated in v1.16, non-functional in v1.22+",
    "flocker": "deprecated in v1.22, non-functional in v1.25+",
    "storageos": "deprecated in v1.22, non-functional in v1.25+",
    "quobyte": "deprecated in v1.22, non-functional in v1.25+",
    "glusterfs": "deprecated in v1.25, non-functional in v1.26+",
    "cephfs": "deprecated in v1.28, non-functional in v1.31+",
    "rbd": "deprecated in v1.28, non-functional in v1.31+",
}
_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED: Final = "preferredDuringSchedulingIgnoredDuringExecution"
_NO_SELECTOR: Final = "a null labelSelector results in matching no pod"
_WHOLE_BYTES: Final = ("memory", "ephemeral-storage")
_SECCOMP_POD: Final = "seccomp.security.alpha.kubernetes.io/pod"
_SECCOMP: Final = 'non-functional in v1.27+; use the "seccompProfile" field instead'


def warn_template(template: PodTemplateSpec, path: Path) -> list[str]:
    return list(_all(template.get("spec") or {}, template.get("metadata") or {}, path))


def warn_pod(pod: Pod) -> list[str]:
    return list(_all(pod["spec"], pod["metadata"], Path("")))


def _all(spec: PodSpec, meta: ObjectMeta, path: Path) -> Iterator[str]:
    at = path.child("spec")
    yield from _node_labels(spec, at)
    yield from _spread(spec, at)
    annotations = meta.get("annotations") or {}
    for key, words in _ANNOTATIONS.items():
        if key in annotations:
            yield f"{path.child('metadata', 'annotations').key(key)}: {words}"
    yield from _volumes(spec, at)
    yield from _twice(spec, at)
    yield from _fractions(spec.get("overhead"), at.child("overhead"))
    if not (spec.get("securityContext") or {}).get("seccompProfile") and _SECCOMP_POD in annotations:
        yield f"{path.child('metadata', 'annotations').key(_SECCOMP_POD)}: {_SECCOMP}"
    for container, where in containers(spec, at):
        for part in ("limits", "requests"):
            asked = container.get("resources", {}).get(part)
            yield from _fractions(asked, where.child("resources", part))
        yield from _hidden_variables(container, where)
    yield from _ports(spec, at)
    if (spec.get("terminationGracePeriodSeconds") or 0) < 0:
        words = "must be >= 0; negative values are invalid and will be treated as 1"
        yield f"{at.child('terminationGracePeriodSeconds')}: {words}"
    yield from _affinity(spec, at)
    for i, server in enumerate((spec.get("dnsConfig") or {}).get("nameservers") or ()):
        yield from addresses.warn_ip(server, at.child("dnsConfig", "nameservers").index(i))
    for i, alias in enumerate(spec.get("hostAliases") or ()):
        yield from addresses.warn_ip(alias.get("ip", ""), at.child("hostAliases").index(i).child("ip"))


def _node_labels(spec: PodSpec, path: Path) -> Iterator[str]:
    for key in sorted(spec.get("nodeSelector") or {}):
        if key in _NODE_LABELS:
            yield f"{path.child('nodeSelector').key(key)}: {_NODE_LABELS[key]}"
    affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    at = path.child("affinity", "nodeAffinity")
    terms = (affinity.get(_REQUIRED) or {}).get("nodeSelectorTerms") or ()
    for i, term in enumerate(terms):
        yield from _node_term(term, at.child(_REQUIRED, "nodeSelectorTerms").index(i))
    for i, weighted in enumerate(affinity.get(_PREFERRED) or ()):
        yield from _node_term(
            weighted.get("preference") or {}, at.child(_PREFERRED).index(i).child("preference")
        )


def _node_term(term: Part, path: Path) -> Iterator[str]:
    for i, wanted in enumerate(term.get("matchExpressions") or ()):
        if (key := wanted.get("key", "")) in _NODE_LABELS:
            yield f"{path.child('matchExpressions').index(i).child('key')}: {key} is {_NODE_LABELS[key]}"


def _spread(spec: PodSpec, path: Path) -> Iterator[str]:
    for i, constraint in enumerate(spec.get("topologySpreadConstraints") or ()):
        at, key = path.child("topologySpreadConstraints").index(i), constraint.get("topologyKey", "")
        if key in _NODE_LABELS:
            yield f"{at.child('topologyKey')}: {key} is {_NODE_LABELS[key]}"
        if constraint.get("labelSelector") is None:
            yield f"{at.child('labelSelector')}: {_NO_SELECTOR}"


def _volumes(spec: PodSpec, path: Path) -> Iterator[str]:
    for i, volume in enumerate(spec.get("volumes") or ()):
        for part, words in _VOLUMES.items():
            if volume.get(part) is not None:
                shown = "storageOS" if part == "storageos" else part
                yield f"{path.child('volumes').index(i).child(shown)}: {words}"


def _twice(spec: Mapping[str, Any], path: Path) -> Iterator[str]:
    for part, key in (("hostAliases", "ip"), ("imagePullSecrets", "name")):
        seen: set[str] = set()
        for i, item in enumerate(spec.get(part) or ()):
            value = item.get(key, "")
            if value in seen:
                yield f"{path.child(part).index(i).child(key)}: duplicate {key} {field.quote(value)}"
            seen.add(value)
    for i, secret in enumerate(spec.get("imagePullSecrets") or ()):
        if not secret.get("name"):
            yield f'{path.child("imagePullSecrets").index(i).child("name")}: invalid empty name ""'


def _fractions(amounts: Part | None, path: Path) -> Iterator[str]:
    for name in _WHOLE_BYTES:
        amount = (amounts or {}).get(name)
        if amount is not None and Quantity.parse(amount).milli_value() % 1000:
            yield f'{path.key(name)}: fractional byte value "{amount}" is invalid, must be an integer'


def _hidden_variables(container: Part, path: Path) -> Iterator[str]:
    seen: set[str] = set()
    for i, variable in enumerate(container.get("env") or ()):
        name, value = variable.get("name", ""), variable.get("value", "")
        reference = f"$({name})"
        builds_on = variable.get("valueFrom") is None and value != reference and reference in value
        if name in seen and not builds_on:
            shown = field.quote(name)
            words = f"hides previous definition of {shown}, which may be dropped when using apply"
            yield f"{path.child('env').index(i)}: {words}"
        seen.add(name)


def _ports(spec: PodSpec, path: Path) -> Iterator[str]:
    listed = [
        (port, at.child("ports").index(i))
        for container, at in containers(spec, path)
        for i, port in enumerate(container.get("ports") or ())
    ]
    earlier: dict[tuple[int, str], list[tuple[Part, Path]]] = {}
    for port, at in listed:
        key = (port.get("containerPort", 0), port.get("protocol", ""))
        for other, where in earlier.get(key, ()):
            if kind := _port_clash(port, other):
                yield f"{at}: {kind} port definition with {where}"
        earlier.setdefault(key, []).append((port, at))
    names: dict[str, Path] = {}
    for port, at in listed:
        name = port.get("name", "")
        if name in names:
            first = names[name]
            shown = field.quote(name)
            yield (
                f"{at}: duplicate port name {shown} with {first}, services and probes that select ports by name "
                f"will use {first}"
            )
        elif name:
            names[name] = at


def _port_clash(port: Part, other: Part) -> str:
    ips = port.get("hostIP", ""), other.get("hostIP", "")
    ports = port.get("hostPort", 0), other.get("hostPort", 0)
    if ips[0] == ips[1] and ports[0] == ports[1]:
        return "duplicate"
    if not all(ports):
        return "overlapping"
    if ports[0] == ports[1] and bool(ips[0]) != bool(ips[1]):
        return "dangerously ambiguous"
    return ""


def _affinity(spec: PodSpec, path: Path) -> Iterator[str]:
    for part in ("podAffinity", "podAntiAffinity"):
        affinity, at = (spec.get("affinity") or {}).get(part) or {}, path.child("affinity", part)
        for i, term in enumerate(affinity.get(_REQUIRED) or ()):
            if term.get("labelSelector") is None:
                yield f"{at.child(_REQUIRED).index(i).child('labelSelector')}: {_NO_SELECTOR}"
        for i, weighted in enumerate(affinity.get(_PREFERRED) or ()):
            if (weighted.get("podAffinityTerm") or {}).get("labelSelector") is None:
                where = at.child(_PREFERRED).index(i).child("podAffinityTerm", "labelSelector")
                yield f"{where}: {_NO_SELECTOR}"

"""The environment variables of a container, from all the places that a pod can take them from.

The caller fetches ConfigMaps and Secrets first (``references`` says which); the rest is pure.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from dray.api.quantity import Quantity

if TYPE_CHECKING:
    from dray.api.types.core import (
        ConfigMap,
        ConfigMapEnvSource,
        ConfigMapKeySelector,
        Container,
        EnvFromSource,
        EnvVarSource,
        Pod,
        ResourceFieldSelector,
        ResourceRequirements,
        Secret,
        SecretEnvSource,
        SecretKeySelector,
    )


class ContainerConfigError(Exception):
    """A container cannot be configured as its pod says (CreateContainerConfigError)."""


class Reference(NamedTuple):
    """A ConfigMap or Secret that a pod takes something from."""

    kind: str
    name: str
    optional: bool = False


Sources = Mapping[tuple[str, str], "ConfigMap | Secret | None"]
_FIELD = re.compile(r"metadata\.(labels|annotations)\['([^']*)'\]")
_REFERENCE = re.compile(r"\$(?:\$|\(([-._a-zA-Z][-._a-zA-Z0-9]*)\))")


def references(container: Container) -> Iterable[Reference]:
    """What must be known before the variables can be."""
    for source in container.get("envFrom") or []:
        for kind, whole in _whole_objects(source):
            yield Reference(kind, whole["name"], bool(whole.get("optional")))
    for variable in container.get("env") or []:
        for kind, key in _keys(variable.get("valueFrom") or {}):
            yield Reference(kind, key["name"], bool(key.get("optional")))


def _whole_objects(source: EnvFromSource) -> Iterator[tuple[str, ConfigMapEnvSource | SecretEnvSource]]:
    if config_map := source.get("configMapRef"):
        yield "ConfigMap", config_map
    if secret := source.get("secretRef"):
        yield "Secret", secret


def _keys(source: EnvVarSource) -> Iterator[tuple[str, ConfigMapKeySelector | SecretKeySelector]]:
    if config_map := source.get("configMapKeyRef"):
        yield "ConfigMap", config_map
    if secret := source.get("secretKeyRef"):
        yield "Secret", secret


def variables(
    pod: Pod,
    container: Container,
    *,
    sources: Sources,
    services: Mapping[str, str],
    node: Mapping[str, str],
    allocatable: Mapping[str, str] = MappingProxyType({}),
) -> dict[str, str]:
    """All variables of a container. ``node`` has the values of fields that are not in the pod yet, such as
    ``status.podIP``, and ``allocatable`` what the node has for pods."""
    out: dict[str, str] = dict(services)
    for whole in container.get("envFrom") or []:
        prefix = whole.get("prefix") or ""
        for kind, ref in _whole_objects(whole):
            found = _source(kind, ref["name"], sources, optional=bool(ref.get("optional")))
            out |= {prefix + k: v for k, v in _texts(kind, found).items()} if found else {}
    for entry in container.get("env") or []:
        if (source := entry.get("valueFrom")) is None:
            out[entry["name"]] = expand(entry.get("value") or "", out.get)
        elif resource := source.get("resourceFieldRef"):
            out[entry["name"]] = resource_value(pod, container, resource, allocatable)
        elif (value := _value(pod, source, sources, node)) is not None:
            out[entry["name"]] = value
    return out


def expand(text: str, lookup: Callable[[str], str | None]) -> str:
    """Replaces $(NAME) by the variable's value if there is one, and $$ by $."""

    def one(match: re.Match[str]) -> str:
        name = match.group(1)
        if name is None:
            return "$"
        value = lookup(name)
        return match.group(0) if value is None else value

    return _REFERENCE.sub(one, text)


def _value(pod: Pod, source: EnvVarSource, sources: Sources, node: Mapping[str, str]) -> str | None:
    if field := source.get("fieldRef"):
        return field_value(pod, field["fieldPath"], node)
    for kind, ref in _keys(source):
        found = _source(kind, ref["name"], sources, optional=bool(ref.get("optional")))
        if found is None:
            return None
        texts = _texts(kind, found)
        if ref["key"] not in texts and not ref.get("optional"):
            where = f"{pod['metadata']['namespace']}/{ref['name']}"
            raise ContainerConfigError(f"couldn't find key {ref['key']} in {kind} {where}")
        return texts.get(ref["key"])
    raise ContainerConfigError("unsupported source of a variable")


def field_value(pod: Pod, path: str, node: Mapping[str, str]) -> str:
    """A field of the pod, as the downward API offers it."""
    metadata, spec = pod["metadata"], pod["spec"]
    maps = {
        "metadata.labels": metadata.get("labels") or {},
        "metadata.annotations": metadata.get("annotations") or {},
    }
    if match := _FIELD.fullmatch(path):
        return str(maps[f"metadata.{match.group(1)}"].get(match.group(2), ""))
    if (pairs := maps.get(path)) is not None:
        return "\n".join(f'{k}="{_go_escaped(v)}"' for k, v in sorted(pairs.items()))
    if path in node:
        return node[path]
    simple = {
        "metadata.name": metadata["name"],
        "metadata.namespace": metadata["namespace"],
        "metadata.uid": metadata["uid"],
        "spec.nodeName": spec.get("nodeName", ""),
        "spec.serviceAccountName": spec.get("serviceAccountName") or "default",
    }
    if path in simple:
        return str(simple[path])
    raise ContainerConfigError(f"unsupported fieldPath: {path}")


def resource_value(
    pod: Pod, container: Container | None, ref: ResourceFieldSelector, allocatable: Mapping[str, str]
) -> str:
    """A container's request or limit, in units of the divisor and rounded up. A container without a limit is limited by
    what the node has for pods."""
    owner = container
    if name := ref.get("containerName"):
        everyone = [*(pod["spec"].get("initContainers") or []), *pod["spec"]["containers"]]
        owner = next((c for c in everyone if c["name"] == name), container)
    kind, _, resource = ref["resource"].partition(".")
    resources: ResourceRequirements = (owner.get("resources") if owner else None) or {}
    amounts = (resources.get("requests") if kind == "requests" else None) or {}
    if kind == "limits":
        amounts = {**allocatable, **(resources.get("limits") or {})}
    if resource not in amounts:
        return "0"
    amount = Quantity.parse(str(amounts[resource]))
    divisor = Quantity.parse(str(ref.get("divisor") or "1"))
    milli = divisor.milli_value() or 1000
    return str(-(-amount.milli_value() // milli))


def _source(kind: str, name: str, sources: Sources, *, optional: bool) -> ConfigMap | Secret | None:
    found = sources.get((kind, name))
    if found is None and not optional:
        raise ContainerConfigError(f'{kind.lower()} "{name}" not found')
    return found


def _texts(kind: str, found: ConfigMap | Secret) -> dict[str, str]:
    data = found.get("data") or {}
    if kind == "ConfigMap":
        return dict(data)
    return {k: base64.b64decode(v).decode(errors="replace") for k, v in data.items()}


def _go_escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")

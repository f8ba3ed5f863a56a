"""A container's variables, from all the places a pod can take them from. What has to be fetched is fetched before;
the rest is pure."""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from dray.api.quantity import Quantity
from dray.api.scheme.kinds import Object
from dray.node.pods import Spec


class ContainerConfigError(Exception):
    """A container cannot be configured as its pod says (CreateContainerConfigError)."""


class Reference(NamedTuple):
    """A ConfigMap or Secret that a pod takes something from."""

    kind: str
    name: str
    optional: bool = False


Sources = Mapping[tuple[str, str], Object | None]
_FIELD = re.compile(r"metadata\.(labels|annotations)\['([^']*)'\]")
_REFERENCE = re.compile(r"\$(?:\$|\(([-._a-zA-Z][-._a-zA-Z0-9]*)\))")


def references(container: Spec) -> Iterable[Reference]:
    """What must be known before the variables can be."""
    for entry in container.get("envFrom") or []:
        for field, kind in (("configMapRef", "ConfigMap"), ("secretRef", "Secret")):
            if ref := entry.get(field):
                yield Reference(kind, ref["name"], bool(ref.get("optional")))
    for entry in container.get("env") or []:
        source = entry.get("valueFrom") or {}
        for field, kind in (("configMapKeyRef", "ConfigMap"), ("secretKeyRef", "Secret")):
            if ref := source.get(field):
                yield Reference(kind, ref["name"], bool(ref.get("optional")))


def variables(
    pod: Object, container: Spec, *, sources: Sources, services: Mapping[str, str], node: Mapping[str, str]
) -> dict[str, str]:
    """All variables of a container. ``node`` has the values of fields that are not in the pod yet, such as
    ``status.podIP``."""
    out: dict[str, str] = dict(services)
    for entry in container.get("envFrom") or []:
        prefix = entry.get("prefix") or ""
        for field, kind in (("configMapRef", "ConfigMap"), ("secretRef", "Secret")):
            if ref := entry.get(field):
                found = _source(kind, ref, sources)
                out |= {prefix + k: v for k, v in _texts(kind, found).items()} if found else {}
    for entry in container.get("env") or []:
        if (source := entry.get("valueFrom")) is None:
            out[entry["name"]] = expand(entry.get("value") or "", out.get)
        elif (value := _value(pod, container, source, sources, node)) is not None:
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


def _value(
    pod: Object, container: Spec, source: Mapping[str, Any], sources: Sources, node: Mapping[str, str]
) -> str | None:
    if ref := source.get("fieldRef"):
        return field_value(pod, ref["fieldPath"], node)
    if ref := source.get("resourceFieldRef"):
        return resource_value(pod, container, ref)
    for field, kind in (("configMapKeyRef", "ConfigMap"), ("secretKeyRef", "Secret")):
        if ref := source.get(field):
            found = _source(kind, ref, sources)
            if found is None:
                return None
            texts = _texts(kind, found)
            if ref["key"] not in texts and not ref.get("optional"):
                where = f"{pod['metadata']['namespace']}/{ref['name']}"
                raise ContainerConfigError(f"couldn't find key {ref['key']} in {kind} {where}")
            return texts.get(ref["key"])
    raise ContainerConfigError("unsupported source of a variable")


def field_value(pod: Object, path: str, node: Mapping[str, str]) -> str:
    """A field of the pod, as the downward API offers it."""
    metadata, spec = pod["metadata"], pod["spec"]
    if match := _FIELD.fullmatch(path):
        return str((metadata.get(match.group(1)) or {}).get(match.group(2), ""))
    if path in ("metadata.labels", "metadata.annotations"):
        pairs = metadata.get(path.partition(".")[2]) or {}
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


def resource_value(pod: Object, container: Spec, ref: Mapping[str, Any]) -> str:
    """A container's request or limit, in units of the divisor and rounded up."""
    owner = container
    if name := ref.get("containerName"):
        everyone = [*(pod["spec"].get("initContainers") or []), *pod["spec"]["containers"]]
        owner = next((c for c in everyone if c["name"] == name), container)
    kind, _, resource = ref["resource"].partition(".")
    amounts = (owner.get("resources") or {}).get(kind) or {}
    if resource not in amounts:
        return "0"
    amount = Quantity.parse(str(amounts[resource]))
    divisor = Quantity.parse(str(ref.get("divisor") or "1"))
    milli = divisor.milli_value() or 1000
    return str(-(-amount.milli_value() // milli))


def _source(kind: str, ref: Mapping[str, Any], sources: Sources) -> Object | None:
    found = sources.get((kind, ref["name"]))
    if found is None and not ref.get("optional"):
        raise ContainerConfigError(f'{kind.lower()} "{ref["name"]}" not found')
    return found


def _texts(kind: str, found: Object) -> dict[str, str]:
    data = found.get("data") or {}
    if kind == "ConfigMap":
        return dict(data)
    return {k: base64.b64decode(v).decode(errors="replace") for k, v in data.items()}


def _go_escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")

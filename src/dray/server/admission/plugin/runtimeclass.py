"""RuntimeClass: a pod gets the overhead, node selector and tolerations of its runtime class."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from dray.api.quantity import Quantity
from dray.api.validation.field import quote
from dray.server.admission import CREATE, Attributes, RequestScope
from dray.server.admission.listers import Listers
from dray.server.admission.plugin.tolerations import merge

if TYPE_CHECKING:
    from dray.api.types.core import Pod, PodSpec
    from dray.api.types.node import RuntimeClass as NodeRuntimeClass
    from dray.api.types.node import Scheduling

_DIFFERS = "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead"


class RuntimeClass:
    name = "RuntimeClass"

    def __init__(self, listers: Listers) -> None:
        self._listers = listers

    def handles(self, scope: RequestScope) -> bool:
        return scope.operation == CREATE and scope.is_for("", "pods")

    async def admit(self, attributes: Attributes) -> None:
        pod: Pod = attributes.object
        spec = pod.setdefault("spec", {})
        chosen = self._class_of(spec, attributes)
        if overhead := chosen.get("overhead"):
            fixed = overhead.get("podFixed") or {}
            if spec.get("overhead") and not _same(spec["overhead"], fixed):
                raise attributes.forbidden(_DIFFERS)
            spec["overhead"] = fixed
        if scheduling := chosen.get("scheduling"):
            _schedule(spec, scheduling, attributes)

    async def validate(self, attributes: Attributes) -> None:
        pod: Pod = attributes.object
        spec = pod.get("spec", {})
        overhead = self._class_of(spec, attributes).get("overhead")
        if overhead is None:
            if spec.get("overhead") is not None:
                words = "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead"
                raise attributes.forbidden(words)
        elif not _same(spec.get("overhead") or {}, overhead.get("podFixed") or {}):
            raise attributes.forbidden(_DIFFERS)

    def _class_of(self, spec: PodSpec, attributes: Attributes) -> NodeRuntimeClass:
        name = spec.get("runtimeClassName")
        if name is None:
            return {}
        found: NodeRuntimeClass | None = self._listers.get("node.k8s.io", "runtimeclasses", name)
        if found is None:
            raise attributes.forbidden(f"pod rejected: RuntimeClass {quote(name)} not found")
        return found


def _schedule(spec: PodSpec, scheduling: Scheduling, attributes: Attributes) -> None:
    wanted: Mapping[str, str] = scheduling.get("nodeSelector") or {}
    selector = dict(spec.get("nodeSelector") or {})
    for key, value in wanted.items():
        if key in selector and selector[key] != value:
            raise attributes.forbidden(
                f"conflict: runtimeClass.scheduling.nodeSelector[{key}] = {value}; "
                f"pod.spec.nodeSelector[{key}] = {selector[key]}"
            )
        selector[key] = value
    if selector:
        spec["nodeSelector"] = selector
    if tolerations := merge(spec.get("tolerations") or (), scheduling.get("tolerations") or ()):
        spec["tolerations"] = tolerations


def _same(a: Mapping[str, str], b: Mapping[str, str]) -> bool:
    return a.keys() == b.keys() and all(Quantity.parse(a[name]) == Quantity.parse(b[name]) for name in a)

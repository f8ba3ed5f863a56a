"""PodNodeSelector: the pods of a namespace run on the nodes that its annotation selects."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dray.api import errors
from dray.server.admission import CREATE, Attributes, RequestScope
from dray.server.admission.listers import Listers

if TYPE_CHECKING:
    from dray.api.types.core import Pod

ANNOTATION = "scheduler.alpha.kubernetes.io/node-selector"
_CONFLICT = "pod node label selector conflicts with its namespace node label selector"


class PodNodeSelector:
    name = "PodNodeSelector"

    def __init__(self, listers: Listers) -> None:
        self._listers = listers

    def handles(self, scope: RequestScope) -> bool:
        return scope.operation == CREATE and scope.is_for("", "pods")

    def _selector(self, attributes: Attributes) -> dict[str, str]:
        namespace = self._listers.namespace(attributes.namespace)
        if namespace is None:
            raise errors.not_found("namespaces", "", attributes.namespace)
        text = (namespace["metadata"].get("annotations") or {}).get(ANNOTATION, "")
        found = {}
        for part in filter(None, text.split(",")):
            key, equals, value = part.partition("=")
            if not equals:
                raise errors.InternalError(f"invalid selector: {text}")
            found[key.strip()] = value.strip()
        return found

    async def admit(self, attributes: Attributes) -> None:
        await self.validate(attributes)
        pod: Pod = attributes.object
        spec = pod.setdefault("spec", {})
        merged = {**self._selector(attributes), **(spec.get("nodeSelector") or {})}
        if merged:
            spec["nodeSelector"] = merged

    async def validate(self, attributes: Attributes) -> None:
        pod: Pod = attributes.object
        spec = pod.get("spec", {})
        own = spec.get("nodeSelector") or {}
        if any(own.get(key, value) != value for key, value in self._selector(attributes).items()):
            raise attributes.forbidden(_CONFLICT)

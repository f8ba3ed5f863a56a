"""PodTopologyLabels: a pod that is bound to a node gets the node's zone and region labels."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from dray.server.admission import CREATE, UPDATE, Attributes, RequestScope
from dray.server.admission.listers import Listers

if TYPE_CHECKING:
    from dray.api.types import Object
    from dray.api.types.core import Binding, Node, Pod

_LABELS: Final = ("topology.kubernetes.io/zone", "topology.kubernetes.io/region")


class PodTopologyLabels:
    name = "PodTopologyLabels"

    def __init__(self, listers: Listers) -> None:
        self._listers = listers

    def handles(self, scope: RequestScope) -> bool:
        if scope.operation not in (CREATE, UPDATE):
            return False
        return scope.is_for("", "pods") or scope.is_for("", "pods", "binding")

    async def admit(self, attributes: Attributes) -> None:
        if attributes.subresource == "binding":
            binding: Binding = attributes.object
            target = binding.get("target") or {}
            node = target.get("name", "") if target.get("kind") == "Node" else ""
        else:
            pod: Pod = attributes.object
            node = pod.get("spec", {}).get("nodeName", "")
        labels = self._labels(node) if node else {}
        if labels:
            obj: Object = attributes.object
            meta = obj["metadata"]
            meta["labels"] = {**(meta.get("labels") or {}), **labels}

    def _labels(self, name: str) -> dict[str, str]:
        node: Node | None = self._listers.get("", "nodes", name)
        labels = {} if node is None else node["metadata"].get("labels") or {}
        return {key: labels[key] for key in _LABELS if key in labels}

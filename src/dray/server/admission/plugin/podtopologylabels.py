"""PodTopologyLabels: a pod that gets a node also gets the labels that say where the node is."""

from __future__ import annotations

from typing import Final

from dray.api.scheme.kinds import Object
from dray.server.admission import CREATE, UPDATE, Attributes, RequestScope
from dray.server.admission.listers import Listers

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
        obj = attributes.object
        assert obj is not None
        if attributes.subresource == "binding":
            target = obj.get("target") or {}
            node = target.get("name", "") if target.get("kind") == "Node" else ""
        else:
            node = obj.get("spec", {}).get("nodeName", "")
        labels = self._labels(node) if node else {}
        if labels:
            meta = obj["metadata"]
            meta["labels"] = {**(meta.get("labels") or {}), **labels}

    def _labels(self, name: str) -> Object:
        node = self._listers.get("", "nodes", name) or {}
        labels = node.get("metadata", {}).get("labels") or {}
        return {key: labels[key] for key in _LABELS if key in labels}

"""Deletes ResourceSlices of nodes that do not exist. Slices whose driver names the Node as owner go by themselves, but not
all drivers do so.

Upstream has no such controller. It is off unless somebody asks for it, and waits a while before it deletes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from dray.api.errors import NotFound
from dray.client.resources import NODES, RESOURCE_SLICES
from dray.controllers.controller import Controller, ControllerContext

if TYPE_CHECKING:
    from dray.api.types.core import Node
    from dray.api.types.resource import ResourceSlice


#: How long a node may be away before its slices are removed.
NODE_ABSENCE_SECONDS: Final = 300.0


class ResourceSliceCleanupController(Controller[str]):
    """Keys are names of nodes."""

    name = "resourceslice-cleanup-controller"
    workers = 2

    def __init__(self, context: ControllerContext, *, patience_seconds: float = NODE_ABSENCE_SECONDS) -> None:
        super().__init__(context)
        self._patience = patience_seconds
        self._missing: dict[str, float] = {}  # node → since when
        self._resource = context.resource(RESOURCE_SLICES, "v1", "v1beta2", "v1beta1", "v1alpha3")
        self._nodes = context.informers.get(NODES)
        self._slices = context.informers.get(self._resource, indexers={"node": _node_of})
        self._nodes.add_handler(on_add=self._node_added, on_delete=self._node_deleted)
        self._slices.add_handler(on_add=self._slice_added)

    def _node_added(self, node: Node) -> None:
        self._missing.pop(node["metadata"]["name"], None)

    def _node_deleted(self, node: Node) -> None:
        self._miss(node["metadata"]["name"])

    def _slice_added(self, document: ResourceSlice) -> None:
        node = document["spec"].get("nodeName")
        if node and self._nodes.get("", node) is None:
            self._miss(node)

    def _miss(self, node: str) -> None:
        if self._slices.by_index("node", node) and node not in self._missing:
            self._missing[node] = self.context.clock()
            self.queue.add_after(node, self._patience)

    async def sync(self, key: str) -> float | None:
        since = self._missing.get(key)
        if since is None:
            return None
        left = since + self._patience - self.context.clock()
        if left > 0:
            return left
        try:
            await self.context.client.get(NODES, "", key)
        except NotFound:
            for document in self._slices.by_index("node", key):
                await self._delete(document)
        self._missing.pop(key, None)
        return None

    async def _delete(self, document: ResourceSlice) -> None:
        metadata = document["metadata"]
        try:
            await self.context.client.delete(self._resource, "", metadata["name"], uid=metadata["uid"])
        except NotFound:
            return


def _node_of(document: ResourceSlice) -> list[str]:
    node = document["spec"].get("nodeName")
    return [node] if node else []

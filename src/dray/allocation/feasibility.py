"""Which nodes are worth trying. Claims of one shape share what is known about nodes.

A node on which claims of a shape could not be allocated is ruled out for that shape until something is freed or
changed there: taking devices never makes room. So the cost of finding a node does not grow with the cluster.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Sequence

from dray.allocation.identity import Document
from dray.allocation.requests import demand_key

ClaimsShape = tuple[bytes, ...]


def shape_of(claims: Sequence[Document]) -> ClaimsShape:
    """Equal for claims that are served by the same devices."""
    return tuple(map(demand_key, claims))


class Feasibility:
    """For each shape of claims, the nodes that have not been ruled out."""

    def __init__(self, nodes: Iterable[str] = (), *, shapes_kept: int = 256) -> None:
        self._nodes: dict[str, None] = dict.fromkeys(nodes)
        self._open: OrderedDict[ClaimsShape, OrderedDict[str, None]] = OrderedDict()
        self._shapes_kept = shapes_kept

    def add_node(self, node: str) -> None:
        if node not in self._nodes:
            self._nodes[node] = None
            self.reopen(node)

    def remove_node(self, node: str) -> None:
        self._nodes.pop(node, None)
        for nodes in self._open.values():
            nodes.pop(node, None)

    def first(self, shape: ClaimsShape) -> str | None:
        """The node to try next: of those not ruled out, the one that has been open longest."""
        return next(iter(self._of(shape)), None)

    def nodes(self, shape: ClaimsShape) -> tuple[str, ...]:
        """All nodes that are not ruled out."""
        return tuple(self._of(shape))

    def rule_out(self, shape: ClaimsShape, node: str) -> None:
        """Claims of this shape could not be allocated on the node."""
        self._of(shape).pop(node, None)

    def ruled_out(self, shape: ClaimsShape, node: str) -> bool:
        return node not in self._of(shape)

    def reopen(self, node: str) -> None:
        """Something was freed or changed on the node: everything is worth another try."""
        if node in self._nodes:
            for nodes in self._open.values():
                nodes[node] = None

    def reopen_all(self) -> None:
        self._open.clear()

    def _of(self, shape: ClaimsShape) -> OrderedDict[str, None]:
        found = self._open.get(shape)
        if found is None:
            found = self._open[shape] = OrderedDict(self._nodes)
            if len(self._open) > self._shapes_kept:
                self._open.popitem(last=False)
        return found

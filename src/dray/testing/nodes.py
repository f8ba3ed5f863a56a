"""The agents of a cluster's nodes, which a test can kill and start again."""

from __future__ import annotations

import functools
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any

from dray.app import components
from dray.app.up import Component

if TYPE_CHECKING:
    from dray.node.nodes import Nodes


class NodeAgents:
    """The agents of the nodes. A killed one says no goodbye: its containers run on, and its lease runs out."""

    def __init__(self, run: Callable[[Coroutine[Any, Any, None]], None]) -> None:
        self._run = run
        self._nodes: Nodes | None = None

    def running(self, node: str) -> bool:
        return self._nodes is not None and node in self._nodes.agents

    def kill(self, node: str) -> None:
        """End the agent of a node, and return when it is gone."""
        self._run(self.killed(node))

    def start(self, node: str) -> None:
        """Start it again, and return when the node is registered and knows its pods."""
        assert self._nodes is not None
        self._run(self._nodes.restart(node))

    async def killed(self, node: str) -> None:
        """``kill``, for what runs in the cluster's thread."""
        assert self._nodes is not None
        await self._nodes.kill(node)

    def replace(self, component: Component) -> Component:
        """The component of the nodes, which says here that they run."""
        if component.name != "nodes":
            return component
        return Component(component.name, functools.partial(components.nodes, running=self._found))

    def _found(self, nodes: Nodes) -> None:
        self._nodes = nodes

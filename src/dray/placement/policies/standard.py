"""The policies that add to the scheduler's own scores: upstream's choice, and those that pack or spread devices."""

from __future__ import annotations

from dray.allocation import PACK, SPREAD
from dray.placement.policies.model import MAX_SCORE, DevicePolicy, NodeState, Request


class Default(DevicePolicy):
    """Upstream's choice: nodes by their cpu and memory, and on the node the first devices that fit."""

    name = "default"
    adds_to_resource_scores = True
    keeps_order_of_nodes = False


class Pack(DevicePolicy):
    """Nodes whose devices are in use first, and on the node those that leave the most whole."""

    name = "pack"
    arrangement = PACK
    adds_to_resource_scores = True
    keeps_order_of_nodes = False

    def score(self, request: Request, node: NodeState) -> float:
        return MAX_SCORE * node.in_use / len(node.free) if node.free else 0.0


class Spread(DevicePolicy):
    """Nodes whose devices are idle first, and on the node idle devices with idle neighbours."""

    name = "spread"
    arrangement = SPREAD
    adds_to_resource_scores = True
    keeps_order_of_nodes = False

    def score(self, request: Request, node: NodeState) -> float:
        return MAX_SCORE * (1 - node.in_use / len(node.free)) if node.free else MAX_SCORE

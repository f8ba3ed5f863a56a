"""Reading nodes: taints, conditions, what they offer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from dray.api import objects

if TYPE_CHECKING:
    from dray.api.types.core import Node, NodeAddress, NodeCondition, Taint


def taints(node: Node) -> Sequence[Taint]:
    return (node.get("spec") or {}).get("taints") or ()


def condition(node: Node, type_: str) -> NodeCondition | None:
    return objects.find_condition((node.get("status") or {}).get("conditions"), type_)


def is_ready(node: Node) -> bool:
    return objects.is_condition_true((node.get("status") or {}).get("conditions"), "Ready")


def allocatable(node: Node) -> Mapping[str, str]:
    return (node.get("status") or {}).get("allocatable") or {}


def addresses(node: Node) -> Sequence[NodeAddress]:
    return (node.get("status") or {}).get("addresses") or ()


def declared_features(node: Node) -> Sequence[str]:
    return (node.get("status") or {}).get("declaredFeatures") or ()

"""What happens to a cluster besides pods, from a YAML file: nodes come and go, and objects are applied and deleted.

.. code-block:: yaml

    - {at: 600, drainNode: a100-3}
    - {at: 900, loseNode: a100-4}
    - at: 1200
      addNodes: {name: spare, count: 2, allocatable: {cpu: "96"}}     # a node group
    - at: 1500
      apply:                       # a DeviceTaintRule, DeviceClass, ResourceSlice or Node
        kind: DeviceTaintRule
        metadata: {name: hot}
        spec: {deviceSelector: {pool: a100-5}, taint: {key: hot, effect: NoExecute}}
    - {at: 1800, delete: {kind: DeviceTaintRule, name: hot}}          # or a ResourceSlice
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from dray.simulate.model import (
    ClassChanged,
    DevicesTainted,
    Event,
    NodeAdded,
    NodeDrained,
    NodeLost,
    SimulationError,
    SlicePublished,
    SliceWithdrawn,
    TaintRemoved,
    WorkloadSource,
)
from dray.simulate.sources.node_groups import NodeGroup


class _Named(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    kind: str
    name: str


class _Entry(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    at: float
    drain_node: str = ""
    lose_node: str = ""
    add_nodes: NodeGroup | None = None
    apply: dict[str, Any] = {}
    delete: _Named | None = None

    def events(self) -> Iterator[Event]:
        if self.drain_node:
            yield NodeDrained(self.at, self.drain_node)
        if self.lose_node:
            yield NodeLost(self.at, self.lose_node)
        if self.add_nodes is not None:
            for number in range(self.add_nodes.count):
                node, slices = self.add_nodes.make(number)
                yield NodeAdded(self.at, node, tuple(slices))
        if self.apply:
            yield self._applied(self.apply)
        if self.delete is not None:
            yield self._deleted(self.delete)

    def _applied(self, document: Any) -> Event:
        if not isinstance(document.get("metadata"), dict) or not document["metadata"].get("name"):
            raise ValueError("apply takes an object with a metadata.name")
        if not isinstance(document.get("spec"), dict):
            raise ValueError("apply takes an object with a spec")
        match document.get("kind"):
            case "DeviceTaintRule":
                return DevicesTainted(self.at, document)
            case "DeviceClass":
                return ClassChanged(self.at, document)
            case "ResourceSlice":
                return SlicePublished(self.at, document)
            case "Node":
                return NodeAdded(self.at, document)
            case kind:
                raise ValueError(
                    f"apply takes a DeviceTaintRule, DeviceClass, ResourceSlice or Node, not {kind}"
                )

    def _deleted(self, named: _Named) -> Event:
        match named.kind:
            case "DeviceTaintRule":
                return TaintRemoved(self.at, named.name)
            case "ResourceSlice":
                return SliceWithdrawn(self.at, named.name)
            case kind:
                raise ValueError(
                    f"delete takes a DeviceTaintRule or ResourceSlice, not {kind}; nodes are lost by loseNode"
                )


def parse_events(document: Any, name: str) -> tuple[Event, ...]:
    """The events of a file, in order of time. ``name``: of the file, for messages."""
    try:
        entries = msgspec.convert(document, list[_Entry], strict=False)
        found = [event for entry in entries for event in entry.events()]
    except (msgspec.ValidationError, ValueError) as problem:
        raise SimulationError(f"{name}: {problem}") from None
    for entry in entries:
        if not 0 <= entry.at < float("inf"):
            raise SimulationError(
                f"{name}: an event is at {entry.at:g}; it must be a time that is not negative"
            )
        if not any(True for _ in entry.events()):
            raise SimulationError(
                f"{name}: nothing happens at {entry.at:g}: say drainNode, loseNode, addNodes, apply or delete"
            )
    return tuple(sorted(found, key=lambda event: event.time))


@dataclass(frozen=True)
class WithClusterEvents:
    """A workload on a cluster to which something happens."""

    workload: WorkloadSource
    cluster_events: Sequence[Event]

    def events(self, seed: int) -> Iterator[Event]:
        """In order of time; at the same time the cluster changes before pods come."""
        waiting = list(reversed(self.cluster_events))
        for event in self.workload.events(seed):
            while waiting and waiting[-1].time <= event.time:
                yield waiting.pop()
            yield event
        yield from reversed(waiting)

"""Clusters made of node groups: how many nodes of which kind, and the slices that each of them publishes.

.. code-block:: yaml

    classes:                      # DeviceClasses, as manifests
    - metadata: {name: gpu}
      spec: {selectors: [{cel: {expression: 'device.driver == "gpu.example.com"'}}]}
    groups:
    - name: a100
      count: 10
      allocatable: {cpu: "96", memory: 512Gi, pods: "110"}
      labels: {pool: a100}
      taints: []
      price: 12.5                 # of a node for an hour; only for questions about cost
      slices:
      - driver: gpu.example.com
        count: 8                  # devices, called device-0 … device-7; or list them under devices
        device: {attributes: {model: {string: A100}}, capacity: {memory: {value: 80Gi}}}
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

import msgspec

from dray.simulate.model import Cluster, SimulationError

if TYPE_CHECKING:
    from dray.api.types.core import Node
    from dray.api.types.resource import Device, ResourceSlice


class SliceTemplate(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    driver: str
    count: int = 0
    device: dict[str, Any] = {}
    devices: list[dict[str, Any]] = []

    def publish(self, node: str) -> ResourceSlice:
        named = [{**self.device, "name": f"device-{number}"} for number in range(self.count)]
        devices = cast("list[Device]", [*named, *self.devices])
        return {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "ResourceSlice",
            "metadata": {"name": f"{node}-{self.driver}"},
            "spec": {
                "driver": self.driver,
                "nodeName": node,
                "pool": {"name": node, "generation": 1, "resourceSliceCount": 1},
                "devices": devices,
            },
        }


class NodeGroup(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    name: str
    count: int = 1
    allocatable: dict[str, str | int] = {}
    labels: dict[str, str] = {}
    taints: list[dict[str, str]] = []
    slices: list[SliceTemplate] = []
    price: float = 0.0

    def make(self, number: int) -> tuple[Node, list[ResourceSlice]]:
        """One node of the group."""
        name = f"{self.name}-{number}"
        node: Node = {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {
                "name": name,
                "labels": {"kubernetes.io/hostname": name, "dray.dev/node-group": self.name, **self.labels},
            },
            "spec": {"taints": self.taints} if self.taints else {},  # type: ignore[typeddict-item]
            "status": {"allocatable": {"pods": "110", **{k: str(v) for k, v in self.allocatable.items()}}},
        }
        return node, [one.publish(name) for one in self.slices]


class _File(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    groups: list[NodeGroup]
    classes: list[dict[str, Any]] = []


@dataclass(frozen=True)
class NodeGroups:
    """Node groups, as a cluster."""

    groups: Sequence[NodeGroup]
    classes: Sequence[Mapping[str, Any]] = field(default_factory=tuple)

    @classmethod
    def parse(cls, document: Any, name: str = "node groups") -> NodeGroups:
        """``name``: of the file, for messages."""
        try:
            found = msgspec.convert(document, _File)
        except msgspec.ValidationError as problem:
            raise SimulationError(f"{name}: {problem}") from None
        for group in found.groups:
            if group.count < 0:
                raise SimulationError(f"{name}: group {group.name} has {group.count} nodes")
        return cls(found.groups, found.classes)

    def cluster(self) -> Cluster:
        made = [group.make(number) for group in self.groups for number in range(group.count)]
        return Cluster(
            nodes=[node for node, _ in made],
            slices=[one for _, slices in made for one in slices],
            classes=self.classes,  # type: ignore[arg-type]
        )

"""Standard attributes that drivers of PCI devices read from sysfs: which root complex and which NUMA node they are at.

Constraints such as ``matchAttribute: resource.kubernetes.io/numaNode`` then work across the devices of all drivers.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

__all__ = ["NUMA_NODE", "PCIE_ROOT", "AttributeUnknown", "numa_node", "numa_node_of_pci", "pcie_root"]

PCIE_ROOT: Final = "resource.kubernetes.io/pcieRoot"
NUMA_NODE: Final = "resource.kubernetes.io/numaNode"

_SYSFS: Final = Path("/sys")
_BUS_ID: Final = re.compile(r"[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")
_MOST_NODES: Final = 1024  # of a Linux machine


class AttributeUnknown(ValueError):
    """The attribute must not be published, with the reason."""


def pcie_root(bus_id: str, *, sysfs: Path = _SYSFS) -> Mapping[str, str]:
    """The attribute ``resource.kubernetes.io/pcieRoot`` of a PCI device such as ``0000:04:1f.0``."""
    link = _device(bus_id, sysfs)
    try:
        target = link.resolve(strict=True).relative_to((sysfs / "devices").resolve())
    except (OSError, ValueError) as problem:
        raise AttributeUnknown(f"the root complex of PCI device {bus_id} is not known: {problem}") from None
    root = target.parts[0] if target.parts else ""
    if not root.startswith("pci") or target.name != bus_id:
        raise AttributeUnknown(f"PCI device {bus_id} is not below a root complex: {target}")
    return {PCIE_ROOT: root}


def numa_node_of_pci(
    bus_id: str, *, as_list: bool = False, sysfs: Path = _SYSFS
) -> Mapping[str, int | Sequence[int]]:
    """The attribute ``resource.kubernetes.io/numaNode`` of a PCI device. ``as_list``: see ``numa_node``."""
    path = _device(bus_id, sysfs) / "numa_node"
    try:
        node = int(path.read_text())
    except (OSError, ValueError) as problem:
        raise AttributeUnknown(f"the NUMA node of PCI device {bus_id} is not known: {problem}") from None
    if node < 0:
        raise AttributeUnknown(f"PCI device {bus_id} has no NUMA node; leave the attribute out")
    return numa_node(node, as_list=as_list, sysfs=sysfs)


def numa_node(node: int, *, as_list: bool = False, sysfs: Path = _SYSFS) -> Mapping[str, int | Sequence[int]]:
    """The attribute of a device whose NUMA node is known.

    ``as_list``: the node and those that are as near as any other node is, for clusters with DRAListTypeAttributes; a
    constraint then also accepts devices of neighbouring nodes.
    """
    if not 0 <= node < _MOST_NODES:
        raise AttributeUnknown(f"{node} is no NUMA node; leave the attribute out")
    return {NUMA_NODE: [node, *_neighbours(node, sysfs)] if as_list else node}


def _device(bus_id: str, sysfs: Path) -> Path:
    if not _BUS_ID.fullmatch(bus_id):
        raise AttributeUnknown(f"{bus_id!r} is no PCI address such as 0000:04:1f.0")
    return sysfs / "bus/pci/devices" / bus_id


def _neighbours(node: int, sysfs: Path) -> list[int]:
    """The other nodes at the smallest distance; none where distances are not known or all nodes are equally far."""
    nodes = sysfs / "devices/system/node"
    try:
        distances = [int(word) for word in (nodes / f"node{node}" / "distance").read_text().split()]
    except (OSError, ValueError):
        return []
    online = sorted(int(path.name.removeprefix("node")) for path in nodes.glob("node[0-9]*"))
    others = {other: far for other, far in zip(online, distances, strict=False) if other != node}
    if not others or min(others.values()) == max(others.values()):
        return []
    return [other for other, far in others.items() if far == min(others.values())]

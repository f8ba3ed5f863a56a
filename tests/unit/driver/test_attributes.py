"""Standard attributes from sysfs."""

from __future__ import annotations

from pathlib import Path

import pytest

from dray.driver.attributes import AttributeUnknown, numa_node, numa_node_of_pci, pcie_root

GPU = "0000:04:1f.0"


@pytest.fixture
def sysfs(tmp_path: Path) -> Path:
    """Four NUMA nodes in two sockets, and a GPU behind a bridge at node 1."""
    device = tmp_path / "devices/pci0000:00/0000:00:01.0" / GPU
    device.mkdir(parents=True)
    (device / "numa_node").write_text("1\n")
    (tmp_path / "bus/pci/devices").mkdir(parents=True)
    (tmp_path / "bus/pci/devices" / GPU).symlink_to(f"../../../devices/pci0000:00/0000:00:01.0/{GPU}")
    distances = ("10 12 32 32", "12 10 32 32", "32 32 10 12", "32 32 12 10")
    for node, line in enumerate(distances):
        path = tmp_path / f"devices/system/node/node{node}"
        path.mkdir(parents=True)
        (path / "distance").write_text(line + "\n")
    return tmp_path


def test_the_root_complex_and_the_numa_node_are_read_from_sysfs(sysfs: Path) -> None:
    assert pcie_root(GPU, sysfs=sysfs) == {"resource.kubernetes.io/pcieRoot": "pci0000:00"}
    assert numa_node_of_pci(GPU, sysfs=sysfs) == {"resource.kubernetes.io/numaNode": 1}


def test_a_list_has_the_nodes_of_the_same_socket_behind_the_own_one(sysfs: Path) -> None:
    assert numa_node_of_pci(GPU, as_list=True, sysfs=sysfs) == {"resource.kubernetes.io/numaNode": [1, 0]}
    assert numa_node(3, as_list=True, sysfs=sysfs) == {"resource.kubernetes.io/numaNode": [3, 2]}
    assert numa_node(3, as_list=True, sysfs=sysfs / "none") == {"resource.kubernetes.io/numaNode": [3]}


def test_a_device_without_numa_node_gets_no_attribute(sysfs: Path) -> None:
    (sysfs / "devices/pci0000:00/0000:00:01.0" / GPU / "numa_node").write_text("-1\n")
    with pytest.raises(AttributeUnknown, match="leave the attribute out"):
        numa_node_of_pci(GPU, sysfs=sysfs)
    with pytest.raises(AttributeUnknown, match="is no PCI address"):
        pcie_root("04:1f.0", sysfs=sysfs)
    with pytest.raises(AttributeUnknown, match="is not known"):
        pcie_root("0000:09:00.0", sysfs=sysfs)

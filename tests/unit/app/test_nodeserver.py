"""The endpoint of a node: its port and its address."""

from __future__ import annotations

import socket

import pytest

from dray.app import nodeserver, pki
from dray.node.hostpaths import HostPaths
from dray.node.options import NodeOptions


def test_a_port_that_is_taken_is_left_to_its_owner(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        taken = other.getsockname()[1]
        monkeypatch.setattr(nodeserver, "KUBELET_PORT", taken)
        with nodeserver.listen("127.0.0.1", None) as found:
            assert found.getsockname()[1] != taken
        with pytest.raises(OSError, match="in use"):
            nodeserver.listen("127.0.0.1", taken)


def test_the_address_of_this_machine_is_found() -> None:
    assert nodeserver.node_ip("https://127.0.0.1:6443") == "127.0.0.1"
    assert nodeserver.node_ip("https://no.such.host.invalid") == "127.0.0.1"


def test_nodes_of_a_cluster_with_a_cri_runtime_have_a_kubelets_port_and_those_of_programs_do_not(tmp_path):
    keys = pki.ensure(tmp_path / "pki", ["127.0.0.1"])
    node = NodeOptions(name="n", paths=HostPaths.below(tmp_path), address="127.0.0.1")
    found = nodeserver.cluster_endpoint(keys, node, runtime="cri:/run/containerd/containerd.sock")
    assert found is not None and found.context is not None
    with found.listener as listener:
        assert listener.getsockname()[0] == node.address and listener.getsockname()[1] != 0
    assert nodeserver.cluster_endpoint(keys, node, runtime="process") is None

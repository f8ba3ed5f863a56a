"""The endpoint of a node: its port and its address."""

from __future__ import annotations

import socket

import pytest

from dray.app import nodeserver


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

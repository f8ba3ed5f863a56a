from __future__ import annotations

from pathlib import Path

import pytest

from dray.app import kubeconfig, pki
from dray.client.config import ConfigError
from dray.client.kubeconfig import load

SERVERS = ("https://10.0.0.1:6443", "https://10.0.0.2:6443", "https://10.0.0.3:6443")


def test_all_servers_of_a_cluster_are_in_the_kubeconfigs_and_kubectl_is_told_the_first(tmp_path: Path):
    keys = pki.ensure(tmp_path / "pki", [])
    kubeconfig.write_admin(tmp_path / "admin", keys, SERVERS[1], SERVERS)
    config = load(tmp_path / "admin")
    assert (config.server, config.other_servers) == (SERVERS[1], (SERVERS[0], SERVERS[2]))
    credentials = tmp_path / "node.pem"
    credentials.write_bytes(keys.leaf("admin").certificate.read_bytes() + keys.leaf("admin").key.read_bytes())
    kubeconfig.write_node(
        tmp_path / "node",
        "n",
        server=SERVERS[0],
        servers=SERVERS,
        ca=keys.ca.read_bytes(),
        credentials=credentials,
    )
    assert load(tmp_path / "node").other_servers == SERVERS[1:]


def test_one_server_needs_no_list(tmp_path: Path):
    keys = pki.ensure(tmp_path / "pki", [])
    kubeconfig.write_admin(tmp_path / "admin", keys, SERVERS[0])
    assert load(tmp_path / "admin").other_servers == ()


def test_a_list_that_is_none_is_a_mistake_in_the_file(tmp_path: Path):
    keys = pki.ensure(tmp_path / "pki", [])
    kubeconfig.write_admin(tmp_path / "admin", keys, SERVERS[0], SERVERS)
    text = (tmp_path / "admin").read_text()
    (tmp_path / "admin").write_text(text.replace("servers:\n        - ", "servers: 1\n    # "))
    with pytest.raises(ConfigError):
        load(tmp_path / "admin")

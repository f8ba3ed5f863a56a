"""The /etc/hosts of a pod."""

from __future__ import annotations

from typing import Any

from dray.node.container.hosts import hosts_file

ALIASES = [{"ip": "192.0.2.7", "hostnames": ["far", "away"]}]


def pod(**spec: Any) -> Any:
    return {"metadata": {"name": "p", "namespace": "ns"}, "spec": {"hostAliases": ALIASES, **spec}}


def test_a_pod_knows_its_own_name_and_its_aliases() -> None:
    lines = hosts_file(pod(subdomain="sub"), ip="10.64.0.9", hostname="p", of_host="").splitlines()
    assert "10.64.0.9\tp.sub.ns.svc.cluster.local\tp" in lines
    assert lines[-1] == "192.0.2.7\tfar\taway"
    assert "127.0.0.1\tlocalhost" in lines


def test_a_pod_on_the_hosts_network_sees_the_hosts_file_and_its_aliases() -> None:
    lines = hosts_file(pod(), ip="", hostname="node", of_host="127.0.0.1 host\n").splitlines()
    assert lines[1:] == ["127.0.0.1 host", "192.0.2.7\tfar\taway"]

from __future__ import annotations

from typing import TYPE_CHECKING

from dray.node.container.dns import ClusterDNS, parse_resolv_conf, pod_dns
from dray.runtimes.interface import DNSConfig

if TYPE_CHECKING:
    from dray.api.types.core import Pod, PodDNSConfig

CLUSTER = ClusterDNS(("10.96.0.10",))
HOST = DNSConfig(("192.0.2.53",), ("example.com",), ("timeout:1", "rotate"))


def pod(policy: str, config: PodDNSConfig | None = None) -> Pod:
    found: Pod = {
        "metadata": {"name": "p", "namespace": "ns"},
        "spec": {"containers": [], "dnsPolicy": policy},
    }
    if config is not None:
        found["spec"]["dnsConfig"] = config
    return found


def test_a_resolvers_file_is_read_as_resolvers_read_it():
    text = """# a comment
    nameserver 192.0.2.53
    search a.example.com. .
    search b.example.com. c.example.com
    options ndots:2 rotate
    options ndots:5
    nameserver 2001:db8::53
    nameserver
    """
    assert parse_resolv_conf(text) == DNSConfig(
        ("192.0.2.53", "2001:db8::53"), ("b.example.com", "c.example.com"), ("ndots:5", "rotate")
    )


def test_without_a_dns_of_the_cluster_pods_resolve_as_the_host_does():
    for policy in ("ClusterFirst", "ClusterFirstWithHostNet", "Default"):
        assert pod_dns(pod(policy), of_host=HOST) == HOST


def test_pods_that_want_it_ask_the_dns_of_the_cluster_and_look_below_their_namespace_first():
    expected = DNSConfig(
        ("10.96.0.10",),
        ("ns.svc.cluster.local", "svc.cluster.local", "cluster.local", "example.com"),
        ("ndots:5",),
    )
    for policy in ("", "ClusterFirst", "ClusterFirstWithHostNet"):
        assert pod_dns(pod(policy), of_host=HOST, of_cluster=CLUSTER) == expected
    for policy in ("Default", "None"):
        assert pod_dns(pod(policy), of_host=HOST, of_cluster=CLUSTER) == pod_dns(pod(policy), of_host=HOST)


def test_a_pod_on_the_hosts_network_asks_the_dns_of_the_cluster_only_if_its_policy_says_so():
    on_host, says_so = pod("ClusterFirst"), pod("ClusterFirstWithHostNet")
    on_host["spec"]["hostNetwork"] = says_so["spec"]["hostNetwork"] = True
    assert pod_dns(on_host, of_host=HOST, of_cluster=CLUSTER) == HOST
    assert pod_dns(says_so, of_host=HOST, of_cluster=CLUSTER).servers == CLUSTER.servers


def test_a_cluster_without_a_domain_adds_no_search_domains():
    found = pod_dns(pod("ClusterFirst"), of_host=HOST, of_cluster=ClusterDNS(CLUSTER.servers, ""))
    assert (found.servers, found.searches) == (CLUSTER.servers, HOST.searches)


def test_the_policy_none_leaves_only_what_the_pod_says():
    own: PodDNSConfig = {
        "nameservers": ["192.0.2.1"],
        "searches": ["ns.svc.cluster.local"],
        "options": [{"name": "ndots", "value": "2"}, {"name": "edns0"}],
    }
    expected = DNSConfig(("192.0.2.1",), ("ns.svc.cluster.local",), ("ndots:2", "edns0"))
    assert pod_dns(pod("None", own), of_host=HOST) == expected


def test_what_the_pod_says_is_added_to_what_the_host_says():
    own: PodDNSConfig = {
        "nameservers": ["192.0.2.53", "192.0.2.1"],
        "searches": ["example.com", "example.org"],
        "options": [{"name": "timeout", "value": "3"}, {"name": "edns0"}],
    }
    assert pod_dns(pod("Default", own), of_host=HOST) == DNSConfig(
        ("192.0.2.53", "192.0.2.1"), ("example.com", "example.org"), ("timeout:3", "rotate", "edns0")
    )


def test_what_resolvers_cannot_take_is_left_out():
    own: PodDNSConfig = {
        "nameservers": [f"192.0.2.{n}" for n in range(5)],
        "searches": ["x" * 254, *(f"{n:02d}" + "y" * 98 for n in range(40))],
    }
    found = pod_dns(pod("None", own), of_host=HOST)
    assert found.servers == ("192.0.2.0", "192.0.2.1", "192.0.2.2")
    assert len(" ".join(found.searches)) <= 2048 < len(" ".join(found.searches)) + 101
    assert all(len(domain) == 100 for domain in found.searches)

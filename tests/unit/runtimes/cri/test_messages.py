"""What a container runtime is told about a pod, from the pod to the message."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from dray.kubelet_api.services import CRI_RUNTIME
from dray.node.container.runtime_config import sandbox_config
from dray.node.hostpaths import HostPaths
from dray.node.pod_status import NodeFacts
from dray.runtimes.cri import messages
from dray.runtimes.interface import NO_DNS, ContainerConfig, DNSConfig, Mount

if TYPE_CHECKING:
    from dray.api.types.core import Pod, PodSpec

m = CRI_RUNTIME.module


def message(spec: PodSpec, *, resolver: DNSConfig = NO_DNS) -> Any:
    pod: Pod = {"metadata": {"name": "p", "namespace": "ns", "uid": "u"}, "spec": spec}
    config = sandbox_config(
        pod,
        NodeFacts(host_ip="192.0.2.1", runtime="", name="node"),
        HostPaths.of_machine(),
        resolver=resolver,
    )
    return messages.sandbox_config(config, has_network=True)


def test_a_pod_with_a_privileged_container_has_a_privileged_sandbox():
    plain: PodSpec = {"containers": [{"name": "c", "image": "i"}]}
    assert not message(plain).linux.security_context.privileged
    privileged: PodSpec = {
        "containers": [{"name": "c", "image": "i", "securityContext": {"privileged": True}}]
    }
    assert message(privileged).linux.security_context.privileged
    before: PodSpec = {**plain, "initContainers": privileged["containers"]}
    assert message(before).linux.security_context.privileged


def test_namespaces_are_the_pods_the_containers_or_the_hosts():
    containers: PodSpec = {"containers": [{"name": "c", "image": "i"}]}
    cases: list[tuple[PodSpec, tuple[int, int, int]]] = [
        (containers, (m.POD, m.CONTAINER, m.POD)),
        ({**containers, "hostNetwork": True}, (m.NODE, m.CONTAINER, m.POD)),
        ({**containers, "hostPID": True}, (m.POD, m.NODE, m.POD)),
        ({**containers, "hostIPC": True}, (m.POD, m.CONTAINER, m.NODE)),
        ({**containers, "shareProcessNamespace": True}, (m.POD, m.POD, m.POD)),
    ]
    for spec, expected in cases:
        options = message(spec).linux.security_context.namespace_options
        assert (options.network, options.pid, options.ipc) == expected, spec


def test_settings_of_the_kernel_and_ports_of_the_host_reach_the_runtime():
    told = message(
        {
            "containers": [
                {
                    "name": "c",
                    "image": "i",
                    "ports": [{"containerPort": 80, "hostPort": 8080, "protocol": "TCP"}],
                }
            ],
            "securityContext": {"sysctls": [{"name": "kernel.shm_rmid_forced", "value": "1"}]},
        }
    )
    assert dict(told.linux.sysctls) == {"kernel.shm_rmid_forced": "1"}
    [mapping] = told.port_mappings
    assert (mapping.host_ip, mapping.host_port, mapping.container_port) == ("192.0.2.1", 8080, 80)


def test_the_runtime_is_told_how_the_pod_resolves_names():
    told = message(
        {
            "containers": [],
            "dnsPolicy": "ClusterFirst",
            "dnsConfig": {"nameservers": ["192.0.2.54"], "options": [{"name": "ndots", "value": "5"}]},
        },
        resolver=DNSConfig(("192.0.2.53",), ("example.com",), ("ndots:1", "rotate")),
    )
    assert list(told.dns_config.servers) == ["192.0.2.53", "192.0.2.54"]
    assert list(told.dns_config.searches) == ["example.com"]
    assert list(told.dns_config.options) == ["ndots:5", "rotate"]


def test_mounts_propagate_as_the_container_says():
    mounts = [
        Mount(source="/a", target="/a"),
        Mount(source="/b", target="/b", propagation="HostToContainer"),
        Mount(source="/c", target="/c", propagation="Bidirectional"),
    ]
    config = ContainerConfig(name="c", image="i", mounts=tuple(mounts), log_path=Path("/logs/c.log"))
    told = messages.container_config(config, message({"containers": []}), sources={})
    assert [x.propagation for x in told.mounts] == [
        m.PROPAGATION_PRIVATE,
        m.PROPAGATION_HOST_TO_CONTAINER,
        m.PROPAGATION_BIDIRECTIONAL,
    ]

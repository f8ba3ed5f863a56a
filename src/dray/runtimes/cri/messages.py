"""Sandboxes and containers as messages of the Container Runtime Interface."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from dray.kubelet_api.services import CRI_RUNTIME
from dray.runtimes.interface import ContainerConfig, Mount, Resources, SandboxConfig

#: Marks what dray runs among everything else that a runtime may have.
LABEL = "dray.dev/managed"

#: A volume's mountPropagation as the interface's number.
_PROPAGATION = {"HostToContainer": 1, "Bidirectional": 2}


def sandbox_config(config: SandboxConfig, *, has_network: bool) -> Any:
    m = CRI_RUNTIME.module
    # Without a network plugin there is only the host's network.
    host = config.host_network or not has_network
    namespaces = m.NamespaceOption(
        network=m.NODE if host else m.POD,
        pid=m.NODE if config.host_pid else m.POD if config.shares_processes else m.CONTAINER,
        ipc=m.NODE if config.host_ipc else m.POD,
    )
    return m.PodSandboxConfig(
        metadata=m.PodSandboxMetadata(
            name=config.name, uid=config.uid, namespace=config.namespace, attempt=config.attempt
        ),
        hostname="" if host else config.hostname,
        log_directory=str(config.log_directory),
        dns_config=m.DNSConfig(
            servers=config.dns.servers, searches=config.dns.searches, options=config.dns.options
        ),
        port_mappings=[
            m.PortMapping(host_ip=p.host, host_port=p.host_port, container_port=p.container_port)
            for p in config.ports
        ],
        labels={**config.labels, LABEL: "true"},
        annotations=dict(config.annotations),
        linux=m.LinuxPodSandboxConfig(
            sysctls=config.sysctls,
            security_context=m.LinuxSandboxSecurityContext(
                namespace_options=namespaces, privileged=config.privileged
            ),
        ),
    )


def container_config(config: ContainerConfig, pod: Any, *, sources: Mapping[Mount, str]) -> Any:
    """``pod`` is the configuration of the sandbox; ``sources`` says where the sub paths of mounts are."""
    m = CRI_RUNTIME.module
    security = m.LinuxContainerSecurityContext(
        privileged=config.privileged,
        capabilities=m.Capability(
            add_capabilities=list(config.add_capabilities), drop_capabilities=list(config.drop_capabilities)
        ),
        namespace_options=_namespaces(config, pod),
        readonly_rootfs=config.read_only_root,
        supplemental_groups=list(config.groups),
        no_new_privs=config.no_new_privileges,
        seccomp=_profile("" if config.privileged else config.seccomp),
        apparmor=_profile(config.apparmor) if config.apparmor else None,
    )
    if config.user is not None:
        security.run_as_user.value = config.user
    if config.group is not None:
        security.run_as_group.value = config.group
    logs = Path(pod.log_directory)
    return m.ContainerConfig(
        metadata=m.ContainerMetadata(name=config.name, attempt=config.attempt),
        image=m.ImageSpec(image=config.image, user_specified_image=config.image),
        command=list(config.command),
        args=list(config.args),
        working_dir=config.working_dir,
        envs=[m.KeyValue(key=k, value=v.encode()) for k, v in (*config.env, *config.edits.env)],
        mounts=[
            m.Mount(
                container_path=x.target,
                host_path=sources.get(x, x.source),
                readonly=x.read_only,
                propagation=_PROPAGATION.get(x.propagation, 0),
            )
            for x in (*config.mounts, *config.edits.mounts, *_message_mount(config))
        ],
        devices=[
            m.Device(container_path=x.target, host_path=x.source, permissions=x.permissions or "rwm")
            for x in config.edits.devices
        ],
        CDI_devices=[m.CDIDevice(name=name) for name in config.cdi_devices],
        labels={**config.labels, LABEL: "true"},
        log_path=str(config.log_path.relative_to(logs)) if config.log_path.is_relative_to(logs) else "",
        stdin=config.stdin,
        stdin_once=config.stdin_once,
        tty=config.tty,
        linux=m.LinuxContainerConfig(resources=linux_resources(config.resources), security_context=security),
    )


def _profile(wanted: str) -> Any:
    profile = CRI_RUNTIME.module.SecurityProfile
    if wanted in ("", "RuntimeDefault"):
        return profile(profile_type=profile.RuntimeDefault if wanted else profile.Unconfined)
    return profile(profile_type=profile.Localhost, localhost_ref=wanted)


def linux_resources(given: Resources) -> Any:
    made = CRI_RUNTIME.module.LinuxContainerResources(
        cpu_shares=max(2, given.cpu_milli * 1024 // 1000), memory_limit_in_bytes=given.memory_limit
    )
    if given.cpu_limit_milli:
        made.cpu_period, made.cpu_quota = 100_000, max(1000, given.cpu_limit_milli * 100)
    return made


def _namespaces(config: ContainerConfig, pod: Any) -> Any:
    """Those of the pod; a container that looks into another one is in its PID namespace."""
    m = CRI_RUNTIME.module
    made = m.NamespaceOption()
    made.CopyFrom(pod.linux.security_context.namespace_options)
    if config.target_container:
        made.pid, made.target_id = m.TARGET, config.target_container
    return made


def _message_mount(config: ContainerConfig) -> list[Mount]:
    if not config.message_path:
        return []
    return [Mount(source=str(config.message_file), target=config.message_path)]

"""Sandboxes and containers as messages of the Container Runtime Interface."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from dray.kubelet_api.services import CRI_RUNTIME
from dray.runtimes.interface import ContainerConfig, Mount, SandboxConfig

#: Marks what dray runs among everything else that a runtime may have.
LABEL = "dray.dev/managed"


def sandbox_config(config: SandboxConfig, *, has_network: bool) -> Any:
    m = CRI_RUNTIME.module
    # Without a network plugin there is only the host's network.
    host = config.host_network or not has_network
    namespaces = m.NamespaceOption(
        network=m.NODE if host else m.POD, pid=m.CONTAINER, ipc=m.NODE if config.host_network else m.POD
    )
    return m.PodSandboxConfig(
        metadata=m.PodSandboxMetadata(
            name=config.name, uid=config.uid, namespace=config.namespace, attempt=config.attempt
        ),
        hostname="" if host else config.hostname,
        log_directory=str(config.log_directory),
        labels={**config.labels, LABEL: "true"},
        annotations=dict(config.annotations),
        linux=m.LinuxPodSandboxConfig(
            security_context=m.LinuxSandboxSecurityContext(namespace_options=namespaces)
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
        namespace_options=pod.linux.security_context.namespace_options,
        readonly_rootfs=config.read_only_root,
        supplemental_groups=list(config.groups),
        no_new_privs=config.no_new_privileges,
    )
    if config.user is not None:
        security.run_as_user.value = config.user
    if config.group is not None:
        security.run_as_group.value = config.group
    logs = Path(pod.log_directory)
    resources = m.LinuxContainerResources(
        cpu_shares=max(2, config.cpu_milli * 1024 // 1000), memory_limit_in_bytes=config.memory_limit
    )
    if config.cpu_limit_milli:
        resources.cpu_period, resources.cpu_quota = 100_000, max(1000, config.cpu_limit_milli * 100)
    return m.ContainerConfig(
        metadata=m.ContainerMetadata(name=config.name, attempt=config.attempt),
        image=m.ImageSpec(image=config.image, user_specified_image=config.image),
        command=list(config.command),
        args=list(config.args),
        working_dir=config.working_dir,
        envs=[m.KeyValue(key=k, value=v.encode()) for k, v in config.env],
        mounts=[
            m.Mount(container_path=x.target, host_path=sources.get(x, x.source), readonly=x.read_only)
            for x in (*config.mounts, *_message_mount(config))
        ],
        CDI_devices=[m.CDIDevice(name=name) for name in config.cdi_devices],
        labels={**config.labels, LABEL: "true"},
        log_path=str(config.log_path.relative_to(logs)) if config.log_path.is_relative_to(logs) else "",
        stdin=config.stdin,
        stdin_once=config.stdin_once,
        tty=config.tty,
        linux=m.LinuxContainerConfig(resources=resources, security_context=security),
    )


def _message_mount(config: ContainerConfig) -> list[Mount]:
    if not config.message_path:
        return []
    return [Mount(source=str(config.message_file), target=config.message_path)]

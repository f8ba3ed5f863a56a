"""From a pod's words to what a runtime is given."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING

from dray.api.errors import NotFound
from dray.api.quantity import Quantity
from dray.client.resources import CONFIGMAPS, SECRETS
from dray.node import volume_manager
from dray.node.container import environment, termination_message
from dray.node.options import NodeOptions
from dray.node.volume_manager import MountedVolumes
from dray.runtimes.interface import ContainerConfig, Edits, SandboxConfig, SandboxStatus

if TYPE_CHECKING:
    from dray.api.types.core import (
        ConfigMap,
        Container,
        Pod,
        PodSecurityContext,
        ResourceRequirements,
        Secret,
        SecurityContext,
    )
    from dray.node.agent import Agent


#: Says which of the nodes that may share a runtime a pod belongs to.
NODE_LABEL = "dray.dev/node"


def labels(pod: Pod, container: str = "") -> dict[str, str]:
    """The labels by which every kubelet marks what it runs."""
    metadata = pod["metadata"]
    out = {
        "io.kubernetes.pod.name": metadata["name"],
        "io.kubernetes.pod.namespace": metadata["namespace"],
        "io.kubernetes.pod.uid": metadata["uid"],
        NODE_LABEL: pod["spec"].get("nodeName", ""),
    }
    if container:
        out["io.kubernetes.container.name"] = container
    return out


def sandbox_config(pod: Pod, options: NodeOptions, *, attempt: int = 0) -> SandboxConfig:
    metadata, spec = pod["metadata"], pod["spec"]
    return SandboxConfig(
        uid=metadata["uid"],
        name=metadata["name"],
        namespace=metadata["namespace"],
        attempt=attempt,
        hostname=options.name if spec.get("hostNetwork") else (spec.get("hostname") or metadata["name"])[:63],
        host_network=bool(spec.get("hostNetwork")),
        log_directory=options.paths.pod_logs(metadata["namespace"], metadata["name"], metadata["uid"]),
        labels=labels(pod),
        annotations=metadata.get("annotations") or {},
    )


async def container_config(
    pod: Pod,
    spec: Container,
    *,
    attempt: int,
    agent: Agent,
    mounted_volumes: MountedVolumes | None,
    sandbox: SandboxStatus | None,
    cdi_devices: tuple[str, ...],
    edits: Edits | None,
) -> ContainerConfig:
    """Everything about one attempt to run a container."""
    metadata = pod["metadata"]
    logs = agent.options.paths.pod_logs(metadata["namespace"], metadata["name"], metadata["uid"])
    log_path = logs / spec["name"] / f"{attempt}.log"
    if agent.simulated:
        return ContainerConfig(
            name=spec["name"], image=spec.get("image", ""), attempt=attempt, cdi_devices=cdi_devices
        )
    log_path.parent.mkdir(parents=True, exist_ok=True)
    message_file = termination_message.file_for(
        agent.options.paths.pod(metadata["uid"]), spec["name"], attempt
    )
    termination_message.make(message_file)
    env = environment.variables(
        pod,
        spec,
        sources=await _sources(pod, spec, agent),
        services=agent.options.services,
        node={**agent.node_fields(), "status.podIP": sandbox.ip if sandbox else ""},
    )
    security: SecurityContext = spec.get("securityContext") or {}
    pod_security: PodSecurityContext = pod["spec"].get("securityContext") or {}
    resources: ResourceRequirements = spec.get("resources") or {}
    return ContainerConfig(
        name=spec["name"],
        image=spec.get("image", ""),
        attempt=attempt,
        command=tuple(environment.expand(word, env.get) for word in spec.get("command") or ()),
        args=tuple(environment.expand(word, env.get) for word in spec.get("args") or ()),
        working_dir=spec.get("workingDir") or "",
        env=tuple(env.items()),
        mounts=volume_manager.mounts(spec, mounted_volumes) if mounted_volumes else (),
        cdi_devices=cdi_devices,
        edits=edits or Edits(),
        log_path=log_path,
        message_file=message_file,
        message_path=spec.get("terminationMessagePath") or termination_message.DEFAULT_PATH,
        stdin=bool(spec.get("stdin")),
        stdin_once=bool(spec.get("stdinOnce")),
        tty=bool(spec.get("tty")),
        user=security.get("runAsUser", pod_security.get("runAsUser")),
        group=security.get("runAsGroup", pod_security.get("runAsGroup")),
        groups=tuple(pod_security.get("supplementalGroups") or ()),
        privileged=bool(security.get("privileged")),
        read_only_root=bool(security.get("readOnlyRootFilesystem")),
        no_new_privileges=security.get("allowPrivilegeEscalation") is False,
        cpu_milli=_milli(resources.get("requests"), "cpu"),
        cpu_limit_milli=_milli(resources.get("limits"), "cpu"),
        memory_limit=_milli(resources.get("limits"), "memory") // 1000,
        labels=labels(pod, spec["name"]),
    )


async def _sources(pod: Pod, spec: Container, agent: Agent) -> environment.Sources:
    wanted = {(r.kind, r.name) for r in environment.references(spec)}

    async def get(kind: str, name: str) -> ConfigMap | Secret | None:
        namespace = pod["metadata"]["namespace"]
        try:
            if kind == "ConfigMap":
                return await agent.client.get(CONFIGMAPS, namespace, name)
            return await agent.client.get(SECRETS, namespace, name)
        except NotFound:
            return None

    found = await asyncio.gather(*(get(kind, name) for kind, name in wanted))
    return dict(zip(wanted, found, strict=True))


def _milli(amounts: Mapping[str, str] | None, resource: str) -> int:
    value = (amounts or {}).get(resource)
    return Quantity.parse(str(value)).milli_value() if value is not None else 0

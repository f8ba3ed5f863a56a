"""What a runtime is told about a pod's sandbox and containers."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from dray.api.errors import NotFound
from dray.api.quantity import Quantity
from dray.client.client import Client
from dray.client.resources import CONFIGMAPS, SECRETS
from dray.node import volume_manager
from dray.node.admission import EVERYWHERE, host_ports
from dray.node.container import dns, environment, hosts, termination_message
from dray.node.container.dns import NO_CLUSTER_DNS, ClusterDNS
from dray.node.hostpaths import HostPaths
from dray.node.pod_status import NodeFacts
from dray.node.services import ServiceAddress, Services
from dray.node.volume_manager import MountedVolumes
from dray.runtimes.interface import (
    NO_DNS,
    ContainerConfig,
    ContainerStatus,
    DNSConfig,
    Edits,
    HostPort,
    Mount,
    Resources,
    SandboxConfig,
    SandboxStatus,
)
from dray.runtimes.interface import Capabilities as RuntimeCapabilities

if TYPE_CHECKING:
    from dray.api.types.core import (
        AppArmorProfile,
        Capabilities,
        ConfigMap,
        Container,
        Pod,
        PodSecurityContext,
        PodSpec,
        ResourceRequirements,
        SeccompProfile,
        Secret,
        SecurityContext,
    )


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


def hostname(pod: Pod, node: str) -> str:
    spec = pod["spec"]
    return node if spec.get("hostNetwork") else (spec.get("hostname") or pod["metadata"]["name"])[:63]


def host_resolver(can: RuntimeCapabilities) -> DNSConfig:
    """How this host resolves names. Read for every pod, as hosts change networks; nothing where no program runs."""
    try:
        return dns.parse_resolv_conf(Path(dns.PATH).read_text() if can.runs_programs else "")
    except (OSError, UnicodeDecodeError):
        return NO_DNS


def sandbox_config(
    pod: Pod,
    node: NodeFacts,
    paths: HostPaths,
    *,
    resolver: DNSConfig = NO_DNS,
    cluster_dns: ClusterDNS = NO_CLUSTER_DNS,
    api_service: ServiceAddress | None = None,
    runtime_handler: str = "",
) -> SandboxConfig:
    """What a runtime is told about a pod. ``resolver`` is the host's."""
    metadata, spec = pod["metadata"], pod["spec"]
    security: PodSecurityContext = spec.get("securityContext") or {}
    return SandboxConfig(
        uid=metadata["uid"],
        name=metadata["name"],
        namespace=metadata["namespace"],
        hostname=hostname(pod, node.name),
        dns=dns.pod_dns(pod, of_host=resolver, of_cluster=cluster_dns),
        host_network=bool(spec.get("hostNetwork")),
        host_pid=bool(spec.get("hostPID")),
        host_ipc=bool(spec.get("hostIPC")),
        shares_processes=bool(spec.get("shareProcessNamespace")),
        privileged=_is_privileged(spec),
        sysctls={s["name"]: s["value"] for s in security.get("sysctls") or ()},
        host_users=spec.get("hostUsers") is not False,
        log_directory=paths.pod_logs(metadata["namespace"], metadata["name"], metadata["uid"]),
        labels=labels(pod),
        annotations=metadata.get("annotations") or {},
        ports=tuple(_host_ports(pod, node.host_ip)),
        api_service=api_service,
        runtime_handler=runtime_handler,
    )


def _is_privileged(spec: PodSpec) -> bool:
    containers = (*spec["containers"], *(spec.get("initContainers") or ()))
    return any((container.get("securityContext") or {}).get("privileged") for container in containers)


def _host_ports(pod: Pod, host: str) -> Iterator[HostPort]:
    """On the node's own address unless the pod names another one: several nodes may share a machine."""
    for port in host_ports(pod):
        if port.get("protocol", "TCP") == "TCP":
            named = port.get("hostIP") or ""
            yield HostPort(host if named in EVERYWHERE else named, port["hostPort"], port["containerPort"])


class ContainerConfigs(Protocol):
    """Makes the configuration of containers and knows the files that belong to it: logs, termination messages."""

    async def make(
        self,
        pod: Pod,
        spec: Container,
        *,
        attempt: int,
        volumes: MountedVolumes,
        sandbox: SandboxStatus | None,
        cdi_devices: tuple[str, ...],
        edits: Edits | None,
        target: str = "",
    ) -> ContainerConfig:
        """Everything about one attempt to run a container. ``target`` is the id of one that it looks into."""

    def termination_message(self, pod: Pod, spec: Container, status: ContainerStatus) -> str: ...

    def remove_logs(self, pod: Pod) -> None: ...


class BareConfigs:
    """For runtimes whose containers see no files of the host: little more than a name is needed there."""

    async def make(
        self,
        pod: Pod,
        spec: Container,
        *,
        attempt: int,
        volumes: MountedVolumes,
        sandbox: SandboxStatus | None,
        cdi_devices: tuple[str, ...],
        edits: Edits | None,
        target: str = "",
    ) -> ContainerConfig:
        return ContainerConfig(
            name=spec["name"], image=spec.get("image", ""), attempt=attempt, cdi_devices=cdi_devices
        )

    def termination_message(self, pod: Pod, spec: Container, status: ContainerStatus) -> str:
        return status.message

    def remove_logs(self, pod: Pod) -> None:
        return


class HostConfigs:
    """Configurations with variables, mounts and files on the host."""

    def __init__(
        self,
        client: Client,
        paths: HostPaths,
        node: NodeFacts,
        *,
        services: Services,
        api_server: Mapping[str, str],
        capabilities: RuntimeCapabilities,
    ) -> None:
        """``api_server`` are the variables by which containers find the API server where they cannot reach its Service."""
        self._client = client
        self._paths = paths
        self._node = node
        self._services = services
        self._api_server = api_server
        self._can = capabilities

    def termination_message(self, pod: Pod, spec: Container, status: ContainerStatus) -> str:
        if status.message:
            return status.message
        return termination_message.message(spec, status, self._message_file(pod, status.name, status.attempt))

    def remove_logs(self, pod: Pod) -> None:
        shutil.rmtree(self._logs(pod), ignore_errors=True)

    def _logs(self, pod: Pod) -> Path:
        metadata = pod["metadata"]
        return self._paths.pod_logs(metadata["namespace"], metadata["name"], metadata["uid"])

    def _message_file(self, pod: Pod, container: str, attempt: int) -> Path:
        return termination_message.file_for(self._paths.pod(pod["metadata"]["uid"]), container, attempt)

    async def make(
        self,
        pod: Pod,
        spec: Container,
        *,
        attempt: int,
        volumes: MountedVolumes,
        sandbox: SandboxStatus | None,
        cdi_devices: tuple[str, ...],
        edits: Edits | None,
        target: str = "",
    ) -> ContainerConfig:
        log_path = self._logs(pod) / spec["name"] / f"{attempt}.log"
        log_path.parent.mkdir(parents=True, exist_ok=True)
        message_file = self._message_file(pod, spec["name"], attempt)
        termination_message.make(message_file)
        own_ip = sandbox.ip if sandbox else ""
        services = await self._services.variables(pod)
        if not (own_ip and self._can.forwards_api_service):
            services |= self._api_server
        ip = own_ip or self._node.host_ip
        env = environment.variables(
            pod,
            spec,
            sources=await self._sources(pod, spec),
            services=services,
            node={**self._node.fields(), "status.podIP": ip, "status.podIPs": ip},
            allocatable=self._node.allocatable,
        )
        security: SecurityContext = spec.get("securityContext") or {}
        pod_security: PodSecurityContext = pod["spec"].get("securityContext") or {}
        capabilities: Capabilities = security.get("capabilities") or {}
        return ContainerConfig(
            name=spec["name"],
            image=spec.get("image", ""),
            attempt=attempt,
            command=tuple(environment.expand(word, env.get) for word in spec.get("command") or ()),
            args=tuple(environment.expand(word, env.get) for word in spec.get("args") or ()),
            working_dir=spec.get("workingDir") or "",
            env=tuple(env.items()),
            mounts=(*volume_manager.mounts(spec, volumes, env=env), *self._hosts_mount(pod, spec, own_ip)),
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
            groups=_groups(pod_security),
            target_container=target,
            privileged=bool(security.get("privileged")),
            add_capabilities=tuple(capabilities.get("add") or ()),
            drop_capabilities=tuple(capabilities.get("drop") or ()),
            seccomp=_seccomp(
                security.get("seccompProfile") or pod_security.get("seccompProfile"), self._paths.kubelet
            ),
            apparmor=_apparmor(security.get("appArmorProfile") or pod_security.get("appArmorProfile")),
            read_only_root=bool(security.get("readOnlyRootFilesystem")),
            no_new_privileges=security.get("allowPrivilegeEscalation") is False,
            resources=runtime_resources(spec),
            labels=labels(pod, spec["name"]),
        )

    def _hosts_mount(self, pod: Pod, spec: Container, ip: str) -> Sequence[Mount]:
        """The pod's /etc/hosts, unless the container brings one; containers of one pod share it."""
        if not (ip or pod["spec"].get("hostAliases")):
            return ()
        if any(mount["mountPath"] == hosts.PATH for mount in spec.get("volumeMounts") or ()):
            return ()
        file = self._paths.pod(pod["metadata"]["uid"]) / "etc-hosts"
        name = hostname(pod, self._node.name)
        file.parent.mkdir(parents=True, exist_ok=True)
        if not file.exists():
            of_host = "" if ip else Path(hosts.PATH).read_text()
            file.write_text(hosts.hosts_file(pod, ip=ip, hostname=name, of_host=of_host))
        return (Mount(source=str(file), target=hosts.PATH),)

    async def _sources(self, pod: Pod, spec: Container) -> environment.Sources:
        wanted = {(r.kind, r.name) for r in environment.references(spec)}

        async def get(kind: str, name: str) -> ConfigMap | Secret | None:
            namespace = pod["metadata"]["namespace"]
            try:
                if kind == "ConfigMap":
                    return await self._client.get(CONFIGMAPS, namespace, name)
                return await self._client.get(SECRETS, namespace, name)
            except NotFound:
                return None

        found = await asyncio.gather(*(get(kind, name) for kind, name in wanted))
        return dict(zip(wanted, found, strict=True))


def _seccomp(profile: SeccompProfile | None, kubelet: Path) -> str:
    kind = (profile or {}).get("type") or "Unconfined"
    if profile and kind == "Localhost":
        return str(kubelet / "seccomp" / (profile.get("localhostProfile") or ""))
    return "" if kind == "Unconfined" else kind


def _apparmor(profile: AppArmorProfile | None) -> str:
    kind = (profile or {}).get("type") or "RuntimeDefault"
    return (profile.get("localhostProfile") or "") if profile and kind == "Localhost" else ""


def runtime_resources(spec: Container) -> Resources:
    resources: ResourceRequirements = spec.get("resources") or {}
    return Resources(
        cpu_milli=_milli(resources.get("requests"), "cpu"),
        cpu_limit_milli=_milli(resources.get("limits"), "cpu"),
        memory_limit=_milli(resources.get("limits"), "memory") // 1000,
    )


def _groups(security: PodSecurityContext) -> tuple[int, ...]:
    owner = security.get("fsGroup")
    return (*(security.get("supplementalGroups") or ()), *(() if owner is None else (owner,)))


def _milli(amounts: Mapping[str, str] | None, resource: str) -> int:
    value = (amounts or {}).get(resource)
    return Quantity.parse(str(value)).milli_value() if value is not None else 0

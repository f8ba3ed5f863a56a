"""What the node agent expects of a container runtime.

The shape is CRI's: a sandbox per pod, containers in it, state that can be listed at any time (so that an agent that
was restarted finds what is running) and changes that are announced. Data is frozen; times are seconds since the
epoch.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Final, NamedTuple, Protocol


class RuntimeFailure(Exception):
    """The runtime could not do what it was asked to; ``reason`` is what a container's waiting state shows."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason
        self.message = message


@dataclass(frozen=True, kw_only=True, slots=True)
class Mount:
    """A path of the host in the container. ``sub_path`` is a path in ``source`` that a container may have changed: the
    runtime resolves it once and follows no link out of ``source``. ``kind`` and ``options`` are those of mount(8), for
    CDI's mounts."""

    source: str
    target: str
    sub_path: str = ""
    read_only: bool = False
    #: A volume's mountPropagation: HostToContainer or Bidirectional.
    propagation: str = ""
    kind: str = ""
    options: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class DeviceNode:
    """A device node in the container; taken from ``source`` on the host unless type and numbers are given."""

    target: str
    source: str
    kind: str = ""
    major: int | None = None
    minor: int | None = None
    mode: int | None = None
    permissions: str = ""
    uid: int | None = None
    gid: int | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Hook:
    """A program that the runtime runs at a stage of the container's life."""

    stage: str
    path: str
    args: tuple[str, ...] = ()
    env: tuple[str, ...] = ()
    timeout: int | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Edits:
    """What CDI devices change about a container."""

    env: tuple[tuple[str, str], ...] = ()
    mounts: tuple[Mount, ...] = ()
    devices: tuple[DeviceNode, ...] = ()
    hooks: tuple[Hook, ...] = ()
    gids: tuple[int, ...] = ()


class Resources(NamedTuple):
    """What a container gets of the host: thousandths of a CPU, bytes. Nothing is limited by 0."""

    cpu_milli: int = 0
    cpu_limit_milli: int = 0
    memory_limit: int = 0


class DNSConfig(NamedTuple):
    """How programs of a pod resolve names, as in ``resolv.conf``."""

    servers: tuple[str, ...] = ()
    searches: tuple[str, ...] = ()
    options: tuple[str, ...] = ()


#: Nothing is said about names.
NO_DNS: Final = DNSConfig()


class HostPort(NamedTuple):
    host: str
    host_port: int
    container_port: int


@dataclass(frozen=True, kw_only=True, slots=True)
class SandboxConfig:
    uid: str
    name: str
    namespace: str
    attempt: int = 0
    hostname: str = ""
    dns: DNSConfig = NO_DNS
    host_network: bool = False
    host_pid: bool = False
    host_ipc: bool = False
    #: The containers of the pod see one another's processes.
    shares_processes: bool = False
    #: Some container of the pod is privileged, which runtimes want to know beforehand.
    privileged: bool = False
    sysctls: Mapping[str, str] = field(default_factory=dict)
    #: Users of the pod are those of the host; otherwise it wants a user namespace.
    host_users: bool = True
    log_directory: Path = Path()
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    runtime_handler: str = ""
    #: Ports of the host (TCP) that lead to ports of the pod, if the pod has a network of its own.
    ports: tuple[HostPort, ...] = ()
    #: Where programs of the pod look for the API server, for runtimes that can bring them there.
    api_service: tuple[str, int] | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class ContainerConfig:
    """Everything about one attempt to run a container. ``edits`` are those of device plugins, and CDI's for runtimes that
    do not know CDI."""

    name: str
    image: str
    attempt: int = 0
    command: tuple[str, ...] = ()
    args: tuple[str, ...] = ()
    working_dir: str = ""
    env: tuple[tuple[str, str], ...] = ()
    mounts: tuple[Mount, ...] = ()
    cdi_devices: tuple[str, ...] = ()
    edits: Edits = Edits()
    log_path: Path = Path()
    #: A file of the host and where the container sees it, to leave a last message in; nowhere if that is empty.
    message_file: Path = Path()
    message_path: str = ""
    stdin: bool = False
    stdin_once: bool = False
    tty: bool = False
    user: int | None = None
    group: int | None = None
    groups: tuple[int, ...] = ()
    #: The container whose processes this one sees; by default it sees none but its own.
    target_container: str = ""
    privileged: bool = False
    add_capabilities: tuple[str, ...] = ()
    drop_capabilities: tuple[str, ...] = ()
    #: Security profiles: ``RuntimeDefault``, a file of the host (seccomp) or name (AppArmor), or nothing.
    seccomp: str = ""
    apparmor: str = ""
    read_only_root: bool = False
    no_new_privileges: bool = False
    resources: Resources = field(default_factory=Resources)
    labels: Mapping[str, str] = field(default_factory=dict)


class State(Enum):
    CREATED = "created"
    RUNNING = "running"
    EXITED = "exited"
    UNKNOWN = "unknown"


@dataclass(frozen=True, kw_only=True, slots=True)
class ContainerStatus:
    id: str
    sandbox: str
    pod_uid: str
    name: str
    attempt: int = 0
    state: State = State.CREATED
    image: str = ""
    image_id: str = ""
    created_at: float = 0.0
    started_at: float = 0.0
    finished_at: float = 0.0
    exit_code: int = 0
    signal: int = 0
    reason: str = ""
    message: str = ""
    log_path: Path = Path()


@dataclass(frozen=True, kw_only=True, slots=True)
class SandboxStatus:
    id: str
    pod_uid: str
    name: str
    namespace: str
    attempt: int = 0
    ready: bool = True
    #: Empty for pods that share the network of the host.
    ip: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, config: SandboxConfig, *, id: str, ip: str) -> SandboxStatus:
        return cls(
            id=id, pod_uid=config.uid, name=config.name, namespace=config.namespace, attempt=config.attempt, ip=ip,
            labels=config.labels,
        )  # fmt: skip


class Listing(NamedTuple):
    """Everything a runtime has, at one moment."""

    sandboxes: Sequence[SandboxStatus]
    containers: Sequence[ContainerStatus]


class Output(NamedTuple):
    """A piece of output of a running command."""

    stream: str  # stdout or stderr
    data: bytes


class ExecResult(NamedTuple):
    exit_code: int
    stdout: bytes
    stderr: bytes


class Usage(NamedTuple):
    """What a container has used."""

    cpu_seconds: float
    memory: int  # bytes


class Session(Protocol):
    """A command that runs in a container, and the near ends of its input and output."""

    def output(self) -> AsyncIterator[Output]:
        """What the command says, until it ends or closes its output."""

    async def write(self, data: bytes) -> None: ...

    async def close_input(self) -> None: ...

    async def resize(self, *, rows: int, columns: int) -> None: ...

    async def wait(self) -> int:
        """The exit code."""

    async def close(self) -> None:
        """Ends the session; a command that still runs is killed."""


class PortConnection(Protocol):
    """A connection to a port of a pod."""

    def received(self) -> AsyncIterator[bytes]:
        """What the pod sends, until it ends its side. Raises OSError if the connection breaks."""

    async def send(self, data: bytes) -> None: ...

    async def end(self) -> None:
        """Says that nothing more will be sent."""

    async def close(self) -> None: ...


@dataclass(frozen=True, kw_only=True, slots=True)
class Capabilities:
    """What a runtime can do. The node agent builds its parts accordingly, once, when it starts."""

    #: The runtime resolves CDI devices itself; otherwise the agent tells it what their specs say.
    resolves_cdi: bool
    #: Containers see files of the host: volumes, logs and termination messages.
    mounts_host_files: bool = True
    #: Programs run in containers, so that there is something to probe and to tell about in events.
    runs_programs: bool = True
    #: Pods with a network of their own reach the API server by the address of its Service.
    forwards_api_service: bool = False
    #: Containers have the files of their image; otherwise those of the host, and an image is but a name.
    uses_images: bool = True


class Runtime(Protocol):
    """Runs the containers of one node, or of several."""

    #: As in ``containerStatuses[].containerID``: ``<name>://<id>``.
    name: str
    version: str
    capabilities: Capabilities

    async def start(self) -> None: ...

    async def close(self, *, keep: bool) -> None:
        """Lets go of the runtime. Containers go on running if ``keep`` says so and the runtime can."""

    async def node_address(self, number: int) -> str:
        """An address by which pods reach this host, another one for each of its nodes; empty if the runtime has none to
        give."""

    async def list(self) -> Listing: ...

    def container_events(self) -> AsyncIterator[ContainerStatus]:
        """Containers whose state has changed, from the time of the call on."""

    async def run_sandbox(self, config: SandboxConfig) -> SandboxStatus: ...

    async def remove_sandbox(self, sandbox: str) -> None:
        """Ends whatever still runs in it and forgets it; a sandbox that is not there is no error."""

    async def ensure_image(self, image: str, *, policy: str) -> str:
        """Makes the image available and returns its id."""

    async def create_container(self, sandbox: str, config: ContainerConfig) -> ContainerStatus: ...

    async def start_container(self, container: str) -> ContainerStatus: ...

    async def update_resources(self, container: str, resources: Resources) -> None:
        """Gives a running container other resources, as far as the runtime enforces any."""

    async def usage(self) -> Mapping[str, Usage]:
        """What running containers have used, by their ids, as far as the runtime knows."""

    async def stop_container(self, container: str, *, grace: float) -> None:
        """Asks it to end, and kills it after ``grace`` seconds. Returns when it has ended."""

    async def remove_container(self, container: str) -> None: ...

    async def exec_sync(self, container: str, command: Sequence[str], *, timeout: float) -> ExecResult:
        """Runs a command to its end; TimeoutError if it does not come."""

    async def exec(self, container: str, command: Sequence[str], *, tty: bool, stdin: bool) -> Session: ...

    async def attach(self, container: str, *, tty: bool, stdin: bool) -> Session: ...

    async def port_forward(self, sandbox: str, port: int) -> PortConnection:
        """Connects to a port on which something in the pod listens."""

"""What the node agent and the supervisor send one another, as types. They exist for the type checker alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypedDict


class Mount(TypedDict):
    source: str
    sub_path: str
    target: str
    read_only: bool
    kind: str
    options: Sequence[str]
    #: Of the pod: in its user namespace, if it has one, files keep the numbers of their owners.
    of_pod: bool


class DeviceNode(TypedDict):
    target: str
    source: str
    kind: str
    major: int | None
    minor: int | None
    mode: int | None
    permissions: str
    uid: int | None
    gid: int | None


class Hook(TypedDict):
    stage: str
    path: str
    args: Sequence[str]
    env: Sequence[str]
    timeout: int | None


class Container(TypedDict):
    """All that the supervisor needs to know about one container. It ignores other fields of the configuration."""

    id: str
    argv: list[str]
    env: Mapping[str, str]
    hostname: str
    working_dir: str
    mounts: Sequence[Mount]
    devices: Sequence[DeviceNode]
    hooks: Sequence[Hook]
    user: int | None
    group: int | None
    groups: Sequence[int]
    #: The host's user that is root of the pod, 0 without a user namespace.
    first_user: int
    #: The container whose processes this one sees, or nothing.
    target: str
    privileged: bool
    dropped_capabilities: Sequence[int]
    seccomp: bool
    read_only_root: bool
    no_new_privileges: bool
    stdin: bool
    stdin_once: bool
    tty: bool
    log_path: str
    labels: Labels


class Labels(TypedDict):
    """Whose container it is: kept for an agent that was restarted."""

    sandbox: str
    pod_uid: str
    name: str
    attempt: str
    image: str


class ContainerStatus(TypedDict):
    id: str
    state: str
    labels: Labels
    created_at: float
    started_at: float
    finished_at: float
    exit_code: int
    signal: int
    message: str
    log_path: str


class Sandbox(TypedDict):
    id: str
    pod_uid: str
    name: str
    namespace: str
    attempt: int
    ready: bool
    ip: str
    labels: Mapping[str, str]
    hostname: str
    host_network: bool
    host_users: bool
    #: Addresses and ports of the host, and the ports of the pod that they lead to.
    ports: Sequence[tuple[str, int, int]]
    #: Where programs of the pod look for the API server.
    service: tuple[str, int] | None
    #: The host's user that is root of the pod, 0 without a user namespace.
    first_user: int
    #: Descriptors of the supervisor: the pod's user and network namespaces, and the listener in it for the API server; or
    #: -1.
    users: int
    network: int
    listener: int


class Reply(TypedDict, total=False):
    """The answer to a request, or (``changed``) the message that a container has ended. Each has some of the fields."""

    reply: int
    error: str
    mode: str
    pid: int
    address: str
    sandbox: Sandbox
    sandboxes: Sequence[Sandbox]
    containers: Sequence[ContainerStatus]
    container: ContainerStatus
    changed: ContainerStatus
    exited: int
    usage: Mapping[str, tuple[float, int]]


class Becoming(TypedDict):
    """What a spare is told: the container that it becomes, and which of its descriptors come along."""

    config: Container
    stdio: Sequence[bool]
    network: bool


class StartReport(TypedDict, total=False):
    """What a child says on its way to the container's command."""

    pid: int
    error: str

"""The node agent's side of the supervisor: starts it, sends it requests, finds it again after a crash."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import secrets
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import asdict, replace
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from dray.runtimes.interface import (
    Capabilities,
    ContainerConfig,
    ContainerStatus,
    ExecResult,
    Listing,
    Mount,
    PortConnection,
    Resources,
    RuntimeFailure,
    SandboxConfig,
    SandboxStatus,
    Session,
    State,
    Usage,
)
from dray.runtimes.pleg import LifecycleEvents
from dray.runtimes.portforward import TcpConnection
from dray.runtimes.process import seccomp
from dray.runtimes.process.capabilities import dropped
from dray.runtimes.process.pod_sockets import Forwarder, Target, borrow, connect_inside, host_listener
from dray.runtimes.process.session import AttachedSession, CommandSession
from dray.wire.unix import SocketPath

if TYPE_CHECKING:
    from dray.runtimes.process import protocol

#: Seconds that containers outlive an agent that is gone.
ORPHAN_GRACE = 120.0

_START = "import sys; sys.path.insert(0, sys.argv.pop(1)); from dray.runtimes.process.supervisor import main; main()"
_IDLE = ("sleep", "infinity")
#: What is kept of each output of a command that is run to its end: probes and hooks need no more.
MAX_EXEC_OUTPUT_BYTES = 64 << 10
#: A list of thousands of containers is one message.
_MAX_MESSAGE_BYTES = 64 << 20


class ProcessRuntime:
    """Containers as children of a supervisor that keeps its state below ``directory``."""

    name = "process"
    version = "1"
    capabilities = Capabilities(resolves_cdi=False, uses_images=False, forwards_api_service=True)

    def __init__(
        self,
        directory: Path,
        *,
        hidden: Sequence[Path] = (),
        orphan_grace: float = ORPHAN_GRACE,
        modes: Sequence[str] = ("root", "user"),
        pod_network: bool = True,
        api_server: tuple[str, int] | None = None,
    ) -> None:
        """``hidden`` are directories that containers do not see, besides ``directory`` itself. ``modes``: the ways to
        keep containers apart that are tried, before giving that up (``plain``). ``pod_network``: pods have network
        namespaces of their own where the host allows it; ``api_server`` is what they reach by its Service."""
        self.directory = directory
        self._hidden = (directory, *hidden)
        self._modes = tuple(modes)
        self.mode = ""  # how containers are kept apart: root, user or plain
        self.supervisor_pid = 0
        self._orphan_grace = orphan_grace
        self._numbers = count(1)
        self._replies: dict[int, asyncio.Future[protocol.Reply]] = {}
        self._lifecycle_events = LifecycleEvents()
        self._sandboxes: dict[str, SandboxStatus] = {}
        self._kept: dict[str, protocol.Sandbox] = {}  # sandboxes as the supervisor keeps them
        self._pod_network = pod_network
        self._api_server = Target(*api_server) if api_server else None
        self._forwarder = Forwarder()
        self._running: dict[str, ContainerStatus] = {}
        self._writer: asyncio.StreamWriter | None = None
        self._reading: asyncio.Task[None] | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._starting = asyncio.Lock()
        self._closed = False
        self._path = default_path()

    @property
    def socket_path(self) -> Path:
        return self.directory / "supervisor.sock"

    async def start(self) -> None:
        self.directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        connection = self._connect()
        try:
            hello = await self._greet(connection or self._launch())
        except RuntimeFailure:
            if connection is None:
                raise
            hello = await self._greet(self._launch())  # the one that was there was about to leave
        self.mode, self.supervisor_pid = hello["mode"], hello["pid"]
        there = await self._ask("list")
        lost = {**self._kept}
        for kept in there["sandboxes"]:
            lost.pop(kept["id"], None)
            with contextlib.suppress(
                RuntimeFailure
            ):  # another program has a host port now; the pod goes on without
                await self._keep(kept)
        for kept in lost.values():  # of a supervisor that was killed: their pods are still there
            with contextlib.suppress(RuntimeFailure):
                await self._keep((await self._ask("sandbox", sandbox=kept))["sandbox"])
        for container in map(_status, there["containers"]):
            self._note(container)

    async def _greet(self, connection: socket.socket) -> protocol.Reply:
        reader, self._writer = await asyncio.open_unix_connection(sock=connection, limit=_MAX_MESSAGE_BYTES)
        self._reading = asyncio.create_task(self._read(reader))
        return await self._ask("hello")

    async def _keep(self, kept: protocol.Sandbox) -> SandboxStatus:
        self._kept[kept["id"]] = kept
        status = self._sandboxes[kept["id"]] = SandboxStatus(
            id=kept["id"],
            pod_uid=kept["pod_uid"],
            name=kept["name"],
            namespace=kept["namespace"],
            attempt=kept["attempt"],
            ready=kept["ready"],
            ip=kept["ip"],
            labels=kept["labels"],
        )
        if not self._forwarder.serves(kept["id"]):
            await self._forward(kept)
        return status

    async def _forward(self, kept: protocol.Sandbox) -> None:
        """Connects the pod's namespace with the API server, and ports of the host with it."""
        if self._api_server and kept["listener"] >= 0:
            listener = socket.socket(fileno=borrow(self.supervisor_pid, kept["listener"]))
            await self._forwarder.open(kept["id"], listener, self._api_server)
        for host, port, inside in kept["ports"] if kept["ip"] else ():
            await self._forwarder.open(kept["id"], host_listener(host, port), Target(kept["ip"], inside))

    async def close(self, *, keep: bool) -> None:
        self._closed = True
        self._forwarder.close_all()
        if self._writer is None:
            return
        if not keep:
            with contextlib.suppress(RuntimeFailure):
                await self._ask("shutdown")
        if self._writer is not None:
            self._writer.close()
        if self._reading:
            self._reading.cancel()
            await asyncio.gather(self._reading, return_exceptions=True)
        if self._process and not keep:
            await asyncio.to_thread(self._process.wait)

    async def list(self) -> Listing:
        containers = [_status(c) for c in (await self._ask("list"))["containers"]]
        return Listing(list(self._sandboxes.values()), containers)

    def container_events(self) -> AsyncIterator[ContainerStatus]:
        return self._lifecycle_events.subscribe()

    async def run_sandbox(self, config: SandboxConfig) -> SandboxStatus:
        if not config.host_users and self.mode == "plain":
            text = "this host allows the process runtime no user namespaces (hostUsers: false)"
            raise RuntimeFailure("CreatePodSandboxError", text)
        status = SandboxStatus.of(config, id=f"{config.uid}-{config.attempt}", ip="")
        wanted = {
            **asdict(status),
            "hostname": config.hostname,
            "host_network": config.host_network,
            "host_users": config.host_users,
            "ports": config.ports,
            "service": config.api_service if self._api_server else None,
        }
        reply = await self._ask("sandbox", sandbox=wanted)
        try:
            return await self._keep(reply["sandbox"])
        except RuntimeFailure:
            await self.remove_sandbox(status.id)
            raise

    async def node_address(self, number: int) -> str:
        return (await self._ask("node_address", number=number))["address"]

    async def remove_sandbox(self, sandbox: str) -> None:
        for container in (await self.list()).containers:
            if container.sandbox == sandbox:
                await self.remove_container(container.id)
        await self._ask("remove_sandbox", id=sandbox)
        self._sandboxes.pop(sandbox, None)
        self._kept.pop(sandbox, None)
        self._forwarder.close(sandbox)

    async def ensure_image(self, image: str, *, policy: str) -> str:
        return image

    async def create_container(self, sandbox: str, config: ContainerConfig) -> ContainerStatus:
        pod, kept = self._sandboxes[sandbox], self._kept[sandbox]
        hostname = kept["hostname"]
        edits = config.edits
        environment = {"PATH": self._path, "HOSTNAME": hostname, **dict(config.env), **dict(edits.env)}
        of_pod = (*config.mounts, *self._message_mount(config))
        wanted: protocol.Container = {
            "id": f"{pod.pod_uid[:8]}-{config.name}-{config.attempt}-{secrets.token_hex(4)}",
            "argv": [*config.command, *config.args] if config.command else list(_IDLE),
            "env": environment,
            "hostname": hostname,
            "working_dir": config.working_dir,
            "mounts": [
                cast("protocol.Mount", {**asdict(mount), "of_pod": own})
                for mounts, own in ((of_pod, True), (edits.mounts, False))
                for mount in mounts
            ],
            "devices": [cast("protocol.DeviceNode", asdict(device)) for device in edits.devices],
            "hooks": [cast("protocol.Hook", asdict(hook)) for hook in edits.hooks],
            "user": config.user,
            "group": config.group,
            "groups": [*config.groups, *edits.gids],
            "first_user": kept["first_user"],
            "target": config.target_container,
            "privileged": config.privileged,
            "dropped_capabilities": dropped(
                privileged=config.privileged, add=config.add_capabilities, drop=config.drop_capabilities
            ),
            "seccomp": self._seccomp(config),
            "read_only_root": config.read_only_root,
            "no_new_privileges": config.no_new_privileges,
            "stdin": config.stdin,
            "stdin_once": config.stdin_once,
            "tty": config.tty,
            "log_path": str(config.log_path),
            "labels": {
                "sandbox": sandbox,
                "pod_uid": pod.pod_uid,
                "name": config.name,
                "attempt": str(config.attempt),
                "image": config.image,
            },
        }
        return _status((await self._ask("create", config=wanted))["container"])

    def _seccomp(self, config: ContainerConfig) -> bool:
        """Whether the container is under the default profile. What a pod wants and cannot have is refused, not ignored."""
        if config.apparmor:
            raise RuntimeFailure("CreateContainerError", "the process runtime applies no AppArmor profiles")
        if not config.seccomp or config.privileged:
            return False
        if config.seccomp != "RuntimeDefault":
            text = f"the process runtime applies its default seccomp profile only, not {config.seccomp}"
            raise RuntimeFailure("CreateContainerError", text)
        if not seccomp.is_supported() or self.mode == "plain":
            raise RuntimeFailure("CreateContainerError", "this host allows the process runtime no seccomp")
        return True

    def _message_mount(self, config: ContainerConfig) -> Sequence[Mount]:
        if not config.message_path or self.mode == "plain":
            return ()
        return (Mount(source=str(config.message_file), target=config.message_path),)

    async def start_container(self, container: str) -> ContainerStatus:
        status = _status((await self._ask("start", id=container, failure="StartError"))["container"])
        self._note(status)
        return status

    async def update_resources(self, container: str, resources: Resources) -> None:
        return  # none are enforced

    async def usage(self) -> Mapping[str, Usage]:
        found = (await self._ask("usage"))["usage"]
        return {id: Usage(cpu_seconds=cpu, memory=memory) for id, (cpu, memory) in found.items()}

    async def stop_container(self, container: str, *, grace: float) -> None:
        await self._ask("stop", id=container, grace=grace)

    async def remove_container(self, container: str) -> None:
        await self._ask("remove", id=container)

    async def exec_sync(self, container: str, command: Sequence[str], *, timeout: float) -> ExecResult:
        said = {"stdout": bytearray(), "stderr": bytearray()}
        async with asyncio.timeout(timeout):
            session = await self.exec(container, command, tty=False, stdin=False)
            try:
                async for piece in session.output():
                    kept = said[piece.stream]
                    kept += piece.data[: MAX_EXEC_OUTPUT_BYTES - len(kept)]
                code = await session.wait()
            finally:
                await session.close()
        return ExecResult(code, bytes(said["stdout"]), bytes(said["stderr"]))

    async def exec(self, container: str, command: Sequence[str], *, tty: bool, stdin: bool) -> Session:
        connection = self._connect()
        if connection is None:
            raise RuntimeFailure("RuntimeGone", "the supervisor of the containers is gone")
        process = (await self._ask("process", id=container))["pid"] if tty else 0
        return await CommandSession.open(connection, container, command, process=process, stdin=stdin)

    async def attach(self, container: str, *, tty: bool, stdin: bool) -> Session:
        connection = self._connect()
        if connection is None:
            raise RuntimeFailure("RuntimeGone", "the supervisor of the containers is gone")
        return await AttachedSession.open(connection, container, tty=tty, stdin=stdin)

    async def port_forward(self, sandbox: str, port: int) -> PortConnection:
        network = self._kept[sandbox]["network"] if sandbox in self._kept else -1
        if network < 0:  # the host's
            return await TcpConnection.open("127.0.0.1", port)
        connection = await connect_inside(self.supervisor_pid, network, port)
        return TcpConnection(*await asyncio.open_connection(sock=connection))

    def _connect(self) -> socket.socket | None:
        connection = socket.socket(socket.AF_UNIX)
        with SocketPath(self.socket_path) as address:
            try:
                connection.connect(address.short)
            except OSError:
                connection.close()
                return None
        return connection

    def _launch(self) -> socket.socket:
        """Starts a supervisor on a socket that is open already, so that there is nothing to wait for."""
        self.socket_path.unlink(missing_ok=True)
        with socket.socket(socket.AF_UNIX) as listener, SocketPath(self.socket_path) as address:
            listener.bind(address.short)
            self.socket_path.chmod(0o600)
            listener.listen(64)
            source = Path(__file__).resolve().parents[3]
            scratch = self.directory / "scratch"
            with (self.directory / "supervisor.log").open("ab") as log:
                self._process = subprocess.Popen(
                    [
                        *(sys.executable, "-I", "-S", "-c", _START, str(source)),
                        *(
                            str(listener.fileno()),
                            str(scratch),
                            str(self._orphan_grace),
                            ",".join(self._modes),
                            json.dumps([str(path.resolve()) for path in self._hidden]),
                            "network" if self._pod_network else "",
                        ),
                    ],
                    pass_fds=[listener.fileno()],
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    start_new_session=True,
                    env={"PATH": os.environ.get("PATH", os.defpath)},
                )
        connection = self._connect()
        if connection is None:
            raise RuntimeFailure("RuntimeGone", "the supervisor of the containers did not start")
        return connection

    async def _ask(self, what: str, *, failure: str = "RuntimeError", **arguments: Any) -> protocol.Reply:
        if self._writer is None:
            await self._start_again()
        assert self._writer is not None
        number = next(self._numbers)
        reply: asyncio.Future[protocol.Reply] = asyncio.get_running_loop().create_future()
        self._replies[number] = reply
        self._writer.write(json.dumps({"request": number, "do": what, **arguments}).encode() + b"\n")
        result = await reply
        if "error" in result:
            raise RuntimeFailure(failure, result["error"])
        return result

    async def _read(self, reader: asyncio.StreamReader) -> None:
        try:
            while line := await reader.readline():
                message: protocol.Reply = json.loads(line)
                if "changed" in message:
                    self._tell(_status(message["changed"]))
                elif (reply := self._replies.pop(message["reply"], None)) and not reply.done():
                    reply.set_result(message)
        except ConnectionResetError:
            pass
        finally:
            for reply in self._replies.values():
                if not reply.done():
                    reply.set_result({"error": "the supervisor of the containers is gone"})
            self._replies.clear()
            self._writer = None
            if not self._closed:
                self._lost_all()

    async def _start_again(self) -> None:
        """A supervisor that was killed took its containers along; another one serves those to come."""
        async with self._starting:
            if self._closed:
                raise RuntimeFailure("RuntimeGone", "the supervisor of the containers is gone")
            if self._writer is None:
                await self.start()

    def _lost_all(self) -> None:
        now = time.time()
        for status in list(self._running.values()):
            gone = "the supervisor of the containers was killed"
            self._tell(
                replace(
                    status,
                    state=State.EXITED,
                    exit_code=137,
                    finished_at=now,
                    reason="ContainerStatusUnknown",
                    message=gone,
                )
            )

    def _tell(self, status: ContainerStatus) -> None:
        self._note(status)
        self._lifecycle_events.publish(status)

    def _note(self, status: ContainerStatus) -> None:
        if status.state is State.RUNNING:
            self._running[status.id] = status
        else:
            self._running.pop(status.id, None)


def default_path() -> str:
    """Where commands are found: beside this Python first, so that ``dray`` itself can run in a container."""
    own = str(Path(sys.executable).parent)
    return ":".join([own, "/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin"])


def _status(c: protocol.ContainerStatus) -> ContainerStatus:
    labels = c["labels"]
    state = State(c["state"])
    return ContainerStatus(
        id=c["id"],
        sandbox=labels["sandbox"],
        pod_uid=labels["pod_uid"],
        name=labels["name"],
        attempt=int(labels["attempt"]),
        state=state,
        image=labels["image"],
        image_id=labels["image"],
        created_at=c["created_at"],
        started_at=c["started_at"],
        finished_at=c["finished_at"],
        exit_code=c["exit_code"],
        signal=c["signal"],
        reason=("Completed" if c["exit_code"] == 0 else "Error") if state is State.EXITED else "",
        message=c["message"],
        log_path=Path(c["log_path"]),
    )

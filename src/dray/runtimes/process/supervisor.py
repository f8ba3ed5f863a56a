"""The process that containers are children of. It starts them, writes their logs and reports how they ended.

The agent and the supervisor send one JSON object a line over a unix socket; file descriptors for interactive sessions come
along with the request. The agent may crash and come back: containers stay. If no agent comes back within the grace
period, the supervisor ends them, so that nothing is left behind on the host.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import selectors
import signal
import socket
import struct
import sys
import termios
import time
import traceback
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, cast

from dray.runtimes.process import isolation, usage, users
from dray.runtimes.process.children import Child, Spawner
from dray.runtimes.process.logfile import LogFile
from dray.runtimes.process.stdio import Attachment, Input

if TYPE_CHECKING:
    from dray.runtimes.process import protocol
    from dray.runtimes.process.network import PodNetwork

_CHUNK = 64 * 1024
#: Seconds for which a spare for the next container is kept ready, and the pause that the last one gets to start in.
_SPARE_SECONDS = 60.0
_SPARE_PAUSE = 0.005


class Container:
    def __init__(self, config: protocol.Container) -> None:
        self.config = config
        self.id: str = config["id"]
        self.child: Child | None = None
        self.log: LogFile | None = None
        self.state = "created"
        self.created_at = time.time()
        self.started_at = 0.0
        self.finished_at = 0.0
        self.message = ""
        self.input: Input | None = None
        self.terminal: int | None = None
        self.open_streams = 0
        self.output_given_up = False
        self.watchers: list[Attachment] = []
        self.waiting: list[Callable[[], None]] = []

    def status(self) -> protocol.ContainerStatus:
        child = self.child
        return {
            "id": self.id,
            "state": self.state,
            "labels": self.config["labels"],
            "created_at": self.created_at,
            "started_at": self.started_at,
            "finished_at": self.finished_at,
            "exit_code": child.exit_code if child else 0,
            "signal": child.signal if child else 0,
            "message": self.message,
            "log_path": self.config["log_path"],
        }


class Client:
    """A connection: the agent's, or one that was opened for a single session."""

    def __init__(self, connection: socket.socket) -> None:
        self.socket = connection
        self.buffer = b""
        self.handles: list[int] = []
        self.session: Child | None = None
        self.watching: tuple[Container, Attachment] | None = None

    def send(self, message: protocol.Reply) -> None:
        with contextlib.suppress(OSError):
            self.socket.sendall(json.dumps(message).encode() + b"\n")


class Supervisor:
    def __init__(
        self,
        listener: socket.socket,
        spawner: Spawner,
        *,
        orphan_grace: float,
        network: PodNetwork | None = None,
    ) -> None:
        """Without a ``network`` all pods share that of the host."""
        self.listener = listener
        self.spawner = spawner
        self.network = network
        self.orphan_grace = orphan_grace
        self.sandboxes: dict[str, protocol.Sandbox] = {}
        self.containers: dict[str, Container] = {}
        self.clients: set[Client] = set()
        self.timers: list[tuple[float, Callable[[], None]]] = []
        self.alone_since: float | None = time.monotonic()
        self.selector = selectors.DefaultSelector()
        self.selector.register(listener, selectors.EVENT_READ, self._accept)
        self.running = True
        self._spare_until = 0.0

    def run(self) -> None:
        while self.running:
            for key, _ in self.selector.select(self._patience()):
                self._do(key.data, key.fileobj)
            now = time.monotonic()
            for when, action in list(self.timers):
                if when <= now:
                    self.timers.remove((when, action))
                    self._do(action)
            if self.alone_since is not None and now - self.alone_since > self.orphan_grace:
                break
        for container in self.containers.values():
            if container.child:
                container.child.kill(signal.SIGKILL)
        if self.network:
            self.network.close()

    @staticmethod
    def _do(action: Callable[..., None], *arguments: Any) -> None:
        """A mistake here must not take all containers along."""
        try:
            action(*arguments)
        except Exception:
            traceback.print_exc()

    def _patience(self) -> float | None:
        moments = [when for when, _ in self.timers]
        if self.alone_since is not None:
            moments.append(self.alone_since + self.orphan_grace)
        return max(0.0, min(moments) - time.monotonic()) + 0.001 if moments else None

    # Connections

    def _accept(self, listener: Any) -> None:
        connection, _ = listener.accept()
        connection.set_inheritable(False)
        client = Client(connection)
        self.clients.add(client)
        self.alone_since = None
        self.selector.register(connection, selectors.EVENT_READ, lambda _: self._receive(client))

    def _receive(self, client: Client) -> None:
        try:
            data, handles, _, _ = socket.recv_fds(client.socket, _CHUNK, 8)
        except OSError:
            data, handles = b"", []
        if not data:
            self._drop(client)
            return
        for handle in handles:
            os.set_inheritable(handle, False)
        client.handles += handles
        client.buffer += data
        while b"\n" in client.buffer:
            line, client.buffer = client.buffer.split(b"\n", 1)
            self._handle(client, json.loads(line))

    def _drop(self, client: Client) -> None:
        self.selector.unregister(client.socket)
        client.socket.close()
        self.clients.discard(client)
        for handle in client.handles:
            os.close(handle)
        if client.session:  # the agent's side of the command is gone
            client.session.kill(signal.SIGKILL)
        if client.watching:
            self._dismiss(*client.watching)
        if not self.clients:
            self.alone_since = time.monotonic()

    def _handle(self, client: Client, request: dict[str, Any]) -> None:
        number = request.pop("request")
        handles, client.handles = client.handles, []

        def reply(**result: Any) -> None:
            client.send(cast("protocol.Reply", {"reply": number, **result}))

        try:
            getattr(self, f"do_{request.pop('do')}")(client, handles, reply, **request)
        except Exception as e:
            if not isinstance(e, isolation.SetupFailed | OSError | KeyError):
                traceback.print_exc()
            for handle in handles:
                with contextlib.suppress(OSError):
                    os.close(handle)
            reply(error=str(e) or repr(e))

    def _announce(self, container: Container) -> None:
        for client in self.clients:
            if client.session is None and client.watching is None:
                client.send({"changed": container.status()})

    # Requests

    def do_hello(self, client: Client, handles: list[int], reply: Any) -> None:
        reply(mode=self.spawner.mode, pid=os.getpid())

    def do_list(self, client: Client, handles: list[int], reply: Any) -> None:
        reply(
            sandboxes=list(self.sandboxes.values()), containers=[c.status() for c in self.containers.values()]
        )

    def do_node_address(self, client: Client, handles: list[int], reply: Any, number: int) -> None:
        reply(address=self.network.add_node(number) if self.network else "")

    def do_sandbox(self, client: Client, handles: list[int], reply: Any, sandbox: protocol.Sandbox) -> None:
        """Sandboxes are no processes here, at most namespaces; they are kept for agents that come back."""
        self._forget_sandbox(sandbox["id"])
        sandbox["users"] = sandbox["network"] = sandbox["listener"] = -1
        sandbox["first_user"] = 0
        try:
            self._make_namespaces(sandbox)
        except BaseException:
            _close_handles(sandbox)
            raise
        self.sandboxes[sandbox["id"]] = sandbox
        reply(sandbox=sandbox)

    def _make_namespaces(self, sandbox: protocol.Sandbox) -> None:
        network = self.network if not sandbox["host_network"] else None
        others = self.sandboxes.values()
        if not sandbox["host_users"] and self.spawner.mode == "root":
            made = users.make([other["first_user"] for other in others], network=network is not None)
            sandbox["first_user"], sandbox["users"], sandbox["network"] = made
        if network:
            sandbox["ip"], sandbox["network"] = network.attach(
                [other["ip"] for other in others], wanted=sandbox["ip"], namespace=sandbox["network"]
            )
            if sandbox["service"]:
                listener = network.listen_inside(sandbox["network"], *sandbox["service"])
                sandbox["listener"] = listener.detach()
            self.timers.append((time.monotonic() + _SPARE_PAUSE, self._prepare_network))

    def _prepare_network(self) -> None:
        if self.network:
            self.network.prepare_spare([sandbox["ip"] for sandbox in self.sandboxes.values()])

    def do_remove_sandbox(self, client: Client, handles: list[int], reply: Any, id: str) -> None:
        self._forget_sandbox(id)
        reply()

    def _forget_sandbox(self, id: str) -> None:
        if sandbox := self.sandboxes.pop(id, None):
            _close_handles(sandbox)

    def do_create(self, client: Client, handles: list[int], reply: Any, config: protocol.Container) -> None:
        container = Container(config)
        self.containers[container.id] = container
        reply(container=container.status())

    def do_start(self, client: Client, handles: list[int], reply: Any, id: str) -> None:
        container = self.containers[id]
        if container.child:
            reply(container=container.status())
            return
        container.log = LogFile(container.config["log_path"])
        self._spawn(container, reply)

    def do_process(self, client: Client, handles: list[int], reply: Any, id: str) -> None:
        child = self.containers[id].child
        reply(pid=child.target if child else 0)

    def do_usage(self, client: Client, handles: list[int], reply: Any) -> None:
        pids = {c.id: c.child.target for c in self.containers.values() if c.child and c.state == "running"}
        reply(usage=usage.of_trees(pids))

    def do_stop(self, client: Client, handles: list[int], reply: Any, id: str, grace: float) -> None:
        container = self.containers.get(id)
        if container is None or container.state != "running" or container.child is None:
            reply()
            return
        container.waiting.append(reply)
        child = container.child
        if grace <= 0 or not self.spawner.handles_sigterm(child):
            child.kill(signal.SIGKILL)
            return
        child.kill(signal.SIGTERM)
        self.timers.append((time.monotonic() + grace, lambda: child.kill(signal.SIGKILL)))

    def do_remove(self, client: Client, handles: list[int], reply: Any, id: str) -> None:
        """Answers when the process is really gone: another container may get its devices next."""
        container = self.containers.get(id)
        if container is None or container.child is None or container.child.ended:
            self.containers.pop(id, None)
            reply()
            return

        def gone() -> None:
            self.containers.pop(id, None)
            reply()

        container.waiting.append(gone)
        container.child.kill(signal.SIGKILL)

    def do_exec(
        self, client: Client, handles: list[int], reply: Any, id: str, argv: list[str], tty: bool
    ) -> None:
        """Runs a command in a container; its input and output are the descriptors that came with the request."""
        container = self.containers[id]
        if container.child is None or container.state != "running":
            raise isolation.SetupFailed("the container is not running")
        config: protocol.Container = {**container.config, "argv": argv}
        report_pipe = os.pipe2(os.O_CLOEXEC)
        try:
            child = self.spawner.spawn_inside(container.child.target, config, handles, report_pipe, tty=tty)
        except BaseException:
            for handle in report_pipe:
                os.close(handle)
            raise
        client.session = child
        told = bytearray()

        def ended(_: Any) -> None:
            self.selector.unregister(child.handle)
            child.reap()
            if not told:
                client.send({"exited": child.exit_code})

        def report_arrived(_: Any) -> None:
            data = os.read(report_pipe[0], _CHUNK)
            told.extend(data)
            if data:
                return
            self.selector.unregister(report_pipe[0])
            os.close(report_pipe[0])
            if told:
                reply(error=told.decode(errors="replace"))
            else:
                reply()
            self.selector.register(child.handle, selectors.EVENT_READ, ended)

        # The container can stop the process before it runs the command: nobody else may wait for it.
        self.selector.register(report_pipe[0], selectors.EVENT_READ, report_arrived)

    def do_attach(self, client: Client, handles: list[int], reply: Any, id: str) -> None:
        """Connects descriptors to a running container: (stdin or none), stdout, stderr."""
        container = self.containers[id]
        watcher = Attachment(dict(zip(("stdout", "stderr"), handles, strict=False)))
        container.watchers.append(watcher)
        client.watching = container, watcher
        reply()

    def _dismiss(self, container: Container, watcher: Attachment) -> None:
        watcher.close()
        if watcher in container.watchers:
            container.watchers.remove(watcher)

    def do_input(self, client: Client, handles: list[int], reply: Any, id: str, data: str, end: bool) -> None:
        container = self.containers[id]
        if container.input is None:
            raise isolation.SetupFailed("the container has no standard input")
        container.input.write(bytes.fromhex(data), reply)
        if end and container.terminal is None and container.config["stdin_once"]:
            container.input.end()  # otherwise it stays open for the next session

    def do_resize(
        self, client: Client, handles: list[int], reply: Any, id: str, rows: int, columns: int
    ) -> None:
        container = self.containers[id]
        if container.terminal is not None:
            fcntl.ioctl(container.terminal, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        reply()

    def do_shutdown(self, client: Client, handles: list[int], reply: Any) -> None:
        self.listener.close()  # an agent that comes now must start another supervisor
        reply()
        self.running = False

    # Processes

    def _spawn(self, container: Container, reply: Any) -> None:
        config = container.config
        terminal = slave = -1
        ins = outs = errs = (-1, -1)
        console: socket.socket | None = None
        if config["tty"] and self.spawner.mode == "plain":
            terminal, slave = os.openpty()
        elif config["tty"]:
            # The container makes its terminal itself, in its own /dev/pts, and sends our end of it.
            console, far = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
            slave = far.detach()
        else:
            outs, errs = os.pipe2(os.O_CLOEXEC), os.pipe2(os.O_CLOEXEC)
            if config["stdin"]:
                ins = os.pipe2(os.O_CLOEXEC)
        report_pipe = os.pipe2(os.O_CLOEXEC)

        stdio = (ins[0], outs[1], errs[1])
        if config["tty"]:
            stdio = (slave, -1, -1) if console else (slave,) * 3
        sandbox = self.sandboxes.get(config["labels"]["sandbox"])
        target = self.containers.get(config["target"])
        container.child = child = self.spawner.spawn(
            config,
            stdio,
            report_pipe[1],
            users=sandbox["users"] if sandbox else -1,
            network=sandbox["network"] if sandbox else -1,
            beside=target.child.target if target and target.child else 0,
        )
        for handle in (slave, ins[0], outs[1], errs[1], report_pipe[1]):
            if handle >= 0:
                os.close(handle)
        if terminal >= 0:
            self._use_terminal(container, terminal)
        elif console is None:
            container.input = Input(ins[1], self.selector) if config["stdin"] else None
            self._read_output(container, outs[0], "stdout")
            self._read_output(container, errs[0], "stderr")
        self.selector.register(child.handle, selectors.EVENT_READ, lambda _: self._ended(container))
        told = bytearray()

        def report_arrived(_: Any) -> None:
            data = os.read(report_pipe[0], _CHUNK)
            told.extend(data)
            if data:
                return
            self.selector.unregister(report_pipe[0])
            os.close(report_pipe[0])
            if console is not None:
                self._receive_terminal(container, console)
            error = ""
            for line in told.splitlines():
                message: protocol.StartReport = json.loads(line)
                child.target = message.get("pid", child.target)
                error = message.get("error", error)
            if error:
                container.message = error
                container.state = "created"
                reply(error=error)
            else:
                container.state = "running"
                container.started_at = time.time()
                reply(container=container.status())
                self._run_late_hooks(container, "poststart")
            self._expect_more()

        self.selector.register(report_pipe[0], selectors.EVENT_READ, report_arrived)

    def _receive_terminal(self, container: Container, console: socket.socket) -> None:
        """It was sent before the command began to run, if it was sent at all."""
        with console:
            console.setblocking(False)
            try:
                _, handles, _, _ = socket.recv_fds(console, 1, 1)
            except BlockingIOError:
                handles = []
        for terminal in handles:
            os.set_inheritable(terminal, False)
            self._use_terminal(container, terminal)

    def _use_terminal(self, container: Container, terminal: int) -> None:
        container.terminal = terminal
        container.input = Input(os.dup(terminal), self.selector)
        self._read_output(container, terminal, "stdout")

    def _expect_more(self) -> None:
        """Where one container was started, another may follow: be ready for a while."""
        now = time.monotonic()
        if not self._spare_until:
            self.timers.append((now + _SPARE_SECONDS, self._expect_no_more))
        self._spare_until = now + _SPARE_SECONDS
        self.timers.append((now + _SPARE_PAUSE, self.spawner.prepare_spare))

    def _expect_no_more(self) -> None:
        if time.monotonic() < self._spare_until:
            self.timers.append((self._spare_until, self._expect_no_more))
            return
        self._spare_until = 0.0
        self.spawner.discard_spare()

    def _run_late_hooks(self, container: Container, stage: str) -> None:
        if any(h["stage"] == stage for h in container.config["hooks"]):
            with contextlib.suppress(isolation.SetupFailed, OSError):
                isolation.run_hooks(
                    container.config, stage, status="running" if stage == "poststart" else "stopped"
                )

    # Output

    def _read_output(self, container: Container, handle: int, stream: str) -> None:
        container.open_streams += 1

        def ready(_: Any) -> None:
            try:
                data = os.read(handle, _CHUNK)
            except BlockingIOError:
                return
            except OSError:  # a terminal whose last user has gone
                data = b""
            if data:
                if container.log:
                    container.log.write(stream, data)
                for watcher in list(container.watchers):
                    if not watcher.tell(stream, data):
                        self._dismiss(container, watcher)
                return
            self.selector.unregister(handle)
            os.close(handle)
            if handle == container.terminal:
                container.terminal = None
            container.open_streams -= 1
            self._finish(container)

        self.selector.register(handle, selectors.EVENT_READ, ready)

    def _ended(self, container: Container) -> None:
        child = container.child
        assert child is not None
        self.selector.unregister(child.handle)
        child.reap()
        container.finished_at = time.time()
        self._finish(container)

    def _finish(self, container: Container) -> None:
        """A container has ended when its process has, and all it said is in the log."""
        child = container.child
        if child is None or not child.ended or container.state == "exited":
            return
        if container.open_streams and container.id in self.containers:
            # A grandchild may hold the output open for ever; what is in the pipes by now is enough.
            if not container.output_given_up:
                container.output_given_up = True
                self.timers.append((time.monotonic() + 0.2, lambda: self._give_up_output(container)))
            return
        self._conclude(container)

    def _give_up_output(self, container: Container) -> None:
        if container.state != "exited":
            container.open_streams = 0
            self._conclude(container)

    def _conclude(self, container: Container) -> None:
        if container.log:
            container.log.close()
            container.log = None
        for watcher in list(container.watchers):
            self._dismiss(container, watcher)
        if container.input is not None:
            container.input.close()
            container.input = None
        if container.started_at:
            container.state = "exited"
            self._run_late_hooks(container, "poststop")
            self._announce(container)
        for waiter in container.waiting:
            waiter()
        container.waiting.clear()


def _close_handles(sandbox: protocol.Sandbox) -> None:
    for handle in (sandbox["users"], sandbox["network"], sandbox["listener"]):
        if handle >= 0:
            os.close(handle)


def main(argv: list[str] | None = None) -> None:
    handle, scratch, grace, modes, hidden, networked = argv or sys.argv[1:]
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)
    listener = socket.socket(fileno=int(handle))
    listener.set_inheritable(False)
    spawner = Spawner(scratch, list(filter(None, modes.split(","))), hidden=json.loads(hidden))
    network = None
    if networked and spawner.mode == "root":
        from dray.runtimes.process.network import try_network

        network = try_network(scratch)
    Supervisor(listener, spawner, orphan_grace=float(grace), network=network).run()

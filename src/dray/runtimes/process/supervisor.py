"""The process that containers are children of. It starts them, writes their logs and reports how they ended.

One JSON object a line over a unix socket, in both directions; file descriptors for interactive sessions come along
with the request. The node agent may crash and come back: containers stay. If nobody comes back within the grace
period, they are ended, so that nothing is left behind on the host.
"""

# It starts faster and stays smaller without pathlib:
# ruff: noqa: PTH103, PTH120, PTH123

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
from collections.abc import Callable
from typing import Any

from dray.runtimes.process import isolation

#: A log line longer than this is written in parts.
_LONGEST_LINE = 16 * 1024
_CHUNK = 64 * 1024


class LogFile:
    """One container's log in the form that CRI prescribes: time, stream, full or partial, text."""

    def __init__(self, path: str) -> None:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        self._handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o640)
        self._rest = {"stdout": b"", "stderr": b""}

    def write(self, stream: str, data: bytes) -> None:
        data = self._rest[stream] + data
        lines = data.split(b"\n")
        self._rest[stream] = rest = lines.pop()
        entries = [(b"F", line) for line in lines]
        while len(rest) >= _LONGEST_LINE:
            entries.append((b"P", rest[:_LONGEST_LINE]))
            rest = rest[_LONGEST_LINE:]
        self._rest[stream] = rest
        self._put(stream, entries)

    def close(self) -> None:
        for stream, rest in self._rest.items():
            if rest:
                self._put(stream, [(b"P", rest)])
        os.close(self._handle)

    def _put(self, stream: str, entries: list[tuple[bytes, bytes]]) -> None:
        if not entries:
            return
        prefix = f"{timestamp()} {stream} ".encode()
        os.write(self._handle, b"".join(prefix + tag + b" " + line + b"\n" for tag, line in entries))


def timestamp() -> str:
    now = time.time_ns()
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(now // 10**9)) + f".{now % 10**9:09d}Z"


class Child:
    """A process that was started here: a container's main process, or a command run in one."""

    def __init__(self, pid: int) -> None:
        self.pid = pid  # what is waited for
        self.target = pid  # what gets the signals; differs where a user namespace needs a process in between
        self.handle = os.pidfd_open(pid)
        self.ended = False
        self.exit_code = 0
        self.signal = 0

    def reap(self) -> None:
        _, status = os.waitpid(self.pid, 0)
        code = os.waitstatus_to_exitcode(status)
        self.signal = -code if code < 0 else 0
        self.exit_code = 128 - code if code < 0 else code
        self.ended = True
        os.close(self.handle)

    def kill(self, number: int) -> None:
        if not self.ended:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.target, number)


class Container:
    def __init__(self, config: dict[str, Any]) -> None:
        self.config = config
        self.id: str = config["id"]
        self.child: Child | None = None
        self.log: LogFile | None = None
        self.state = "created"
        self.created_at = time.time()
        self.started_at = 0.0
        self.finished_at = 0.0
        self.message = ""
        self.input: int | None = None
        self.terminal: int | None = None
        self.open_streams = 0
        self.output_given_up = False
        self.attached: list[dict[str, int]] = []
        self.waiting: list[Callable[[], None]] = []

    def status(self) -> dict[str, Any]:
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

    def send(self, message: dict[str, Any]) -> None:
        with contextlib.suppress(OSError):
            self.socket.sendall(json.dumps(message).encode() + b"\n")


class Supervisor:
    def __init__(self, listener: socket.socket, *, scratch: str, orphan_grace: float) -> None:
        self.listener = listener
        self.scratch = scratch
        self.orphan_grace = orphan_grace
        self.mode = isolation.probe(scratch)
        self.sandboxes: dict[str, dict[str, Any]] = {}
        self.containers: dict[str, Container] = {}
        self.clients: set[Client] = set()
        self.timers: list[tuple[float, Callable[[], None]]] = []
        self.alone_since: float | None = time.monotonic()
        self.selector = selectors.DefaultSelector()
        self.own_pids = (
            os.open("/proc/self/ns/pid", os.O_RDONLY | os.O_CLOEXEC) if self.mode == "root" else -1
        )
        self.selector.register(listener, selectors.EVENT_READ, self._accept)
        self.running = True

    def run(self) -> None:
        while self.running:
            for key, _ in self.selector.select(self._patience()):
                key.data(key.fileobj)
            now = time.monotonic()
            for when, action in list(self.timers):
                if when <= now:
                    self.timers.remove((when, action))
                    action()
            if self.alone_since is not None and now - self.alone_since > self.orphan_grace:
                break
        for container in self.containers.values():
            if container.child:
                container.child.kill(signal.SIGKILL)

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
        if client.session:  # whoever ran the command has left
            client.session.kill(signal.SIGKILL)
        if not self.clients:
            self.alone_since = time.monotonic()

    def _handle(self, client: Client, request: dict[str, Any]) -> None:
        number = request.pop("request")
        handles, client.handles = client.handles, []

        def reply(**result: Any) -> None:
            client.send({"reply": number, **result})

        try:
            getattr(self, f"do_{request.pop('do')}")(client, handles, reply, **request)
        except (isolation.SetupFailed, OSError, KeyError) as e:
            for handle in handles:
                with contextlib.suppress(OSError):
                    os.close(handle)
            reply(error=str(e) or repr(e))

    def _announce(self, container: Container) -> None:
        for client in self.clients:
            if client.session is None:
                client.send({"changed": container.status()})

    # Requests

    def do_hello(self, client: Client, handles: list[int], reply: Any) -> None:
        reply(mode=self.mode, pid=os.getpid())

    def do_list(self, client: Client, handles: list[int], reply: Any) -> None:
        reply(
            sandboxes=list(self.sandboxes.values()), containers=[c.status() for c in self.containers.values()]
        )

    def do_sandbox(self, client: Client, handles: list[int], reply: Any, sandbox: dict[str, Any]) -> None:
        """Sandboxes are no processes here; they are kept for agents that come back."""
        self.sandboxes[sandbox["id"]] = sandbox
        reply()

    def do_remove_sandbox(self, client: Client, handles: list[int], reply: Any, id: str) -> None:
        self.sandboxes.pop(id, None)
        reply()

    def do_create(self, client: Client, handles: list[int], reply: Any, config: dict[str, Any]) -> None:
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

    def do_stop(self, client: Client, handles: list[int], reply: Any, id: str, grace: float) -> None:
        container = self.containers.get(id)
        if container is None or container.state != "running" or container.child is None:
            reply()
            return
        container.waiting.append(reply)
        child = container.child
        if grace <= 0 or not self._hears_term(container):
            child.kill(signal.SIGKILL)
            return
        child.kill(signal.SIGTERM)
        self.timers.append((time.monotonic() + grace, lambda: child.kill(signal.SIGKILL)))

    def do_remove(self, client: Client, handles: list[int], reply: Any, id: str) -> None:
        """Answers when the process is really gone: somebody may want its devices next."""
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
        client.session = child = self._spawn_inside(container, argv, handles, tty=tty)

        def ended(_: Any) -> None:
            self.selector.unregister(child.handle)
            child.reap()
            client.send({"exited": child.exit_code})

        self.selector.register(child.handle, selectors.EVENT_READ, ended)
        reply()

    def do_attach(self, client: Client, handles: list[int], reply: Any, id: str) -> None:
        """Connects descriptors to a running container: (stdin or none), stdout, stderr."""
        container = self.containers[id]
        streams = dict(zip(("stdout", "stderr"), handles, strict=False))
        for handle in streams.values():
            os.set_blocking(handle, False)
        container.attached.append(streams)
        reply()

    def do_input(self, client: Client, handles: list[int], reply: Any, id: str, data: str, end: bool) -> None:
        container = self.containers[id]
        if container.input is None:
            raise isolation.SetupFailed("the container has no standard input")
        if data:
            os.write(container.input, bytes.fromhex(data))
        if end and container.terminal is None:
            os.close(container.input)
            container.input = None
        reply()

    def do_resize(
        self, client: Client, handles: list[int], reply: Any, id: str, rows: int, columns: int
    ) -> None:
        container = self.containers[id]
        if container.terminal is not None:
            fcntl.ioctl(container.terminal, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        reply()

    def do_shutdown(self, client: Client, handles: list[int], reply: Any) -> None:
        self.listener.close()  # whoever comes now must start another supervisor
        reply()
        self.running = False

    # Processes

    def _hears_term(self, container: Container) -> bool:
        """The first process of a PID namespace is deaf to signals that it has no handler for: then there is
        nothing to wait for."""
        if self.mode == "plain" or container.child is None:
            return True
        try:
            with open(f"/proc/{container.child.target}/status") as status:
                caught = next(line for line in status if line.startswith("SigCgt:"))
        except (OSError, StopIteration):
            return True
        return bool(int(caught.split()[1], 16) & 1 << (signal.SIGTERM - 1))

    def _spawn(self, container: Container, reply: Any) -> None:
        config = container.config
        terminal = slave = -1
        ins = outs = errs = (-1, -1)
        if config["tty"]:
            terminal, slave = os.openpty()
        else:
            outs, errs = os.pipe2(os.O_CLOEXEC), os.pipe2(os.O_CLOEXEC)
            if config["stdin"]:
                ins = os.pipe2(os.O_CLOEXEC)
        news = os.pipe2(os.O_CLOEXEC)

        pid = self._fork_into_new_pids()
        if pid == 0:
            stdio = (slave,) * 3 if config["tty"] else (ins[0], outs[1], errs[1])
            self._become_container(config, stdio, news[1])
        for handle in (slave, ins[0], outs[1], errs[1], news[1]):
            if handle >= 0:
                os.close(handle)
        container.child = child = Child(pid)
        if config["tty"]:
            container.terminal = container.input = terminal
            self._read_output(container, terminal, "stdout")
        else:
            container.input = ins[1] if config["stdin"] else None
            self._read_output(container, outs[0], "stdout")
            self._read_output(container, errs[0], "stderr")
        self.selector.register(child.handle, selectors.EVENT_READ, lambda _: self._ended(container))
        told = bytearray()

        def news_arrived(_: Any) -> None:
            data = os.read(news[0], _CHUNK)
            told.extend(data)
            if data:
                return
            self.selector.unregister(news[0])
            os.close(news[0])
            error = ""
            for line in told.splitlines():
                message = json.loads(line)
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

        self.selector.register(news[0], selectors.EVENT_READ, news_arrived)

    def _fork_into_new_pids(self) -> int:
        if self.mode != "root":
            return os.fork()
        # The namespace for children is a property of this process: change it, fork, change it back.
        isolation.unshare(isolation.NEWPID)
        return self._fork_and_return_home()

    def _fork_and_return_home(self) -> int:
        pid = -1
        try:
            pid = os.fork()
            return pid
        finally:
            if pid != 0 and self.mode == "root":
                isolation.setns(self.own_pids, isolation.NEWPID)

    def _become_container(self, config: dict[str, Any], stdio: tuple[int, ...], news: int) -> None:
        try:
            isolation.die_with_parent()
            os.setsid()
            if self.mode == "user":
                self._step_between(news)
            _use_stdio(stdio, tty=config["tty"])
            isolation.become(config, mode=self.mode, scratch=self.scratch)
        except BaseException as e:
            text = str(e) or repr(e)
            os.write(news, json.dumps({"error": text}).encode() + b"\n")
        os._exit(128)

    def _step_between(self, news: int) -> None:
        """In a user namespace only a child is the first process of the PID namespace: stay as its parent, tell
        the supervisor whom to signal, and end as it ends."""
        kinds = isolation.NEWNS | isolation.NEWUTS | isolation.NEWIPC | isolation.NEWPID
        isolation.become_root_of_user_namespace(kinds)
        pid = os.fork()
        if pid == 0:
            isolation.die_with_parent()
            return
        os.write(news, json.dumps({"pid": pid}).encode() + b"\n")
        _follow(pid)

    def _spawn_inside(self, container: Container, argv: list[str], handles: list[int], *, tty: bool) -> Child:
        assert container.child is not None
        target = container.child.target
        config = {**container.config, "argv": argv, "hooks": []}
        kinds = ("user", "pid", "mnt", "uts", "ipc") if self.mode == "user" else ("mnt", "uts", "ipc")
        failed = os.pipe2(os.O_CLOEXEC)
        if self.mode == "root":
            with open(f"/proc/{target}/ns/pid") as pids:
                isolation.setns(pids.fileno(), isolation.NEWPID)
        pid = self._fork_and_return_home()
        if pid == 0:
            try:
                isolation.die_with_parent()
                os.setsid()
                stdio = (handles[0],) * 3 if tty else tuple(handles)
                _use_stdio(stdio, tty=tty)
                if self.mode != "plain":
                    spaces = [os.open(f"/proc/{target}/ns/{k}", os.O_RDONLY | os.O_CLOEXEC) for k in kinds]
                    for space in spaces:
                        isolation.setns(space, 0)
                if self.mode == "user":
                    _follow(os.fork())
                isolation.take_identity(config, mode=self.mode)
                isolation.run_program(config)
            except BaseException as e:
                os.write(failed[1], (str(e) or repr(e)).encode())
            os._exit(126)
        os.close(failed[1])
        for handle in handles:
            os.close(handle)
        with os.fdopen(failed[0], "rb") as news:
            error = news.read()
        if error:
            os.waitpid(pid, 0)
            raise isolation.SetupFailed(error.decode(errors="replace"))
        return Child(pid)

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
            except OSError:  # a terminal whose last user has gone
                data = b""
            if data:
                if container.log:
                    container.log.write(stream, data)
                for streams in list(container.attached):
                    try:
                        os.write(streams[stream], data)
                    except BlockingIOError:
                        continue  # a reader that does not keep up misses something; the log does not
                    except (OSError, KeyError):
                        container.attached.remove(streams)
                return
            self.selector.unregister(handle)
            os.close(handle)
            if handle == container.terminal:
                container.terminal = container.input = None
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
        for streams in container.attached:
            for handle in streams.values():
                os.close(handle)
        container.attached.clear()
        if container.input is not None and container.terminal is None:
            os.close(container.input)
        container.input = None
        if container.started_at:
            container.state = "exited"
            self._run_late_hooks(container, "poststop")
            self._announce(container)
        for waiter in container.waiting:
            waiter()
        container.waiting.clear()


def _follow(pid: int) -> None:
    """In a parent: waits for the child and ends as it ends. In the child: returns."""
    if pid == 0:
        isolation.die_with_parent()
        return
    os.closerange(0, 256)  # hold nothing open that the child may want to close
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    if code < 0:
        os.kill(os.getpid(), -code)
    os._exit(code if code >= 0 else 128 - code)


def _use_stdio(stdio: tuple[int, ...], *, tty: bool) -> None:
    null = os.open("/dev/null", os.O_RDWR)
    for number, handle in enumerate(stdio):
        os.dup2(handle if handle >= 0 else null, number)
    if tty:
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)


def main(argv: list[str] | None = None) -> None:
    handle, scratch, grace = argv or sys.argv[1:]
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)
    listener = socket.socket(fileno=int(handle))
    listener.set_inheritable(False)
    Supervisor(listener, scratch=scratch, orphan_grace=float(grace)).run()

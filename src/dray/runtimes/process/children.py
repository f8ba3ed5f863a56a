"""Processes of the supervisor: forked into namespaces of their own or into those of a running container."""

# It starts faster and stays smaller without pathlib:
# ruff: noqa: PTH123

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import signal
import socket
import termios
from collections.abc import Sequence
from typing import TYPE_CHECKING

from dray.runtimes.process import isolation
from dray.runtimes.process.spare import Spare, wait

if TYPE_CHECKING:
    from dray.runtimes.process import protocol


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


class Spawner:
    """Forks processes into containers, new or running."""

    def __init__(self, scratch: str, modes: Sequence[str], *, hidden: Sequence[str] = ()) -> None:
        self.scratch = scratch
        self.hidden = hidden
        self.mode = isolation.probe(scratch, modes)
        self._own_pids = (
            os.open("/proc/self/ns/pid", os.O_RDONLY | os.O_CLOEXEC) if self.mode == "root" else -1
        )
        self._spare: Spare | None = None

    def spawn(
        self,
        config: protocol.Container,
        stdio: tuple[int, ...],
        report_pipe: int,
        *,
        users: int = -1,
        network: int = -1,
        beside: int = 0,
    ) -> Child:
        """Starts a container's process in the user and network namespaces of its pod, -1 for the host's, and in the PID
        namespace of process ``beside``, if given. Its ``StartReport`` goes into ``report_pipe``, which it closes when the
        command runs."""
        if not beside and Spare.suits(config) and (spare := self._take_spare()):
            if spare.give(config, stdio, report_pipe, network):
                return Child(spare.pid)
            spare.discard()
        pid = self._fork_beside(beside) if beside else self._fork_into_new_pids()
        if pid == 0:
            self._become_container(config, stdio, report_pipe, users=users, network=network)
        return Child(pid)

    def prepare_spare(self) -> None:
        """Gets ready for the next container, where that is possible."""
        if self.mode != "root" or self._spare:
            return
        near, far = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        made_of = isolation.fingerprint()
        pid = self._fork_into_new_pids()
        if pid == 0:
            near.close()
            self._become_spare(far)
        far.close()
        self._spare = Spare(pid, near, made_of)

    def _take_spare(self) -> Spare | None:
        if self._spare and not self._spare.current:
            self.discard_spare()
        spare, self._spare = self._spare, None
        return spare

    def discard_spare(self) -> None:
        if self._spare:
            self._spare.discard()
            self._spare = None

    def handles_sigterm(self, child: Child) -> bool:
        """The first process of a PID namespace is deaf to signals that it has no handler for: then there is
        nothing to wait for."""
        if self.mode == "plain":
            return True
        try:
            with open(f"/proc/{child.target}/status") as status:
                caught = next(line for line in status if line.startswith("SigCgt:"))
        except (OSError, StopIteration):
            return True
        return bool(int(caught.split()[1], 16) & 1 << (signal.SIGTERM - 1))

    def _fork_into_new_pids(self) -> int:
        if self.mode != "root":
            return os.fork()
        # The namespace for children is a property of this process: change it, fork, change it back.
        isolation.unshare(isolation.NEWPID)
        return self._fork_and_return_home()

    def _fork_beside(self, target: int) -> int:
        """Forks into the PID namespace of a process; where that is not possible the child sees its own processes alone."""
        if self.mode == "root":
            with open(f"/proc/{target}/ns/pid") as pids:
                isolation.setns(pids.fileno(), isolation.NEWPID)
        return self._fork_and_return_home()

    def _fork_and_return_home(self) -> int:
        pid = -1
        try:
            pid = os.fork()
            return pid
        finally:
            if pid != 0 and self.mode == "root":
                isolation.setns(self._own_pids, isolation.NEWPID)

    def _become_spare(self, connection: socket.socket) -> None:
        try:
            isolation.die_with_parent()
            os.setsid()
            isolation.unshare(isolation.NEWNS | isolation.NEWUTS | isolation.NEWIPC)
            root = isolation.build_root(mode=self.mode, scratch=self.scratch, hidden=self.hidden)
            config, stdio, report_pipe, network = wait(connection)
        except BaseException:
            os._exit(128)
        try:
            use_stdio(stdio, tty=False)
            isolation.enter_network(network)
            isolation.run_in_root(config, root, mode=self.mode)
        except BaseException as e:
            report_error(report_pipe, e)
        os._exit(128)

    def _become_container(
        self,
        config: protocol.Container,
        stdio: tuple[int, ...],
        report_pipe: int,
        *,
        users: int,
        network: int,
    ) -> None:
        try:
            isolation.die_with_parent()
            os.setsid()
            if self.mode == "user":
                self._step_between(report_pipe)
            use_stdio(stdio, tty=config["tty"] and self.mode == "plain")
            isolation.enter_network(network)
            isolation.run_container(
                config, mode=self.mode, scratch=self.scratch, hidden=self.hidden, users=users
            )
        except BaseException as e:
            report_error(report_pipe, e)
        os._exit(128)

    def _step_between(self, report_pipe: int) -> None:
        """In a user namespace only a child is the first process of the PID namespace: stay as its parent, tell
        the supervisor whom to signal, and end as it ends."""
        kinds = isolation.NEWNS | isolation.NEWUTS | isolation.NEWIPC | isolation.NEWPID
        isolation.become_root_of_user_namespace(kinds)
        pid = os.fork()
        if pid == 0:
            isolation.die_with_parent()
            return
        os.write(report_pipe, json.dumps({"pid": pid}).encode() + b"\n")
        follow(pid)

    def spawn_inside(
        self,
        target: int,
        config: protocol.Container,
        handles: list[int],
        report_pipe: tuple[int, int],
        *,
        tty: bool,
    ) -> Child:
        """Starts another process in the container of process ``target``. What fails is written into ``report_pipe``, which
        ends when the command runs."""
        kinds = ["user", "pid", "mnt", "uts", "ipc"] if self.mode == "user" else ["net", "mnt", "uts", "ipc"]
        if config["first_user"]:
            kinds.append("user")
        pid = self._fork_beside(target)
        if pid == 0:
            try:
                isolation.die_with_parent()
                os.setsid()
                stdio = (handles[0],) * 3 if tty else tuple(handles)
                use_stdio(stdio, tty=tty)
                if self.mode == "root":
                    isolation.own_streams(config)
                if self.mode != "plain":
                    spaces = [os.open(f"/proc/{target}/ns/{k}", os.O_RDONLY | os.O_CLOEXEC) for k in kinds]
                    for space in spaces:
                        isolation.setns(space, 0)
                if config["first_user"]:
                    isolation.become_root_of_pod()
                if self.mode == "user":
                    follow(os.fork())
                isolation.apply_identity(config, mode=self.mode)
                isolation.run_program(config)
            except BaseException as e:
                os.write(report_pipe[1], (str(e) or repr(e)).encode())
            os._exit(126)
        os.close(report_pipe[1])
        for handle in handles:
            os.close(handle)
        return Child(pid)


def report_error(report_pipe: int, error: BaseException) -> None:
    os.write(report_pipe, json.dumps({"error": str(error) or repr(error)}).encode() + b"\n")


def follow(pid: int) -> None:
    """In a parent: waits for the child and ends as it ends. In the child: returns."""
    if pid == 0:
        isolation.die_with_parent()
        return
    os.closerange(0, 256)  # hold nothing open that the child may want to close
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    if code < 0:
        os.kill(os.getpid(), -code)
    os._exit(code if code >= 0 else 128 - code)


def use_stdio(stdio: tuple[int, ...], *, tty: bool) -> None:
    null = os.open("/dev/null", os.O_RDWR)
    for number, handle in enumerate(stdio):
        os.dup2(handle if handle >= 0 else null, number)
    if tty:
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)

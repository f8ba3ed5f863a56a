"""A spare: a process that waits in namespaces built in advance, to become the next container.

Building them takes most of the time that a container needs to start, and is the same for all containers. The supervisor
discards a spare when the host's mounts have changed since, so that no container sees an old view of the host.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
from typing import TYPE_CHECKING

from dray.runtimes.process import isolation

if TYPE_CHECKING:
    from dray.runtimes.process import protocol

_MAX_MESSAGE_BYTES = 1 << 20


class Spare:
    """The supervisor's side of it."""

    def __init__(self, pid: int, connection: socket.socket, made_of: object) -> None:
        self.pid = pid
        self._socket = connection
        self._made_of = made_of

    @property
    def current(self) -> bool:
        """Whether the host is still what it was built of."""
        return self._made_of == isolation.fingerprint()

    @staticmethod
    def suits(config: protocol.Container) -> bool:
        """Hooks that run before there are namespaces come too late for a spare, and it is of the host's users."""
        return not config["first_user"] and not any(h["stage"] in isolation.OUTSIDE for h in config["hooks"])

    def give(
        self, config: protocol.Container, stdio: tuple[int, ...], report_pipe: int, network: int
    ) -> bool:
        """Hands over what it shall become; False if it is of no use any more."""
        handles = [h for h in (*stdio, report_pipe, network) if h >= 0]
        place = [h >= 0 for h in stdio]
        becoming: protocol.Becoming = {"config": config, "stdio": place, "network": network >= 0}
        message = json.dumps(becoming).encode()
        try:
            with self._socket as connection:
                # A message that does not fit at once would hold up the supervisor.
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _MAX_MESSAGE_BYTES)
                return socket.send_fds(connection, [message], handles) == len(message)
        except OSError:
            return False

    def discard(self) -> None:
        self._socket.close()
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)


def wait(connection: socket.socket) -> tuple[protocol.Container, tuple[int, ...], int, int]:
    """The child's side: who to be, with which input and output, where to tell of trouble, and in which network."""
    _close_all_but(0, 1, 2, connection.fileno())
    data, handles, _, _ = socket.recv_fds(connection, _MAX_MESSAGE_BYTES, 8)
    for handle in handles:
        os.set_inheritable(handle, False)
    if not data:
        os._exit(0)  # the supervisor has discarded this spare
    message: protocol.Becoming = json.loads(data)
    given = iter(handles)
    stdio = tuple(next(given) if there else -1 for there in message["stdio"])
    return message["config"], stdio, next(given), next(given) if message["network"] else -1


def _close_all_but(*kept: int) -> None:
    """Copies of the supervisor's descriptors would keep other containers from seeing the end of their input."""
    for name in os.listdir("/proc/self/fd"):  # noqa: PTH208
        if int(name) not in kept:
            with contextlib.suppress(OSError):
                os.close(int(name))

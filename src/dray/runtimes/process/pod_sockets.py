"""Connections into and out of the network namespaces of pods, from the agent's side.

The supervisor holds the namespaces, and a listener in each where its pod looks for the API server. The agent borrows their
descriptors: what is connected through them works whether or not anything is routed between pods and host.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import os
import socket
import threading
from typing import NamedTuple

from dray.runtimes.interface import RuntimeFailure
from dray.runtimes.process import isolation

_PIDFD_GETFD = 438
_CHUNK = 64 << 10
_libc = ctypes.CDLL(None, use_errno=True)


class Target(NamedTuple):
    host: str
    port: int


def borrow(pid: int, number: int) -> int:
    """A copy of a descriptor of another process."""
    process = os.pidfd_open(pid)
    try:
        handle = _libc.syscall(
            ctypes.c_long(_PIDFD_GETFD), ctypes.c_int(process), ctypes.c_int(number), ctypes.c_uint(0)
        )
    finally:
        os.close(process)
    if handle < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    return int(handle)


async def connect_inside(pid: int, network: int, port: int) -> socket.socket:
    """A connection to a port of a pod, from inside its namespace: also to what listens on the pod's loopback alone."""
    namespace = borrow(pid, network)
    try:
        made = await asyncio.to_thread(_socket_inside, namespace)
    finally:
        os.close(namespace)
    made.setblocking(False)
    try:
        await asyncio.get_running_loop().sock_connect(made, ("127.0.0.1", port))
    except OSError as e:
        made.close()
        text = f"failed to connect to localhost:{port} inside the pod: {os.strerror(e.errno or 0).lower()}"
        raise RuntimeFailure("PortForwardError", text) from e
    return made


def _socket_inside(namespace: int) -> socket.socket:
    """A namespace is a property of a thread: a thread of its own goes there, and ends there."""
    made: list[socket.socket | BaseException] = []

    def make() -> None:
        try:
            isolation.setns(namespace, isolation.NEWNET)
            made.append(socket.socket(socket.AF_INET, socket.SOCK_STREAM))
        except BaseException as e:
            made.append(e)

    thread = threading.Thread(target=make)
    thread.start()
    thread.join()
    [result] = made
    if isinstance(result, BaseException):
        raise result
    return result


class Forwarder:
    """Passes on, byte for byte, what is sent to listeners of pods: where they look for the API server, and their ports on
    the host."""

    def __init__(self) -> None:
        self._servers: dict[str, list[asyncio.Server]] = {}

    async def open(self, sandbox: str, listener: socket.socket, target: Target) -> None:
        async def forward(near: asyncio.StreamReader, back: asyncio.StreamWriter) -> None:
            await _forward(near, back, target)

        server = await asyncio.start_server(forward, sock=listener)
        self._servers.setdefault(sandbox, []).append(server)

    def serves(self, sandbox: str) -> bool:
        return sandbox in self._servers

    def close(self, sandbox: str) -> None:
        for server in self._servers.pop(sandbox, ()):
            server.close()

    def close_all(self) -> None:
        for sandbox in list(self._servers):
            self.close(sandbox)


async def _forward(near: asyncio.StreamReader, back: asyncio.StreamWriter, target: Target) -> None:
    try:
        far, there = await asyncio.open_connection(*target)
    except OSError:
        back.close()
        return
    try:
        await asyncio.gather(_pump(near, there), _pump(far, back))
    finally:
        there.close()
        back.close()


def host_listener(host: str, port: int) -> socket.socket:
    """A listener for a pod on a port of the host; RuntimeFailure if another program has it."""
    try:
        return socket.create_server((host, port))
    except OSError as e:
        text = f"host port {port} on {host}: {os.strerror(e.errno or 0).lower()}"
        raise RuntimeFailure("CreatePodSandboxError", text) from e


async def _pump(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while data := await source.read(_CHUNK):
            sink.write(data)
            await sink.drain()
        sink.write_eof()

"""The HTTP/1.1 server over TLS or plain TCP. It owns its connections and closes those whose client takes too long."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import resource
import socket
import ssl
import time
from collections import deque
from email.utils import formatdate
from typing import Any, Final, Generic

from dray.wire.messages import Handler, Limits, R, Refusal, plain_refusal
from dray.wire.server_connection import ServerConnection

log = logging.getLogger(__name__)

#: The share of connections that are closed at once where newcomers need room, so that looking for them is rare.
_ROOM: Final = 0.05
#: Seconds without accepting after that has failed, most likely for want of file descriptors.
_ACCEPT_PAUSE: Final = 1.0
#: What one turn of the loop reads of bodies before those that have more to come wait, and how many of these are read in the
#: next one.
_TURN_BYTES: Final = 1 << 20
_READERS: Final = 4


def listening_socket(host: str, port: int) -> socket.socket:
    """A socket that listens on the address; OSError if it cannot."""
    sock = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_STREAM)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind((host, port))
        sock.listen(1024)
    except OSError:
        sock.close()
        raise
    return sock


class HTTPServer(Generic[R]):
    """Listens, owns every connection, and drains them on shutdown. ``request_type`` is what the handler is given."""

    def __init__(
        self,
        handler: Handler[R],
        *,
        request_type: type[R],
        tls: ssl.SSLContext | None = None,
        limits: Limits | None = None,
        refuse: Refusal = plain_refusal,
        keep_alive: bool = True,
    ) -> None:
        self.handler = handler
        self.request_type = request_type
        self.keep_alive = keep_alive
        self.tls = tls
        self.limits = limits or Limits()
        self.refuse = refuse
        self.connections: set[ServerConnection] = set()
        self.paused: set[ServerConnection] = set()  # those that nothing is read from for now
        self.max_connections = _max_connections(self.limits)
        self._turn_bytes = 0  # read of bodies in this turn of the loop
        self._waiting: deque[ServerConnection] = deque()  # for another turn
        self.draining = False
        self._held = 0
        self._holding: dict[
            ServerConnection, None
        ] = {}  # connections with unfinished requests, the oldest first
        self._empty = asyncio.Event()  # set while draining, once the last connection is gone
        self._date = (0, b"")
        self._sniffers: dict[_Sniffer, None] = {}  # the oldest first
        self._listeners: list[socket.socket] = []
        self._sweeper: asyncio.Task[None] | None = None

    async def listen(self, *listeners: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        for listener in listeners:
            listener.setblocking(False)
            _notice_lost_peers(listener)
            listener.listen(1024)
            loop.add_reader(listener.fileno(), self._accept, listener)
            self._listeners.append(listener)
        self._sweeper = loop.create_task(self._sweep(), name="http-sweeper")

    def has_read_enough(self, connection: ServerConnection, taken: int) -> bool:
        """Count what is read of bodies until the loop turns. Hundreds that come at the same time are read by turns: then
        the loop gets to other requests in between. If so, the connection is told when to read on."""
        if not self._turn_bytes and not self._waiting:
            asyncio.get_running_loop().call_soon(self._next_turn)
        self._turn_bytes += taken
        if self._turn_bytes > _TURN_BYTES:
            self._waiting.append(connection)
            return True
        return False

    def _next_turn(self) -> None:
        self._turn_bytes = 0
        for _ in range(min(_READERS, len(self._waiting))):
            self._waiting.popleft().read_on()
        if self._waiting:
            asyncio.get_running_loop().call_soon(self._next_turn)

    def _accept(self, listener: socket.socket) -> None:
        for _ in range(64):
            try:
                sock, _ = listener.accept()
            except (BlockingIOError, InterruptedError):
                return
            except OSError as e:
                log.warning("cannot accept a connection: %s", e)
                self._pause_accepting(listener)
                return
            if len(self.connections) + len(self._sniffers) >= self.max_connections and not self._make_room():
                sock.close()
                continue
            sock.setblocking(False)
            if sock.family in (socket.AF_INET, socket.AF_INET6):
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            # Left alone, the kernel would buffer megabytes for every watcher that does not read.
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, self.limits.unsent_bytes)
            # And it would hand over megabytes of every client that sends faster than it is read, in one turn of the loop.
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, self.limits.unread_bytes)
            self._sniffers[_Sniffer(self, sock)] = None

    def _make_room(self) -> bool:
        """Close the connection that has said nothing for longest; where all have said something, some of those that
        no request of is being answered."""
        if self._sniffers:
            next(iter(self._sniffers)).close()
            return True
        unused = sorted((c for c in self.connections if c.unused), key=lambda one: one.deadline)
        for connection in unused[: max(1, int(len(unused) * _ROOM))]:
            connection.abort()
            self.left(connection)
        return bool(unused)

    def _pause_accepting(self, listener: socket.socket) -> None:
        """Leave those who wait to the kernel for a while; asked at once again, it would fail at once again."""
        loop = asyncio.get_running_loop()
        loop.remove_reader(listener.fileno())

        def resume() -> None:
            if not self.draining:
                loop.add_reader(listener.fileno(), self._accept, listener)

        loop.call_later(_ACCEPT_PAUSE, resume)

    async def _sweep(self) -> None:
        """Close connections whose peer takes too long. One timer serves them all."""
        while True:
            await asyncio.sleep(min(5.0, self.limits.header_seconds / 2))
            now = time.monotonic()
            for connection in [c for c in self.connections if c.deadline < now]:
                connection.expire()
            for connection in [c for c in self.paused if c.has_left()]:
                connection.abort()
            for sniffer in [s for s in self._sniffers if s.deadline < now]:
                sniffer.close()

    @property
    def date(self) -> bytes:
        now = int(time.time())
        if self._date[0] != now:
            self._date = (now, b"Date: " + formatdate(now, usegmt=True).encode() + b"\r\n")
        return self._date[1]

    def left(self, connection: ServerConnection) -> None:
        self.connections.discard(connection)
        self.paused.discard(connection)
        if self.draining and not self.connections:
            self._empty.set()

    def hold(self, connection: ServerConnection, held: int, change: int) -> None:
        """Count what connections keep of unfinished requests. Beyond the limit those that take longest are refused."""
        self._held += change
        if not held:
            self._holding.pop(connection, None)
            return
        self._holding[connection] = None
        while self._held > self.limits.held_bytes:
            next(iter(self._holding)).shed()

    async def drain(self, seconds: float) -> None:
        """Stop listening, let running requests finish, end streams, then close what is left."""
        self.draining = True
        loop = asyncio.get_running_loop()
        for listener in self._listeners:
            loop.remove_reader(listener.fileno())
            listener.close()
        self._listeners.clear()
        for sniffer in list(self._sniffers):
            sniffer.close()
        for connection in list(self.connections):
            connection.finish()
        if self.connections:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await self._empty.wait()
        for connection in list(self.connections):
            connection.abort()
        if self._sweeper is not None:
            self._sweeper.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._sweeper


def _notice_lost_peers(listener: socket.socket) -> None:
    """Have the kernel ask peers that send nothing whether they are still there: who lost power never says goodbye. The
    connections that are accepted inherit it."""
    if listener.family not in (socket.AF_INET, socket.AF_INET6):
        return
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in (("TCP_KEEPIDLE", 30), ("TCP_KEEPINTVL", 15), ("TCP_KEEPCNT", 6)):
        if hasattr(socket, name):  # not every system lets one choose
            listener.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)


def _max_connections(limits: Limits) -> int:
    """Connections leave file descriptors for everything else that the process does."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return limits.connections
    return min(limits.connections, max(1, int(soft * limits.descriptors)))


class _Sniffer:
    """Waits for the first byte that a client sends, and makes a connection then. A client that speaks plain HTTP to the
    TLS port gets an answer it can read."""

    def __init__(self, server: HTTPServer[Any], sock: socket.socket) -> None:
        self.server = server
        self.sock = sock
        self.deadline = time.monotonic() + server.limits.handshake_seconds
        self._loop = asyncio.get_running_loop()
        self._task: asyncio.Task[None] | None = None
        self._loop.add_reader(sock.fileno(), self._readable)

    def _readable(self) -> None:
        try:
            first = self.sock.recv(1, socket.MSG_PEEK)
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            first = b""
        if not first:
            self.close()
            return
        self._loop.remove_reader(self.sock.fileno())
        if self.server.tls is None or first == b"\x16":
            self._task = self._loop.create_task(self._connect())
            return
        with contextlib.suppress(OSError):
            self.sock.recv(1 << 16)
            self.sock.send(
                b"HTTP/1.0 400 Bad Request\r\n\r\nClient sent an HTTP request to an HTTPS server.\n"
            )
        self.server._sniffers.pop(self, None)
        self.sock.close()

    async def _connect(self) -> None:
        tls, seconds = self.server.tls, self.server.limits.handshake_seconds
        try:
            await self._loop.connect_accepted_socket(
                lambda: ServerConnection(self.server),
                self.sock,
                ssl=tls,
                ssl_handshake_timeout=seconds if tls is not None else None,
            )
        except (OSError, asyncio.CancelledError) as e:
            log.debug("%s failed: %s", "a connection" if tls is None else "a TLS handshake", e)
            self.sock.close()
        finally:
            self.server._sniffers.pop(self, None)

    def close(self) -> None:
        self.server._sniffers.pop(self, None)
        if self._task is not None:
            self._task.cancel()
            return
        self._loop.remove_reader(self.sock.fileno())
        self.sock.close()

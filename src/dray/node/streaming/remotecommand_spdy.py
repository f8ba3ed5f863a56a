"""A session over SPDY: a stream for each of its input, output, errors, terminal size, and for how it ended."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterable
from typing import TYPE_CHECKING

from dray.node.streaming.remotecommand import (
    MAX_SIZE_BYTES,
    Start,
    TerminalSize,
    parse_terminal_size,
    run_session,
)
from dray.wire import spdy
from dray.wire.duplex import Wire

if TYPE_CHECKING:
    from dray.api.types.meta import Status

#: The first that client and server both know is taken; only the last of these tells exit codes.
PROTOCOLS = ("v4.channel.k8s.io", "v3.channel.k8s.io", "v2.channel.k8s.io", "channel.k8s.io")
#: Seconds that a client has for opening its streams.
STREAM_CREATION_TIMEOUT = 30.0


class SpdyCommand:
    """One session for one client."""

    def __init__(self, start: Start, *, protocol: str, streams: Iterable[str]) -> None:
        """``streams``: those of stdin, stdout and stderr that the client has asked for, and ``resize``."""
        self._start = start
        self._protocol = protocol
        self._expected = {"error", *streams}
        self._streams: dict[str, spdy.Stream] = {}
        self._complete = asyncio.Event()
        self._connection = spdy.Connection(on_stream=self._opened_stream, on_lost=self._connection_lost)
        self._task: asyncio.Task[None] | None = None

    def opened(self, wire: Wire) -> None:
        self._connection.opened(wire)
        self._task = asyncio.get_running_loop().create_task(self._run(), name="session")

    def received(self, data: bytes) -> None:
        self._connection.received(data)

    def lost(self) -> None:
        self._connection.lost()

    def _connection_lost(self) -> None:
        if self._task:
            self._task.cancel()

    def _opened_stream(self, stream: spdy.Stream) -> None:
        kind = stream.headers.get("streamtype", "")
        if kind not in self._expected or kind in self._streams:
            stream.reset()
            return
        self._streams[kind] = stream
        if self._streams.keys() == self._expected:
            self._complete.set()

    async def _run(self) -> None:
        try:
            async with asyncio.timeout(STREAM_CREATION_TIMEOUT):
                await self._complete.wait()
        except TimeoutError:
            self._connection.close()
            return
        stdin = self._streams.get("stdin")
        status = await run_session(
            self._start,
            stdin=stdin.pieces() if stdin else None,
            sizes=self._sizes(),
            send_output=self._send_output,
        )
        await self._send_status(status)
        for stream in self._streams.values():
            stream.end()
        self._connection.close()

    async def _sizes(self) -> AsyncIterator[TerminalSize]:
        if stream := self._streams.get("resize"):
            buffer = b""
            async for piece in stream.pieces():
                *lines, buffer = (buffer + piece).split(b"\n")
                buffer = buffer[: MAX_SIZE_BYTES + 1]  # what is longer is no size, however it goes on
                for line in lines:
                    if size := parse_terminal_size(line):
                        yield size

    async def _send_output(self, stream: str, data: bytes) -> None:
        if target := self._streams.get(stream):
            await target.write(data)

    async def _send_status(self, status: Status) -> None:
        """Old clients take anything on the error stream for a failure, and want words."""
        error = self._streams["error"]
        if self._protocol == PROTOCOLS[0]:
            await error.write(json.dumps(status).encode())
        elif status["status"] != "Success":
            await error.write(status["message"].encode())

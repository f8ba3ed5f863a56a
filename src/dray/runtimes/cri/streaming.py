"""Interactive sessions and forwarded ports of a CRI runtime: the runtime names a URL, and SPDY is spoken there.

It is SPDY rather than a WebSocket, because only over SPDY can runtimes be told that a command's input has ended.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from http.client import responses
from typing import TYPE_CHECKING, Self
from urllib.parse import urlsplit

from dray.runtimes.interface import Output, RuntimeFailure
from dray.wire import spdy
from dray.wire.client_connection import ClientConnection
from dray.wire.http_client import connect, encode

if TYPE_CHECKING:
    from dray.api.types.meta import Status

_COMMANDS = ("v4.channel.k8s.io",)
_PORTS = ("portforward.k8s.io",)
#: Seconds in which a runtime must have taken note of a stream.
_STREAM_CREATION_TIMEOUT = 30.0


class StreamingConnection:
    """A SPDY connection to a runtime's streaming server."""

    def __init__(self, connection: ClientConnection) -> None:
        self._connection = connection
        self.spdy = spdy.Connection(client=True)
        connection.switch(self.spdy)

    @classmethod
    async def open(cls, url: str, protocols: tuple[str, ...], *, failure: str) -> Self:
        parts = urlsplit(url)
        target = parts.path + (f"?{parts.query}" if parts.query else "")
        request = encode(
            "POST",
            target,
            (
                ("Host", parts.netloc),
                ("Connection", "Upgrade"),
                ("Upgrade", spdy.UPGRADE),
                *(("X-Stream-Protocol-Version", p) for p in protocols),
            ),
        )
        try:
            connection = await connect(parts.hostname or "", parts.port or 80)
            connection.send(request)
            status = (await connection.head()).status
        except OSError as e:
            raise RuntimeFailure(failure, f"the runtime's streaming server does not answer: {e}") from e
        if status != 101:
            connection.close()
            line = f"HTTP/1.1 {status} {responses.get(status, '')}"
            raise RuntimeFailure(failure, f"the runtime did not open a session: {line}")
        return cls(connection)

    async def open_streams(self, *headers: Mapping[str, str]) -> list[spdy.Stream]:
        """Runtimes lose what is sent on a stream before they have answered for it."""
        streams = [self.spdy.open_stream(h) for h in headers]
        try:
            async with asyncio.timeout(_STREAM_CREATION_TIMEOUT):
                for stream in streams:
                    await stream.replied.wait()
        except TimeoutError:
            await self.close()
            raise RuntimeFailure("StreamError", "the runtime does not answer") from None
        return streams

    async def close(self) -> None:
        self.spdy.close()
        self.spdy.lost()
        self._connection.close()


class SpdySession:
    """A command, or a container's own streams, at the other end."""

    def __init__(self, connection: StreamingConnection, streams: Mapping[str, spdy.Stream]) -> None:
        self._connection = connection
        self._streams = streams
        self._queue: asyncio.Queue[Output | None] = asyncio.Queue(16)
        reading = [s for s in ("stdout", "stderr") if s in streams]
        self._tasks = [asyncio.create_task(self._read(s)) for s in reading]
        self._open = len(reading)
        self._code = asyncio.create_task(self._read_code())

    @classmethod
    async def open(cls, url: str, *, tty: bool, stdin: bool) -> Self:
        connection = await StreamingConnection.open(url, _COMMANDS, failure="ExecError")
        kinds = ["error", *(["stdin"] if stdin else []), "stdout", "resize" if tty else "stderr"]
        streams = await connection.open_streams(*({"streamType": kind} for kind in kinds))
        return cls(connection, dict(zip(kinds, streams, strict=True)))

    async def output(self) -> AsyncIterator[Output]:
        while (piece := await self._queue.get()) is not None:
            yield piece

    async def write(self, data: bytes) -> None:
        if stdin := self._streams.get("stdin"):
            await stdin.write(data)

    async def close_input(self) -> None:
        if stdin := self._streams.get("stdin"):
            stdin.end()

    async def resize(self, *, rows: int, columns: int) -> None:
        if resize := self._streams.get("resize"):
            await resize.write(json.dumps({"Width": columns, "Height": rows}).encode() + b"\n")

    async def wait(self) -> int:
        return await asyncio.shield(self._code)

    async def close(self) -> None:
        tasks = [*self._tasks, self._code]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._connection.close()

    async def _read(self, stream: str) -> None:
        async for piece in self._streams[stream].pieces():
            await self._queue.put(Output(stream, piece))
        self._open -= 1
        if not self._open:
            await self._queue.put(None)

    async def _read_code(self) -> int:
        status = b"".join([piece async for piece in self._streams["error"].pieces()])
        return exit_code(status) if status else 0


class SpdyPortConnection:
    """A connection to a port of a sandbox."""

    def __init__(self, connection: StreamingConnection, data: spdy.Stream, errors: spdy.Stream) -> None:
        self._connection, self._data, self._errors = connection, data, errors

    @classmethod
    async def open(cls, url: str, port: int) -> Self:
        connection = await StreamingConnection.open(url, _PORTS, failure="PortForwardError")
        headers = {"port": str(port), "requestID": "0"}
        errors, data = await connection.open_streams(
            {"streamType": "error", **headers}, {"streamType": "data", **headers}
        )
        errors.end()  # nothing is ever said on it from this side
        return cls(connection, data, errors)

    async def received(self) -> AsyncIterator[bytes]:
        async for piece in self._data.pieces():
            yield piece
        problem = b"".join([piece async for piece in self._errors.pieces()])
        if problem:
            raise ConnectionError(problem.decode(errors="replace"))

    async def send(self, data: bytes) -> None:
        await self._data.write(data)

    async def end(self) -> None:
        self._data.end()

    async def close(self) -> None:
        await self._connection.close()


def exit_code(status: bytes) -> int:
    """The exit code in a Status document."""
    try:
        document: Status = json.loads(status)
    except ValueError:
        return 1
    if document.get("status") == "Success":
        return 0
    for cause in (document.get("details") or {}).get("causes") or []:
        if cause.get("reason") == "ExitCode":
            return int(cause["message"])
    return 1

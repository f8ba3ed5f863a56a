"""Interactive sessions with a CRI runtime: it names a URL, and speaks Kubernetes' channel protocol over a WebSocket.

A client of a hundred lines, for a server that runs beside us and sends small frames.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import os
import struct
from collections.abc import AsyncIterator
from typing import Self
from urllib.parse import urlsplit

from dray.runtimes.interface import Output, RuntimeFailure

_STDIN, _STDOUT, _STDERR, _ERROR, _RESIZE, _CLOSE = 0, 1, 2, 3, 4, 255
_BINARY, _TEXT, _CLOSING, _PING, _PONG = 2, 1, 8, 9, 10
_STREAMS = {_STDOUT: "stdout", _STDERR: "stderr"}
_PROTOCOLS = ("v5.channel.k8s.io", "v4.channel.k8s.io")


class StreamSession:
    """A command, or a container's own streams, at the other end of a WebSocket."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, protocol: str) -> None:
        self._reader, self._writer = reader, writer
        self._protocol = protocol
        self._queue: asyncio.Queue[Output | None] = asyncio.Queue()
        self._code: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._task = asyncio.create_task(self._receive())

    @classmethod
    async def open(cls, url: str) -> Self:
        parts = urlsplit(url)
        reader, writer = await asyncio.open_connection(parts.hostname, parts.port or 80)
        target = parts.path + (f"?{parts.query}" if parts.query else "")
        key = base64.b64encode(os.urandom(16)).decode()
        writer.write(
            (
                f"GET {target} HTTP/1.1\r\nHost: {parts.netloc}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
                f"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: {key}\r\n"
                f"Sec-WebSocket-Protocol: {', '.join(_PROTOCOLS)}\r\n\r\n"
            ).encode()
        )
        head = (await reader.readuntil(b"\r\n\r\n")).decode(errors="replace")
        status, *lines = head.split("\r\n")
        if " 101 " not in status:
            writer.close()
            raise RuntimeFailure("ExecError", f"the runtime did not open a session: {status}")
        headers = {k.strip().lower(): v.strip() for k, _, v in (line.partition(":") for line in lines)}
        return cls(reader, writer, headers.get("sec-websocket-protocol", _PROTOCOLS[-1]))

    async def output(self) -> AsyncIterator[Output]:
        while (piece := await self._queue.get()) is not None:
            yield piece

    async def write(self, data: bytes) -> None:
        self._send(_BINARY, bytes([_STDIN]) + data)
        await self._writer.drain()

    async def close_input(self) -> None:
        if self._protocol.startswith("v5"):
            self._send(_BINARY, bytes([_CLOSE, _STDIN]))
            await self._writer.drain()

    async def resize(self, *, rows: int, columns: int) -> None:
        size = json.dumps({"Width": columns, "Height": rows}).encode()
        self._send(_BINARY, bytes([_RESIZE]) + size)

    async def wait(self) -> int:
        return await asyncio.shield(self._code)

    async def close(self) -> None:
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        self._writer.close()
        with contextlib.suppress(OSError):
            await self._writer.wait_closed()

    async def _receive(self) -> None:
        try:
            while True:
                opcode, data = await self._frame()
                if opcode == _CLOSING:
                    return
                if opcode == _PING:
                    self._send(_PONG, data)
                elif opcode in (_BINARY, _TEXT) and data:
                    self._take(data[0], data[1:])
        except (asyncio.IncompleteReadError, OSError):
            return
        finally:
            self._queue.put_nowait(None)
            if not self._code.done():
                self._code.set_result(0)

    def _take(self, channel: int, data: bytes) -> None:
        if channel in _STREAMS and data:
            self._queue.put_nowait(Output(_STREAMS[channel], data))
        elif channel == _ERROR and data and not self._code.done():
            self._code.set_result(exit_code(data))

    async def _frame(self) -> tuple[int, bytes]:
        """One message, put together from its frames."""
        message, kind = b"", 0
        while True:
            first, second = await self._reader.readexactly(2)
            length = second & 0x7F
            if length == 126:
                (length,) = struct.unpack(">H", await self._reader.readexactly(2))
            elif length == 127:
                (length,) = struct.unpack(">Q", await self._reader.readexactly(8))
            opcode = first & 0x0F
            data = await self._reader.readexactly(length)
            if opcode >= 8:
                return opcode, data
            kind = opcode or kind
            message += data
            if first & 0x80:
                return kind, message

    def _send(self, opcode: int, data: bytes) -> None:
        mask = os.urandom(4)
        if len(data) < 126:
            head = struct.pack(">BB", 0x80 | opcode, 0x80 | len(data))
        elif len(data) < 65536:
            head = struct.pack(">BBH", 0x80 | opcode, 0x80 | 126, len(data))
        else:
            head = struct.pack(">BBQ", 0x80 | opcode, 0x80 | 127, len(data))
        stream = (mask * (len(data) // 4 + 1))[: len(data)]
        masked = (int.from_bytes(data, "big") ^ int.from_bytes(stream, "big")).to_bytes(len(data), "big")
        self._writer.write(head + mask + masked)


def exit_code(status: bytes) -> int:
    """The exit code in a Status document."""
    try:
        document = json.loads(status)
    except ValueError:
        return 1
    if document.get("status") == "Success":
        return 0
    for cause in (document.get("details") or {}).get("causes") or []:
        if cause.get("reason") == "ExitCode":
            return int(cause["message"])
    return 1

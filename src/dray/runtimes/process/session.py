"""Interactive sessions: the supervisor is given the descriptors, and the bytes do not pass through it."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import json
import os
import pty
import socket
import struct
import termios
from collections.abc import AsyncIterator, Sequence
from typing import TYPE_CHECKING, Any, Self

from dray.runtimes.interface import Output, RuntimeFailure

if TYPE_CHECKING:
    from dray.runtimes.process import protocol


class _Session:
    """A connection to the supervisor for this session alone, and the near ends of its streams."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer
        self._outputs: dict[str, int] = {}
        self._queue: asyncio.Queue[Output | None] = asyncio.Queue()
        self._open = 0

    def _watch(self, stream: str, handle: int) -> None:
        os.set_blocking(handle, False)
        self._outputs[stream] = handle
        self._open += 1
        asyncio.get_running_loop().add_reader(handle, self._ready, stream, handle)

    def _ready(self, stream: str, handle: int) -> None:
        try:
            data = os.read(handle, 65536)
        except BlockingIOError:
            return
        except OSError:  # a terminal whose other side is closed
            data = b""
        if data:
            self._queue.put_nowait(Output(stream, data))
            return
        self._unwatch(stream)
        self._open -= 1
        if not self._open:
            self._queue.put_nowait(None)

    def _unwatch(self, stream: str) -> None:
        handle = self._outputs.pop(stream, None)
        if handle is not None:
            asyncio.get_running_loop().remove_reader(handle)
            os.close(handle)

    async def output(self) -> AsyncIterator[Output]:
        while (piece := await self._queue.get()) is not None:
            yield piece

    async def _message(self) -> protocol.Reply:
        line = await self._reader.readline()
        if not line:
            raise RuntimeFailure("RuntimeGone", "the supervisor of the containers is gone")
        message: protocol.Reply = json.loads(line)
        return message

    async def close(self) -> None:
        for stream in list(self._outputs):
            self._unwatch(stream)
        self._writer.close()
        with contextlib.suppress(OSError):
            await self._writer.wait_closed()


async def _request(connection: socket.socket, request: dict[str, Any], handles: Sequence[int]) -> Any:
    """Sends the request with its descriptors, closes them here, and returns the streams and the answer."""
    try:
        socket.send_fds(connection, [json.dumps({"request": 1, **request}).encode() + b"\n"], list(handles))
    finally:
        for handle in handles:
            os.close(handle)
    reader, writer = await asyncio.open_unix_connection(sock=connection)
    line = await reader.readline()
    answer: protocol.Reply = (
        json.loads(line) if line else {"error": "the supervisor of the containers is gone"}
    )
    if "error" in answer:
        writer.close()
        raise RuntimeFailure("ExecError", answer["error"])
    return reader, writer


class CommandSession(_Session):
    """A command that was started for this session."""

    _input: int | None = None
    _terminal: int | None = None

    @classmethod
    async def open(
        cls, connection: socket.socket, container: str, command: Sequence[str], *, tty: bool, stdin: bool
    ) -> Self:
        request = {"do": "exec", "id": container, "argv": list(command), "tty": tty}
        if tty:
            near, far = pty.openpty()
            ins, outs, errs = near, near, -1
            handles = [far]
        else:
            far_in, ins = os.pipe() if stdin else (os.open(os.devnull, os.O_RDONLY), -1)
            outs, far_out = os.pipe()
            errs, far_err = os.pipe()
            handles = [far_in, far_out, far_err]
        near_ends = {h for h in (ins, outs, errs) if h >= 0}
        try:
            session = cls(*await _request(connection, request, handles))
        except BaseException:
            for handle in near_ends:
                os.close(handle)
            raise
        if tty:
            session._terminal = outs
        session._input = os.dup(ins) if tty else (ins if ins >= 0 else None)
        session._watch("stdout", outs)
        if errs >= 0:
            session._watch("stderr", errs)
        return session

    async def write(self, data: bytes) -> None:
        if self._input is not None:
            with contextlib.suppress(BrokenPipeError):
                await asyncio.to_thread(_write_all, self._input, data)

    async def close_input(self) -> None:
        if self._input is None:
            return
        if self._terminal is not None:
            await self.write(b"\x04")
        else:
            os.close(self._input)
            self._input = None

    async def resize(self, *, rows: int, columns: int) -> None:
        if self._terminal is not None and "stdout" in self._outputs:
            fcntl.ioctl(self._terminal, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    async def wait(self) -> int:
        return int((await self._message())["exited"])

    async def close(self) -> None:
        if self._input is not None:
            os.close(self._input)
            self._input = None
        await super().close()


class AttachedSession(_Session):
    """The container's own input and output."""

    _container = ""
    _asking: asyncio.Lock

    @classmethod
    async def open(cls, connection: socket.socket, container: str, *, tty: bool, stdin: bool) -> Self:
        outs, far_out = os.pipe()
        errs, far_err = os.pipe()
        try:
            session = cls(*await _request(connection, {"do": "attach", "id": container}, [far_out, far_err]))
        except BaseException:
            os.close(outs)
            os.close(errs)
            raise
        session._container = container
        session._asking = asyncio.Lock()
        session._watch("stdout", outs)
        session._watch("stderr", errs)
        return session

    async def _ask(self, do: str, **arguments: Any) -> None:
        request = {"request": 2, "do": do, "id": self._container, **arguments}
        async with self._asking:  # answers come in the order of questions
            self._writer.write(json.dumps(request).encode() + b"\n")
            await self._message()

    async def write(self, data: bytes) -> None:
        await self._ask("input", data=data.hex(), end=False)

    async def close_input(self) -> None:
        await self._ask("input", data="", end=True)

    async def resize(self, *, rows: int, columns: int) -> None:
        await self._ask("resize", rows=rows, columns=columns)

    async def wait(self) -> int:
        return 0


def _write_all(handle: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(handle, view) :]

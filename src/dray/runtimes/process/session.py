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
from dray.runtimes.process import terminals

if TYPE_CHECKING:
    from dray.runtimes.process import protocol


#: Output that is held for a client who does not read it. The command waits when it has written more.
_MAX_UNREAD_BYTES = 256 << 10


class _Session:
    """A connection to the supervisor for this session alone, and the near ends of its streams."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer
        self._outputs: dict[str, int] = {}
        self._queue: asyncio.Queue[Output | None] = asyncio.Queue()
        self._unread = 0
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
            self._unread += len(data)
            if self._unread >= _MAX_UNREAD_BYTES:
                for paused in self._outputs.values():
                    asyncio.get_running_loop().remove_reader(paused)
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
            waited = self._unread >= _MAX_UNREAD_BYTES
            self._unread -= len(piece.data)
            if waited and self._unread < _MAX_UNREAD_BYTES:
                for stream, handle in self._outputs.items():
                    asyncio.get_running_loop().add_reader(handle, self._ready, stream, handle)
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
    try:
        line = await reader.readline()
        answer: protocol.Reply = (
            json.loads(line) if line else {"error": "the supervisor of the containers is gone"}
        )
        if "error" in answer:
            raise RuntimeFailure("ExecError", answer["error"])
    except (
        BaseException
    ):  # also who waits no longer: the supervisor ends the command when the connection ends
        writer.close()
        raise
    return reader, writer


class CommandSession(_Session):
    """A command that was started for this session."""

    _input: int | None = None
    _terminal: int | None = None
    _room: asyncio.Future[None] | None = None  # present while the command does not read

    @classmethod
    async def open(
        cls, connection: socket.socket, container: str, command: Sequence[str], *, process: int, stdin: bool
    ) -> Self:
        """With a ``process`` of the container the command gets a terminal; 0 for none."""
        tty = process > 0
        request = {"do": "exec", "id": container, "argv": list(command), "tty": tty}
        if tty:
            near, far = open_terminal(process)
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
        if session._input is not None:
            os.set_blocking(session._input, False)
        session._watch("stdout", outs)
        if errs >= 0:
            session._watch("stderr", errs)
        return session

    async def write(self, data: bytes) -> None:
        view = memoryview(data)
        while view and self._input is not None:
            try:
                view = view[os.write(self._input, view) :]
            except BlockingIOError:
                await self._wait_for_room(self._input)
            except OSError:  # the command has closed its input
                return

    async def _wait_for_room(self, handle: int) -> None:
        loop = asyncio.get_running_loop()
        self._room = room = loop.create_future()
        loop.add_writer(handle, self._go_on)
        try:
            await room
        finally:
            self._room = None
            if self._input is not None:
                loop.remove_writer(handle)

    def _release_input(self) -> None:
        if self._input is not None:
            asyncio.get_running_loop().remove_writer(self._input)
            os.close(self._input)
            self._input = None
        self._go_on()

    def _go_on(self) -> None:
        if self._room is not None and not self._room.done():
            self._room.set_result(None)

    async def close_input(self) -> None:
        if self._input is None:
            return
        if self._terminal is not None:
            await self.write(b"\x04")
        else:
            self._release_input()

    async def resize(self, *, rows: int, columns: int) -> None:
        if self._terminal is not None and "stdout" in self._outputs:
            fcntl.ioctl(self._terminal, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    async def wait(self) -> int:
        return int((await self._message())["exited"])

    async def close(self) -> None:
        self._release_input()
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


def open_terminal(process: int) -> tuple[int, int]:
    """Both ends of a terminal that a container finds in its /dev/pts, by a process of it. Where it has none of its own,
    the terminal is one of the host's, which works but has no name there."""
    try:
        return terminals.open_in(f"/proc/{process}/root/dev/pts/ptmx")
    except OSError:
        return pty.openpty()

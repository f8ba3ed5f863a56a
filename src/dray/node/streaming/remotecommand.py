"""A session and the client at its other end, whatever way the bytes travel in between."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import TYPE_CHECKING, NamedTuple, TypedDict, cast

from dray.api.errors import StatusError
from dray.runtimes.interface import RuntimeFailure, Session

if TYPE_CHECKING:
    from dray.api.types.meta import Status

Start = Callable[[], Awaitable[Session]]
SendOutput = Callable[[str, bytes], Awaitable[None]]


class TerminalSize(NamedTuple):
    """Of a terminal."""

    rows: int
    columns: int


async def run_session(
    start: Start,
    *,
    stdin: AsyncIterator[bytes] | None,
    sizes: AsyncIterator[TerminalSize],
    send_output: SendOutput,
) -> Status:
    """Opens a session, carries it to its end, and says as a Status how it ended. ``stdin`` ends with the input."""
    try:
        session = await start()
    except StatusError as e:
        return cast("Status", e.status())
    feeding = [asyncio.create_task(_resize(session, sizes))]
    if stdin is not None:
        feeding.append(asyncio.create_task(_feed(session, stdin)))
    try:
        async for piece in session.output():
            await send_output(piece.stream, piece.data)
        return exit_status(await session.wait())
    except RuntimeFailure as e:
        return cast("Status", StatusError(str(e), code=500, reason="InternalError").status())
    finally:
        for task in feeding:
            task.cancel()
        await asyncio.gather(*feeding, return_exceptions=True)
        await session.close()


async def _feed(session: Session, stdin: AsyncIterator[bytes]) -> None:
    async for data in stdin:
        await session.write(data)
    await session.close_input()


async def _resize(session: Session, sizes: AsyncIterator[TerminalSize]) -> None:
    async for size in sizes:
        await session.resize(rows=size.rows, columns=size.columns)


def exit_status(code: int) -> Status:
    """How a command ended, as a Status."""
    if code == 0:
        return {"metadata": {}, "status": "Success"}
    return {
        "metadata": {},
        "status": "Failure",
        "message": f"command terminated with non-zero exit code: exit status {code}",
        "reason": "NonZeroExitCode",
        "details": {"causes": [{"reason": "ExitCode", "message": str(code)}]},
    }


#: More than any terminal's size takes.
MAX_SIZE_BYTES = 512


class _Size(TypedDict):
    Height: int
    Width: int


def parse_terminal_size(message: bytes | str) -> TerminalSize | None:
    """A terminal's size as clients write it, or None if this is not one."""
    if len(message) > MAX_SIZE_BYTES:
        return None
    try:
        size: _Size = json.loads(message)
        rows, columns = int(size["Height"]), int(size["Width"])
    except (ValueError, KeyError, TypeError, OverflowError):
        return None
    return TerminalSize(rows, columns) if 0 <= min(rows, columns) <= max(rows, columns) < 1 << 16 else None

"""The dashboard of ``dray up``. Its port is open from the start; its process is started by the first visitor.

The process is another one, so that what it works out takes no time from the API server's loop, and it ends some time
after the last visitor has gone, so that a cluster nobody looks at pays nothing for it.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import secrets
import socket
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from dray.app.options import Address, listen
from dray.app.pki import write_private

log = logging.getLogger(__name__)

DEFAULT_PORT: Final = 8010
_IDLE_SECONDS: Final = 120.0
_PAUSE_SECONDS: Final = 1.0


@dataclass(frozen=True, slots=True)
class Dashboard:
    """A socket that listens, and what a browser must know."""

    listener: socket.socket
    token: str

    @property
    def url(self) -> str:
        host, port = self.listener.getsockname()[:2]
        return page_url(host, port, self.token)


def page_url(host: str, port: int, token: str) -> str:
    """The address to open in a browser; without a token, the one to which the reader has to add it."""
    name = "127.0.0.1" if host in ("0.0.0.0", "::") else f"[{host}]" if ":" in host else host
    return f"http://{name}:{port}/{f'?token={token}' if token else ''}"


def open_dashboard(address: Address, data: Path) -> Dashboard:
    """The token stays the same from start to start, so that a page that is open goes on."""
    kept = data / "ui-token"
    token = kept.read_text().strip() if kept.exists() else ""
    if not token:
        token = secrets.token_urlsafe(32)
        write_private(kept, token.encode())
    return Dashboard(listen(address), token)


async def run_dashboard(dashboard: Dashboard, kubeconfig: Path) -> None:
    """Start the process whenever somebody knocks and none runs."""
    listener = dashboard.listener
    while True:
        await _knock(listener)
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-c", "from dray.cli import main; main()", "ui", "--kubeconfig", str(kubeconfig),
            "--listen-fd", str(listener.fileno()), "--idle", str(_IDLE_SECONDS),
            stdin=asyncio.subprocess.DEVNULL, pass_fds=(listener.fileno(),),
            env={**os.environ, "DRAY_UI_TOKEN": dashboard.token},
        )  # fmt: skip
        try:
            code = await process.wait()
        finally:
            if process.returncode is None:
                with contextlib.suppress(ProcessLookupError):
                    process.terminate()
                await process.wait()
        if code:
            log.warning("the dashboard ended with code %d; the next visitor starts it again", code)
            await asyncio.sleep(_PAUSE_SECONDS)


async def _knock(listener: socket.socket) -> None:
    """Wait until somebody connects, without accepting."""
    loop = asyncio.get_running_loop()
    knocked = asyncio.Event()
    loop.add_reader(listener.fileno(), knocked.set)
    try:
        await knocked.wait()
    finally:
        loop.remove_reader(listener.fileno())

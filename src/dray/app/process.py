"""Running in the foreground: an event loop, signals, and a clean end."""

from __future__ import annotations

import asyncio
import gc
import logging
import resource
import signal
from collections.abc import Coroutine
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Any, Final

from dray.app.options import ServerOptions

if TYPE_CHECKING:
    from dray.app.server import RunningServer

#: File descriptors that are enough for every connection and pod of a process.
_DESCRIPTORS: Final = 65_536


def raise_descriptor_limit() -> None:
    """Take as many file descriptors as the process may have: many shells allow a few hundred until asked for more."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _DESCRIPTORS if hard == resource.RLIM_INFINITY else min(hard, _DESCRIPTORS)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def run_loop(main: Coroutine[Any, Any, None]) -> None:
    """Run on uvloop where it is installed."""
    raise_descriptor_limit()
    try:
        import uvloop
    except ImportError:
        asyncio.run(main)
    else:
        uvloop.run(main)


def setup_logging() -> None:
    """Records with ``detail`` are for the log of a part of the control plane, not for a terminal."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname).1s %(name)s %(message)s")
    for handler in logging.getLogger().handlers:
        handler.addFilter(lambda record: not getattr(record, "detail", False))


def pause_gc() -> None:
    """Hardly anything that is made at start is garbage: the collector does not run until ``tune_gc``."""
    gc.disable()


def tune_gc() -> None:
    """What was made at start stays for good, and most of what requests make dies young: collect less often.

    Nothing is collected here: it would hold the loop, which serves clients already, and it would find nothing.
    """
    gc.enable()
    gc.freeze()
    gc.set_threshold(50_000, 100, 20)


def shutdown_event() -> asyncio.Event:
    """Set by the first SIGINT or SIGTERM; a second one ends the process at once."""
    loop = asyncio.get_running_loop()
    event = asyncio.Event()

    def on_signal(number: signal.Signals) -> None:
        event.set()
        loop.remove_signal_handler(number)

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, on_signal, number)
    return event


def run_api_server(options: ServerOptions) -> None:
    """The API server alone."""
    setup_logging()
    run_loop(_serve(options))


async def _serve(options: ServerOptions) -> None:
    from dray.app import datadir
    from dray.app.server import run_server

    end = shutdown_event()
    with datadir.locked(options.data):
        await _until(end, run_server(options), options)


async def _until(
    end: asyncio.Event, running: AbstractAsyncContextManager[RunningServer], options: ServerOptions
) -> None:
    async with running as server:
        tune_gc()
        print(f"dray: API server ready on {server.url}", flush=True)
        print(f"dray: kubeconfig: {options.kubeconfig_path}", flush=True)
        await end.wait()

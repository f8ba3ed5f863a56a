"""Lifecycle hooks: what a container wants done after its start (postStart) and before its end (preStop)."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from dray.node.prober import http_get, port_number, tcp_connect
from dray.runtimes.interface import Runtime, RuntimeFailure

if TYPE_CHECKING:
    from dray.api.types.core import Container, LifecycleHandler

#: Seconds that a hook after the start may take.
POST_START_TIMEOUT = 60.0


async def run_hook(
    runtime: Runtime,
    container: str,
    spec: Container,
    hook: LifecycleHandler,
    *,
    address: str,
    timeout: float,
) -> str:
    """Runs a lifecycle hook of a container; returns what went wrong, if anything. ``address`` is the pod's."""
    try:
        async with asyncio.timeout(timeout):
            return await _run_hook(runtime, container, spec, hook, address=address, timeout=timeout)
    except TimeoutError:
        return f"timed out after {timeout:g}s"
    except (RuntimeFailure, OSError, ValueError) as e:
        return str(e)


async def _run_hook(
    runtime: Runtime,
    container: str,
    spec: Container,
    hook: LifecycleHandler,
    *,
    address: str,
    timeout: float,
) -> str:
    if command := (hook.get("exec") or {}).get("command"):
        result = await runtime.exec_sync(container, command, timeout=timeout)
        return f"command exited with {result.exit_code}" if result.exit_code else ""
    if seconds := (hook.get("sleep") or {}).get("seconds"):
        await asyncio.sleep(min(float(seconds), timeout))
    if http := hook.get("httpGet"):
        # Whatever the answer is, the container has heard of it.
        await http_get(http, port_number(spec, http["port"]), address)
    if tcp := hook.get("tcpSocket"):
        await tcp_connect(tcp, port_number(spec, tcp["port"]), address)
    return ""

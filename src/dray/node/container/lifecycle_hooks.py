"""Lifecycle hooks: what a container wants done after its start (postStart) and before its end (preStop)."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from dray.runtimes.interface import Runtime, RuntimeFailure

if TYPE_CHECKING:
    from dray.api.types.core import LifecycleHandler

#: Seconds that a hook after the start may take.
POST_START_TIMEOUT = 60.0


async def run_hook(runtime: Runtime, container: str, hook: LifecycleHandler, *, timeout: float) -> str:
    """Runs a lifecycle hook; returns what went wrong, if anything."""
    try:
        if command := (hook.get("exec") or {}).get("command"):
            result = await runtime.exec_sync(container, command, timeout=timeout)
            return f"command exited with {result.exit_code}" if result.exit_code else ""
        if seconds := (hook.get("sleep") or {}).get("seconds"):
            await asyncio.sleep(min(float(seconds), timeout))
    except TimeoutError:
        return f"timed out after {timeout:g}s"
    except RuntimeFailure as e:
        return str(e)
    return ""

"""A driver as a program: options from the environment, the cluster from a kubeconfig or the pod that it runs in."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import socket
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from dray.api.errors import StatusError
from dray.client.config import ConfigError
from dray.driver.base import Driver
from dray.driver.plugin import Options, Plugin, serving

if TYPE_CHECKING:
    from dray.client.client import Client

log = logging.getLogger(__name__)

#: Seconds after which a driver says that no kubelet has registered it.
REGISTRATION_SECONDS = 5.0


def options_from(environ: Mapping[str, str]) -> Options:
    """The variables are those of the public example driver, which charts of drivers commonly set."""
    kubelet = Path(environ.get("KUBELET_DIRECTORY_PATH", "/var/lib/kubelet"))
    plugins = environ.get("KUBELET_PLUGINS_DIRECTORY_PATH")
    driver = environ.get("DRIVER_NAME", "")
    return Options(
        node=environ.get("NODE_NAME") or socket.gethostname(),
        kubelet_dir=kubelet,
        registry_dir=Path(environ.get("KUBELET_REGISTRAR_DIRECTORY_PATH") or kubelet / "plugins_registry"),
        data_dir=Path(plugins) / driver if plugins and driver else None,
        cdi_dir=Path(environ.get("CDI_ROOT", "/var/run/cdi")),
        instance=environ.get("POD_UID", ""),
    )


def main(driver: Driver, *, options: Options | None = None, kubeconfig: str = "") -> None:
    """Runs a driver until SIGINT or SIGTERM."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s %(message)s")
    options = options or options_from({"DRIVER_NAME": driver.name, **os.environ})
    with contextlib.suppress(KeyboardInterrupt, asyncio.CancelledError):
        try:
            asyncio.run(_run(driver, options, kubeconfig))
        except (ConfigError, StatusError) as problem:
            raise SystemExit(f"{driver.name}: {problem}") from None
        except OSError as problem:
            if not problem.filename:
                raise
            raise SystemExit(f"{driver.name}: {problem.filename}: {problem.strerror}") from None


async def _run(driver: Driver, options: Options, kubeconfig: str) -> None:
    from dray.client.factory import connect

    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    assert task is not None
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, task.cancel)
    async with connect(kubeconfig or None) as client:
        await run_program(client, driver, options=options)


async def run_program(
    client: Client, driver: Driver, *, options: Options, warn_after: float = REGISTRATION_SECONDS
) -> None:
    """Runs a driver until it is cancelled. Says where it registered, and at the end which claims still need it."""
    if not options.registry.is_dir():
        log.warning("%s is not there and is made now: so far no kubelet looks into it", options.registry)
    async with serving(client, driver, options=options) as plugin:
        try:
            await _say_when_registered(plugin, warn_after=warn_after)
            await asyncio.Event().wait()
        finally:
            if left := plugin.prepared_claims():
                log.warning(
                    "%s stops on %s with claims prepared: %s. Their pods cannot end before it runs again there",
                    driver.name,
                    options.node,
                    ", ".join(map(str, left)),
                )


async def _say_when_registered(plugin: Plugin, *, warn_after: float) -> None:
    """A kubelet sees the socket at once. If none does, the directory is wrong, or none runs."""
    name, options = plugin.driver.name, plugin.options
    try:
        async with asyncio.timeout(warn_after):
            await plugin.registered()
    except TimeoutError:
        log.warning(
            "nobody has registered %s: no kubelet looks into %s. Set KUBELET_DIRECTORY_PATH to the directory of the "
            "node's kubelet; dray status shows those of its nodes",
            name,
            options.registry,
        )
        await plugin.registered()
    log.info("%s is registered on %s through %s", name, options.node, options.registry)

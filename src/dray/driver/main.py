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
from dray.driver.plugin import Options, serving

if TYPE_CHECKING:
    from dray.client.client import Client

log = logging.getLogger(__name__)


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


async def run_program(client: Client, driver: Driver, *, options: Options) -> None:
    """Runs a driver until it is cancelled, and then says which claims still need it."""
    async with serving(client, driver, options=options) as plugin:
        try:
            await asyncio.Event().wait()
        finally:
            if left := plugin.prepared_claims():
                log.warning(
                    "%s stops on %s with claims prepared: %s. Their pods cannot end before it runs again there",
                    driver.name,
                    options.node,
                    ", ".join(map(str, left)),
                )

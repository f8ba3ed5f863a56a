"""``python -m dray.drivers gpu|nic|cats``: a driver as a program, configured by the variables that its chart sets."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Mapping, Sequence

from dray.api.errors import Forbidden
from dray.driver import main
from dray.drivers.gpu import DRIVER as GPU
from dray.drivers.gpu import GpuDriver, GpuOptions


def gpu_options(environ: Mapping[str, str]) -> GpuOptions:
    def flag(name: str) -> bool:
        return environ.get(name, "").lower() in ("true", "1", "yes")

    return GpuOptions(
        count=int(environ.get("NUM_DEVICES") or 8),
        partitions=int(environ.get("GPU_PARTITIONS") or 0),
        shared=flag("GPU_ALLOW_MULTIPLE_ALLOCATIONS"),
        health=flag("GPU_HEALTH"),
        device_status=flag("GPU_DEVICE_STATUS"),
        metadata=flag("GPU_METADATA"),
    )


def run(argv: Sequence[str], environ: Mapping[str, str]) -> None:
    match list(argv):
        case ["gpu"]:
            main(GpuDriver(gpu_options(environ), name=environ.get("DRIVER_NAME") or GPU))
        case ["nic"]:
            from dray.drivers.nic import NicDriver

            main(NicDriver())
        case ["nic", "controller"]:
            asyncio.run(_nic_controller(environ))
        case ["cats"]:
            from dray.drivers.cats import CatsDriver

            main(CatsDriver(count=int(environ.get("NUM_DEVICES") or 3)))
        case ["cats", "controller"]:
            asyncio.run(_cats_controller(environ))
        case _:
            sys.exit("usage: python -m dray.drivers gpu | nic | nic controller | cats | cats controller")


async def _nic_controller(environ: Mapping[str, str]) -> None:
    from dray.client.factory import connect
    from dray.drivers.nic import Fabric, run_controller

    async with connect() as client:
        await run_controller(client, fabric=Fabric(count=int(environ.get("NUM_DEVICES") or 4)))


async def _cats_controller(environ: Mapping[str, str]) -> None:
    """The classic generation's part in the control plane; immediate claims go to the nodes that are named."""
    from dray.client.factory import connect
    from dray.driver import classic
    from dray.drivers.cats import CatsController, control_plane
    from dray.drivers.cats.install import install_parameters

    nodes = [name for name in environ.get("CAT_NODES", "").split(",") if name]
    controller = CatsController(nodes, count=int(environ.get("NUM_DEVICES") or 3))
    options = classic.Options(leader_election=environ.get("LEADER_ELECTION", "") == "true")
    async with connect() as client:
        try:
            await install_parameters(client)
        except Forbidden as problem:
            sys.exit(
                f"the kind of the cats' parameters is not there, and cannot be created: {problem.message}"
            )
        await control_plane(client, controller, options=options)


if __name__ == "__main__":
    run(sys.argv[1:], os.environ)

"""What device booking costs: processor time of one ``dray up`` on SQLite per life of a pod with a claim.

One process serves, schedules and controls all the time; booking is switched on and off from round to round, in an order
that favours neither. A round creates pods, waits until all are bound, deletes them and waits until their claims are gone.
Processor time is compared, as a busy machine says nothing about the clock. Prints one JSON line.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import random
import signal
import statistics
import sys
from pathlib import Path

from bench_gangs import at_rest, one_round, set_up

from dray.client.client import Client
from dray.client.config import Config
from dray.client.factory import connect
from dray.client.resources import RESOURCE_CLAIMS
from dray.server import beyond_upstream
from dray.server.apiserver import APIServer

#: Tells the process that serves to switch booking on or off.
ON, OFF = signal.SIGUSR1, signal.SIGUSR2


def serve(line: list[str]) -> None:
    """``dray`` with a switch for booking."""
    from dray.cli import main

    install = beyond_upstream.install

    async def install_with_switch(api: APIServer) -> None:
        await install(api)
        claims = api.resources.resource("resource.k8s.io", "resourceclaims")
        assert claims is not None
        booking = claims.companions
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(ON, setattr, claims, "companions", booking)
        loop.add_signal_handler(OFF, setattr, claims, "companions", None)

    beyond_upstream.install = install_with_switch
    sys.argv = ["dray", *line]
    main()


def processor_seconds(pid: int) -> float:
    """Of all threads; those that have ended since are few and short."""
    total = 0
    for thread in Path(f"/proc/{pid}/task").iterdir():
        with contextlib.suppress(OSError):
            total += int((thread / "schedstat").read_text().split()[0])
    return total / 1e9


async def processor_time_per_pod(client: Client, pid: int, namespace: str, *, pods: int) -> float:
    await at_rest(pid)
    began = processor_seconds(pid)
    await one_round(client, namespace, 1, pods, pid=pid)
    while (await client.list(RESOURCE_CLAIMS, namespace)).items:  # noqa: ASYNC110 (asked for, as nothing tells)
        await asyncio.sleep(0.2)
    await at_rest(pid)
    return (processor_seconds(pid) - began) / pods


async def measure(client: Client, pid: int, *, rounds: int, pods: int) -> dict[str, float]:
    await set_up(client, 50, 10)
    found: dict[signal.Signals, list[float]] = {ON: [], OFF: []}
    for number in range(-1, rounds):
        for mode in random.sample((ON, OFF), 2):
            os.kill(pid, mode)
            cost = await processor_time_per_pod(
                client, pid, f"round-{number + 1}-{mode.name.lower()}", pods=pods
            )
            if number >= 0:  # the first round warms up
                found[mode].append(cost)
    ratios = [on / off for on, off in zip(found[ON], found[OFF], strict=True)]
    return {
        "on_us": 1e6 * statistics.mean(found[ON]),
        "off_us": 1e6 * statistics.mean(found[OFF]),
        "share": statistics.mean(ratios) - 1,
        "error": statistics.stdev(ratios) / len(ratios) ** 0.5,
    }


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--server", required=True)
    parser.add_argument("--token", required=True)
    parser.add_argument("--pid", type=int, required=True, help="of the server, started by --serve")
    parser.add_argument("--pods", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=12)
    args = parser.parse_args()
    async with connect(Config(server=args.server, token=args.token, insecure=True)) as client:
        print(json.dumps(await measure(client, args.pid, rounds=args.rounds, pods=args.pods)))


if __name__ == "__main__":
    if sys.argv[1:2] == ["--serve"]:
        serve(sys.argv[2:])
    else:
        asyncio.run(main())

"""``python -m tests.chaos``: a long run, with a seed to repeat it by."""

from __future__ import annotations

import argparse
import asyncio
import random
import sys
import tempfile
from pathlib import Path

from .run import Options, run


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=None, help="default: another one every time")
    parser.add_argument("--pods", type=int, default=2000)
    parser.add_argument("--nodes", type=int, default=20)
    parser.add_argument("--devices", type=int, default=8, help="of each node")
    parser.add_argument("--live", type=int, default=110, help="pods at the same time")
    parser.add_argument("--schedulers", type=int, default=1, help="that work at the same time")
    parser.add_argument("--replicas", type=int, default=1, help="of every scheduler, of which one leads")
    parser.add_argument(
        "--gangs", type=float, default=0.12, help="the share of lives that are those of a gang"
    )
    parser.add_argument("--emulate", default="", help="the release that all parts stand in for")
    parser.add_argument("--store", default="sqlite", help="of the API server, as dray server takes it")
    parser.add_argument(
        "--patience", type=float, default=180, help="seconds for what has to happen in the end"
    )
    parser.add_argument("--keep", type=Path, default=None, help="a directory for logs and data")
    given = parser.parse_args()
    seed = given.seed if given.seed is not None else random.randrange(2**31)
    with tempfile.TemporaryDirectory(prefix="dray-chaos-") as folder:
        data = given.keep or Path(folder)
        data.mkdir(parents=True, exist_ok=True)
        options = Options(
            data=data,
            seed=seed,
            pods=given.pods,
            nodes=given.nodes,
            devices=given.devices,
            live=given.live,
            schedulers=given.schedulers,
            replicas=given.replicas,
            gangs=given.gangs,
            patience=given.patience,
            emulate=given.emulate,
            store=given.store,
        )
        report = asyncio.run(run(options))
    print(report)
    return 1 if report.violations else 0


if __name__ == "__main__":
    sys.exit(main())

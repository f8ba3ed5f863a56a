"""``python -m tests.races``: two schedulers race for the last device, share and counter, a thousand times each."""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
import time
from pathlib import Path

from tests.support.etcd import Etcd
from tests.support.paths import TOOLS

from .run import KINDS, track


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=1000, help="of each kind")
    parser.add_argument("--etcd", default=str(Path(TOOLS) / "etcd"), help="the binary")
    given = parser.parse_args()
    return int(asyncio.run(_races(given.etcd, given.rounds)))


async def _races(binary: str, rounds: int) -> bool:
    """All kinds, each on an etcd of its own. In one event loop: gRPC stays with the first that it sees."""
    failed = False
    for kind in KINDS:
        with tempfile.TemporaryDirectory(prefix="dray-races-") as folder:
            etcd = Etcd(binary, Path(folder))
            await asyncio.to_thread(etcd.start)
            try:
                failed |= await _race(kind, etcd, Path(folder), rounds)
            finally:
                await asyncio.to_thread(etcd.stop)
    return failed


async def _race(kind: str, etcd: Etcd, folder: Path, rounds: int) -> bool:
    began = time.monotonic()
    async with track(kind, f"etcd://{etcd.endpoint}", folder) as race:
        score = await race.rounds(rounds)
    wins = ", ".join(f"{name} {count}" for name, count in sorted(score.wins.items()))
    seconds = time.monotonic() - began
    print(
        f"last {kind}: {score.rounds} rounds in {seconds:.0f} s, won by {wins}; {score.conflicts} bookings refused; "
        f"{len(score.double)} booked twice",
        flush=True,
    )
    for line in score.double[:5]:
        print(f"  {line}")
    return bool(score.double) or len(score.wins) < 2


if __name__ == "__main__":
    sys.exit(main())

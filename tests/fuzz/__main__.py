"""``python -m tests.fuzz``: long runs, from another seed every time."""

from __future__ import annotations

import argparse
import asyncio
import random
import sys
import time

from .targets import TARGETS, run


def main() -> int:
    names = [target.name for target in TARGETS]
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "targets", nargs="*", metavar="TARGET", help=f"some of {', '.join(names)}; default: all"
    )
    parser.add_argument("--seed", type=int, default=None, help="default: another one every time")
    parser.add_argument("--inputs", type=int, default=25_000, help="for each target")
    parser.add_argument(
        "--seconds",
        type=float,
        default=float("inf"),
        help="for each target at most; default: as many as it takes",
    )
    given = parser.parse_args()
    if unknown := set(given.targets) - set(names):
        parser.error(f"there is no target {', '.join(sorted(unknown))}; choose from {', '.join(names)}")
    seed = given.seed if given.seed is not None else random.randrange(2**31)
    for target in TARGETS:
        if given.targets and target.name not in given.targets:
            continue
        began = time.monotonic()
        done = asyncio.run(run(target, seed=seed, steps=given.inputs, seconds=given.seconds))
        print(
            f"{target.name}: {done} inputs from seed {seed} in {time.monotonic() - began:.0f} s, no failure",
            flush=True,
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())

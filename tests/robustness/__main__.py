"""``python -m tests.robustness``: faults by plan and seed on three machines, and a verdict on the history."""

from __future__ import annotations

import argparse
import math
import random
import sys
import tempfile
from pathlib import Path

import uvloop

from tests.support.paths import ROOT

from . import network, one_machine, powerloss
from .faults import FAULTS, impossible
from .run import Options, run


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=None, help="default: another one every time")
    parser.add_argument(
        "--operations", type=int, default=100_000, help="on config maps, beside pods with claims"
    )
    parser.add_argument(
        "--minutes", type=float, default=None, help="end after so long, however few there were"
    )
    parser.add_argument("--least-faults", type=int, default=0, help="go on until there have been so many")
    parser.add_argument("--writers", type=int, default=8)
    parser.add_argument("--pods", type=int, default=40, help="at the same time")
    parser.add_argument("--bookers", type=int, default=6, help="clients that allocate devices themselves")
    parser.add_argument(
        "--patience", type=float, default=60, help="seconds in which writes must succeed again after a fault"
    )
    parser.add_argument(
        "--long-faults", type=float, default=0.15, help="the share of faults that last 15 to 40 s"
    )
    parser.add_argument("--faults", nargs="*", default=[], help=f"these only: {', '.join(FAULTS)}")
    parser.add_argument(
        "--one-machine", action="store_true", help="on SQLite, with power cuts, instead of three machines"
    )
    parser.add_argument("--etcd", default=str(ROOT / ".tools/bin/etcd"), help="the etcd binary")
    parser.add_argument("--keep", type=Path, default=None, help="a directory for logs and data")
    given = parser.parse_args()
    if why := powerloss.unavailable() if given.one_machine else network.unavailable():
        print(why, file=sys.stderr)
        return 2
    known = one_machine.FAULTS if given.one_machine else FAULTS
    if unknown := set(given.faults) - set(known):
        parser.error(f"no such fault: {', '.join(sorted(unknown))}; there are {', '.join(known)}")
    faults = [name for name in given.faults or known if given.one_machine or name not in impossible()]
    for name, reason in () if given.one_machine else impossible().items():
        print(f"without {name}: {reason}", file=sys.stderr)
    seed = given.seed if given.seed is not None else random.randrange(2**31)
    with tempfile.TemporaryDirectory(prefix="dray-robustness-") as folder:
        data = given.keep or Path(folder)
        data.mkdir(parents=True, exist_ok=True)
        options = Options(
            data=data, etcd="" if given.one_machine else given.etcd, seed=seed, operations=given.operations, minutes=given.minutes or math.inf,
            least_faults=given.least_faults, writers=given.writers, pods=given.pods, bookers=given.bookers, faults=faults, long_faults=given.long_faults, patience=given.patience, progress=_tell,
        )  # fmt: skip
        report = uvloop.run(run(options))
    print(report)
    return 1 if report.violations else 0


def _tell(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())

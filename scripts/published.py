"""Runs the published experiment on openb traces, and prints ours beside the published figures as one table.

Results are kept in a directory, so an interrupted run goes on where it was. ``--only-kept`` prints what there is.
"""

from __future__ import annotations

import argparse
import csv
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from dray.simulate import Experiment, Figures, Summary, local_processes, run_all
from dray.simulate.checkpoint import Checkpoint
from dray.simulate.published import read_published

POLICIES = ("random", "dotprod", "gpuclustering", "gpupacking", "bestfit", "fgd")
#: how far means may be from the published ones, in points
ALLOCATED, ALLOCATED_PACKING, FRAGMENTED = 0.3, 0.6, 1.0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--traces", type=Path, required=True, help="directory with the lists and expected.csv"
    )
    parser.add_argument("--keep", type=Path, required=True, help="directory for the results of runs")
    parser.add_argument("--workloads", default="", help="with commas; default: those of expected.csv")
    parser.add_argument("--policies", default=",".join(POLICIES))
    parser.add_argument("--seeds", default="42-51")
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--only-kept", action="store_true", help="run nothing")
    options = parser.parse_args()
    expected: Path = options.traces / "expected.csv"
    with expected.open(newline="") as file:
        known = list(dict.fromkeys(row["workload"] for row in csv.DictReader(file)))
    first, _, last = options.seeds.partition("-")
    seeds = range(int(first), int(last or first) + 1)
    checkpoint = Checkpoint(options.keep, Figures)
    over = 0
    print("| workload | policy | seeds | allocated at 100 % | at 130 % | fragmented at 100 % | at 130 % |")
    print("|---|---|---|---|---|---|---|")
    for workload in options.workloads.split(",") if options.workloads else known:
        pods = options.traces / f"openb_pod_list_{workload}.csv.gz"
        # Some workloads have no published figures.
        published = read_published(expected, pods) if workload in known else {}
        for policy in options.policies.split(","):
            nodes = options.traces / "openb_node_list_gpu_node.csv.gz"
            tasks = [Experiment(nodes, pods, policy, seed) for seed in seeds]
            if options.only_kept:
                runs = [one for task in tasks if (one := checkpoint.load(task)) is not None]
            else:
                with local_processes(options.processes) as executor:
                    runs = run_all(tasks, executor=executor, checkpoint=checkpoint)
            if runs:
                cells = list(_cells(Summary.of(runs), policy, published))
                over += sum("**" in cell for cell in cells)
                print(f"| {workload} | `{policy}` | {len(runs)} | {' | '.join(cells)} |", flush=True)
    print(f"{over} figures are further from the published ones than they may be.", file=sys.stderr)
    return 1 if over else 0


def _cells(
    summary: Summary, policy: str, published: Mapping[tuple[str, str], Mapping[int, float]]
) -> Iterator[str]:
    packing = policy in ("gpupacking", "gpuclustering")
    measures: Sequence[tuple[str, Mapping[int, float], float]] = (
        ("allocated_percent", summary.allocated_percent, ALLOCATED_PACKING if packing else ALLOCATED),
        ("fragmented_percent", summary.fragmented_percent, FRAGMENTED),
    )
    for measure, ours, tolerance in measures:
        theirs = published.get((policy, measure), {})
        for mark in (100, 130):
            text = f"{ours[mark]:.2f} ({theirs[mark]:.2f})" if mark in theirs else f"{ours[mark]:.2f}"
            far = mark in theirs and abs(ours[mark] - theirs[mark]) > tolerance
            yield f"**{text}**" if far else text


if __name__ == "__main__":
    sys.exit(main())

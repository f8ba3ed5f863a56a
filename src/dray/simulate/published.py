"""Published figures of policies on openb traces, read from a CSV file, to be shown beside one's own."""

from __future__ import annotations

from pathlib import Path

from dray.simulate.model import SimulationError
from dray.simulate.openb import read_rows

_COLUMNS = ("workload", "policy", "measure")


def read_published(path: Path, pods: Path) -> dict[tuple[str, str], dict[int, float]]:
    """Policy and measure → figures by percent, for the workload that the name of the list of pods ends with."""
    workload = pods.name.split(".")[0].rpartition("_")[2]
    found: dict[tuple[str, str], dict[int, float]] = {}
    for number, row in read_rows(path, _COLUMNS):
        measure = row["measure"]
        if row["workload"] != workload or not measure.endswith("_mean"):
            continue
        try:
            figures = {int(mark): float(value) for mark, value in row.items() if mark.isdecimal()}
        except ValueError as problem:
            raise SimulationError(f"{path}, line {number}: {problem}") from None
        found[row["policy"].lower(), measure.removesuffix("_mean")] = figures
    if not found:
        raise SimulationError(f"{path}: there are no figures for the workload {workload!r}")
    return found

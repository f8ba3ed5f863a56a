"""Traces in CSV, or in Parquet where pyarrow is installed: one line for each pod.

=============  ======================================================================================
column         what
=============  ======================================================================================
name           of the pod; needed, and no two pods have the same
arrival        seconds; needed
duration       seconds that the pod runs once it is scheduled; empty: it never ends
namespace      ``default`` if there is none
cpu, memory    quantities such as ``4``, ``500m``, ``16Gi``
count          devices; needed if the pod uses any
device_class   of the devices
capacity       what the pod takes of each device, such as ``memory=10Gi;milli=500``
selector       a CEL expression that devices must satisfy
priority       a number
=============  ======================================================================================
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dray.api.quantity import Quantity
from dray.simulate.model import Arrival, SimulationError
from dray.simulate.openb import read_rows
from dray.simulate.sources.shapes import PodShape

COLUMNS = (
    "name", "arrival", "duration", "namespace", "cpu", "memory", "count", "device_class", "capacity", "selector",
    "priority",
)  # fmt: skip
_NEEDED = ("name", "arrival")


@dataclass(frozen=True)
class Trace:
    """A trace, as a workload."""

    path: Path

    def events(self, seed: int = 0) -> Iterator[Arrival]:
        shapes: dict[tuple[str, ...], PodShape] = {}
        names: set[str] = set()
        lines = sorted(self._lines(), key=lambda line: line[0])
        for time, number, row in lines:
            key = tuple(row.get(column) or "" for column in COLUMNS[4:])
            shape = shapes.get(key)
            if shape is None:
                shape = shapes[key] = self._shape(number, row)
            name, namespace = row["name"], row.get("namespace") or "default"
            if (whole := f"{namespace}/{name}") in names:
                raise SimulationError(f"{self.path}, line {number}: pod {whole} is there twice")
            names.add(whole)
            duration = self._seconds(number, row, "duration") if row.get("duration") else None
            yield Arrival(time, *shape.make(name, namespace), duration)

    def _lines(self) -> Iterator[tuple[float, int, dict[str, str]]]:
        rows = _parquet(self.path) if self.path.suffix == ".parquet" else read_rows(self.path, _NEEDED)
        for number, row in rows:
            unknown = [column for column in row if column not in COLUMNS]
            if unknown:
                raise SimulationError(
                    f"{self.path}: column {', '.join(unknown)} is not known; known are {', '.join(COLUMNS)}"
                )
            yield self._seconds(number, row, "arrival"), number, row

    def _seconds(self, number: int, row: dict[str, str], column: str) -> float:
        try:
            seconds = float(row[column])
        except ValueError:
            seconds = float("nan")
        if not 0 <= seconds < float("inf"):
            raise SimulationError(
                f"{self.path}, line {number}: {column} is {row[column]!r}; it must be a number of seconds, not negative"
            )
        return seconds

    def _shape(self, number: int, row: dict[str, str]) -> PodShape:
        where = f"{self.path}, line {number}"
        try:
            count, priority = int(row.get("count") or 0), int(row.get("priority") or 0)
        except ValueError as problem:
            raise SimulationError(f"{where}: {problem}") from None
        if count < 0 or (count and not row.get("device_class")):
            raise SimulationError(f"{where}: a pod with a count of {count} needs a device_class")
        capacity: dict[str, str] = {}
        for part in filter(None, (row.get("capacity") or "").split(";")):
            name, equals, amount = part.partition("=")
            if not equals:
                raise SimulationError(f"{where}: capacity {part!r} is not of the form name=quantity")
            capacity[name.strip()] = amount.strip()
        for text in (row.get("cpu"), row.get("memory"), *capacity.values()):
            if text:
                try:
                    Quantity.parse(text)
                except ValueError:
                    raise SimulationError(f"{where}: {text!r} is not a quantity") from None
        return PodShape(
            cpu=row.get("cpu") or "",
            memory=row.get("memory") or "",
            count=count,
            device_class=row.get("device_class") or "",
            capacity=capacity,
            selector=row.get("selector") or "",
            priority=priority,
        )


def _parquet(path: Path) -> Iterator[tuple[int, dict[str, str]]]:
    parquet = pyarrow_parquet()
    try:
        table: Any = parquet.read_table(path)
    except Exception as problem:  # whatever pyarrow says of a file that is none of its own
        raise SimulationError(f"{path}: not a Parquet file: {' '.join(str(problem).split())}") from None
    missing = [column for column in _NEEDED if column not in table.column_names]
    if missing:
        raise SimulationError(f"{path}: column {', '.join(missing)} is missing")
    for number, row in enumerate(table.to_pylist(), 1):
        yield number, {column: "" if value is None else str(value) for column, value in row.items()}


def pyarrow_parquet() -> Any:
    try:
        from pyarrow import parquet
    except ImportError:
        raise SimulationError(
            "Parquet needs pyarrow: install it with pip install 'dray[simulate]', or use CSV"
        ) from None
    return parquet

"""Results as tables: pods and samples, in CSV or Parquet. A file is there as a whole or not at all."""

from __future__ import annotations

import csv
import gzip
import io
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec

from dray import atomicfile
from dray.simulate.model import PodOutcome, Result, Sample, SimulationError
from dray.simulate.sources.trace import pyarrow_parquet

_SUFFIXES = (".csv", ".csv.gz", ".parquet")


def check_name(path: Path) -> None:
    """Raises SimulationError if there is no such form; asked before a long run, not after it."""
    if not path.name.endswith(_SUFFIXES):
        raise SimulationError(f"{path}: results are written as {', '.join(_SUFFIXES)}")
    if path.suffix == ".parquet":
        pyarrow_parquet()


def write_pods(path: Path, results: Sequence[Result]) -> None:
    _write(path, PodOutcome, ((one, pod) for one in results for pod in one.pods))


def write_samples(path: Path, results: Sequence[Result]) -> None:
    _write(path, Sample, ((one, sample) for one in results for sample in one.samples))


def _write(
    path: Path, type_: type[PodOutcome] | type[Sample], rows: Iterator[tuple[Result, PodOutcome | Sample]]
) -> None:
    check_name(path)
    columns = ("policy", "seed", *(field.name for field in msgspec.structs.fields(type_)))
    values = ((one.policy, one.seed, *map(_plain, msgspec.structs.astuple(row))) for one, row in rows)
    if path.suffix == ".parquet":
        atomicfile.write(path, _parquet(columns, values))
        return
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(values)
    content = text.getvalue().encode()
    # Without a time in its header, so that the same results are the same bytes.
    atomicfile.write(path, gzip.compress(content, mtime=0) if path.suffix == ".gz" else content)


def _plain(value: Any) -> Any:
    return " ".join(value) if isinstance(value, tuple) else value


def _parquet(columns: Sequence[str], values: Iterator[tuple[Any, ...]]) -> bytes:
    parquet = pyarrow_parquet()
    import pyarrow

    table = pyarrow.table(dict(zip(columns, map(list, zip(*values, strict=True)), strict=False)))
    buffer = io.BytesIO()
    parquet.write_table(table, buffer)
    return buffer.getvalue()

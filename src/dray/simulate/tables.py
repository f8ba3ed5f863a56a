"""Results as tables: pods, samples and use, in CSV or Parquet. A file is there as a whole or not at all."""

from __future__ import annotations

import csv
import gzip
import io
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from dray import atomicfile
from dray.simulate.model import PodOutcome, Result, Sample, SimulationError, Stay
from dray.simulate.sources.trace import pyarrow_parquet
from dray.simulate.summary import Use, use_over_time

if TYPE_CHECKING:
    from dray.api.types.resource import ResourceSlice

_SUFFIXES = (".csv", ".csv.gz", ".parquet")


def check_name(path: Path) -> None:
    """Raises SimulationError if there is no such form; asked before a long run, not after it."""
    if not path.name.endswith(_SUFFIXES):
        raise SimulationError(f"{path}: results are written as {', '.join(_SUFFIXES)}")
    if path.suffix == ".parquet":
        pyarrow_parquet()


def write_pods(path: Path, results: Sequence[Result]) -> None:
    rows = ((one.policy, one.seed, *msgspec.structs.astuple(pod)) for one in results for pod in one.pods)
    _write(path, (field.name for field in msgspec.structs.fields(PodOutcome)), rows)


def write_samples(path: Path, results: Sequence[Result]) -> None:
    rows = (
        (one.policy, one.seed, *msgspec.structs.astuple(sample)) for one in results for sample in one.samples
    )
    _write(path, (field.name for field in msgspec.structs.fields(Sample)), rows)


def write_use(path: Path, results: Sequence[Result], slices: Sequence[ResourceSlice]) -> None:
    rows = ((one.policy, one.seed, *use) for one in results for use in use_over_time(one, slices))
    _write(path, Use._fields, rows)


def _write(path: Path, fields: Iterable[str], rows: Iterable[tuple[Any, ...]]) -> None:
    check_name(path)
    columns = ("policy", "seed", *fields)
    values = (tuple(map(_plain, row)) for row in rows)
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
    if isinstance(value, Stay):
        return f"{value.node}:{value.began:g}-{value.ended:g}"
    return " ".join(map(_plain, value)) if isinstance(value, tuple) else value


def _parquet(columns: Sequence[str], values: Iterator[tuple[Any, ...]]) -> bytes:
    parquet = pyarrow_parquet()
    import pyarrow

    lists = [list(one) for one in zip(*values, strict=True)] or [[] for _ in columns]
    table = pyarrow.table(dict(zip(columns, lists, strict=True)))
    buffer = io.BytesIO()
    parquet.write_table(table, buffer)
    return buffer.getvalue()

"""Files for ``dray simulate`` that nobody would write in good faith are refused in one line."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import pytest

from dray.simulate.model import SimulationError
from dray.simulate.sources.files import read_cluster, read_workload
from dray.simulate.sources.generator import Generator

DAMAGED = bytearray(gzip.compress(b"name,arrival\n" + b"a,1\n" * 5000, mtime=0))
DAMAGED[12:40] = b"\xff" * 28
TRACES = {
    "nan": b"name,arrival\na,nan\n",
    "endless": b"name,arrival\na,inf\n",
    "negative": b"name,arrival\na,-1\n",
    "digits": b"name,arrival,count\na,1," + b"9" * 5000 + b"\n",
    "a line without end": b"name,arrival\n" + b"a" * 1_000_000 + b",1\n",
    "no text": b"name,arrival\n\xff\xfe,1\n",
    "amount": b"name,arrival,cpu\na,1,nan\n",
}


@pytest.mark.parametrize("data", TRACES.values(), ids=TRACES)
def test_a_trace_that_makes_no_sense_is_refused_in_one_line(tmp_path: Path, data: bytes):
    path = tmp_path / "trace.csv"
    path.write_bytes(data)
    with pytest.raises(SimulationError) as refusal:
        list(read_workload([path]).events(0))
    assert "\n" not in str(refusal.value)


def test_a_trace_whose_compression_is_damaged_is_refused(tmp_path: Path):
    path = tmp_path / "trace.csv.gz"
    path.write_bytes(DAMAGED)
    with pytest.raises(SimulationError):
        list(read_workload([path]).events(0))


@pytest.mark.parametrize("number", ["9e999.0", "1.5e999", "nan", "-1", "9" * 5000], ids=lambda text: text[:9])
def test_a_number_in_a_list_of_nodes_that_is_none_is_refused(tmp_path: Path, number: str):
    path = tmp_path / "nodes.csv"
    path.write_text(f"sn,cpu_milli,memory_mib,gpu,model\nn1,{number},1,0,\n")
    with pytest.raises(SimulationError):
        read_cluster(path)


@pytest.mark.parametrize("odd", [float("nan"), float("inf"), -1.0])
@pytest.mark.parametrize("field", ["rate", "weight", "mean", "low", "high", "sigma"])
def test_a_generator_with_numbers_that_are_none_is_refused(field: str, odd: float):
    if (field, odd) == ("sigma", -1.0):
        return  # a negative deviation draws the same as a positive one
    duration: dict[str, Any] = {
        "distribution": "lognormal",
        "mean": 1.0,
        "low": 0.0,
        "high": 1.0,
        "sigma": 1.0,
    }
    part: dict[str, Any] = {"weight": 1.0, "duration": duration}
    arrivals = {"rate": 1.0}
    for place in (arrivals, part, duration):
        if field in place:
            place[field] = odd
    with pytest.raises(SimulationError):
        Generator.parse({"pods": 1, "arrivals": arrivals, "mix": [part]})

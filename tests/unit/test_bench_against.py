"""``make bench AGAINST=…``: the figures that it finds in what ``make bench`` prints."""

from __future__ import annotations

import importlib.util
from typing import Any

import pytest

from tests.support.paths import ROOT


@pytest.fixture
def bench_against() -> Any:
    spec = importlib.util.spec_from_file_location("bench_against", ROOT / "scripts/bench_against.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_figures_are_found_by_their_label(bench_against: Any) -> None:
    printed = """Pods with claims, 500 nodes × 10 devices
  ready after start, s                            0.6   upstream        3.4      5.7 ×
  create_per_s                                1,412.0   upstream      666.0      2.1 ×
  today's devices, pods_per_s                   120.0      6.0 × classic
allocations/s,    500 nodes x 8 devices      37,094
ResourceSlice: 1.000 ms
store     creates/s with writers                        events/s to watchers
memory         286,527       303,336
"""
    assert bench_against.figures(printed) == {
        "ready after start, s": 0.6,
        "create_per_s": 1412.0,
        "today's devices, pods_per_s": 120.0,
        "allocations/s, 500 nodes x 8 devices": 37094.0,
        "ResourceSlice, ms": 1.0,
        "memory": 286527.0,
        "memory (2)": 303336.0,
    }


def test_a_rate_that_sinks_and_a_time_that_grows_are_worse(
    bench_against: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    here = {"create_per_s": [90.0, 80.0], "ready after start, s": [2.0, 2.0], "resident, MB": [50.0, 50.0]}
    there = {"create_per_s": [100.0, 100.0], "ready after start, s": [1.0, 1.0], "resident, MB": [50.0, 50.0]}
    bench_against.report("api", here, there)
    lines = capsys.readouterr().out.splitlines()
    assert [line.endswith("worse") for line in lines[-3:]] == [True, True, False]
    assert "0.80–0.90" in lines[-3]

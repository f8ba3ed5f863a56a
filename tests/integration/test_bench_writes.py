"""The benchmark of the writes of a pod: its rounds can follow each other, and what it leaves out is put back."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import Any

import pytest

from dray.server.admission import AdmissionChain
from dray.server.managedfields.manager import FieldManager
from tests.support.paths import ROOT


@pytest.fixture(scope="module")
def bench_writes() -> Any:
    spec = importlib.util.spec_from_file_location("bench_writes", ROOT / "scripts/bench_writes.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["bench_writes"] = module
    spec.loader.exec_module(module)
    return module


async def test_every_variant_makes_every_write_of_every_round(bench_writes: Any, tmp_path: Path) -> None:
    options = bench_writes.ServerOptions(
        listen=bench_writes.parse_listen("127.0.0.1:0"),
        data=tmp_path,
        store="memory",
        disable_plugins=bench_writes.WITHOUT_PLUGINS,
    )
    async with bench_writes.run_server(options) as server:
        bench = bench_writes.Bench(server, 3)
        await bench.prepare()
        found = await bench_writes.measure(bench, 1)
    assert list(found) == ["all steps", "managed fields", "rules", "admission", "all three"]
    writes = ["pod", "claim", "claim's status", "binding", "event", "together"]
    assert [list(cost) for rounds in found.values() for cost in rounds] == [writes] * len(found)


def test_steps_that_were_left_out_are_put_back(bench_writes: Any) -> None:
    tracked, admitted = FieldManager.created, AdmissionChain.admit
    with bench_writes.left_out(bench_writes.VARIANTS["all three"]):
        assert FieldManager.created is not tracked
        assert AdmissionChain.admit is not admitted
    assert FieldManager.created is tracked
    assert AdmissionChain.admit is admitted

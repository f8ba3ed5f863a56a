"""``dray simulate`` as scripts call it: one JSON line for each policy, and one line for each mistake."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from dray.cli.commands import dray

NODES = "sn,cpu_milli,memory_mib,gpu,model\n" + "".join(f"n{i},64000,262144,4,G2\n" for i in range(25))
PODS = "name,cpu_milli,memory_mib,num_gpu,gpu_milli\n" + "".join(
    f"p{i:03},4000,4096,1,{share}\n" for i, share in enumerate([1000, 500, 250] * 60)
)


def call(*arguments: str) -> Result:
    return CliRunner().invoke(dray, ["simulate", *arguments])


@pytest.fixture
def trace(tmp_path: Path) -> list[str]:
    (tmp_path / "nodes.csv").write_text(NODES)
    (tmp_path / "pods.csv").write_text(PODS)
    return ["--nodes", str(tmp_path / "nodes.csv"), "--pods", str(tmp_path / "pods.csv")]


def test_openb_prints_one_json_line_for_each_policy(trace: list[str]) -> None:
    done = call(
        "openb",
        *trace,
        "--policy",
        "fgd",
        "--policy",
        "random",
        "--seeds",
        "4-5",
        "--processes",
        "1",
        "-o",
        "json",
    )
    lines = [json.loads(line) for line in done.output.splitlines()]
    assert [line["policy"] for line in lines] == ["fgd", "random"]
    assert lines[0]["seeds"] == [4, 5]
    assert lines[0]["allocated_percent"]["100"] == pytest.approx(100, abs=3)
    assert set(lines[0]) >= {"fragmented_percent", "pods", "seconds"}


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--policy", "tidy"], "there is no device policy 'tidy'"),
        (["--seeds", "a-b"], "'a-b' is not a list of seeds"),
    ],
)
def test_a_mistake_on_the_command_line_is_one_line(
    trace: list[str], arguments: list[str], complaint: str
) -> None:
    done = call("openb", *trace, *arguments)
    assert done.exit_code == 2
    assert complaint in done.output


def test_a_trace_with_a_missing_column_is_one_line_and_nothing_is_written(
    trace: list[str], tmp_path: Path
) -> None:
    Path(trace[3]).write_text("name,cpu_milli\np,1\n")
    done = call("openb", *trace, "-o", "json", "--processes", "1")
    assert done.exit_code == 1
    assert done.output.count("\n") == 1
    assert "column memory_mib, num_gpu, gpu_milli is missing" in done.output

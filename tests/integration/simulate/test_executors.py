"""Many runs: the same bytes wherever they are made, and an interrupted one goes on where it was."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from click.testing import CliRunner
from distributed import LocalCluster

from dray.cli.commands import dray
from dray.simulate.checkpoint import Checkpoint
from dray.simulate.executors import open_executor
from dray.simulate.model import Options, Result, SimulationError
from dray.simulate.runs import Simulation, run_all
from dray.simulate.sources.generator import Generator
from dray.simulate.sources.node_groups import NodeGroups

GROUPS = NodeGroups.parse(
    {
        "classes": [{"metadata": {"name": "gpu"}, "spec": {}}],
        "groups": [
            {
                "name": "a",
                "count": 3,
                "allocatable": {"cpu": "64", "memory": "64Gi"},
                "slices": [{"driver": "gpu.example.com", "count": 4}],
            }
        ],
    }
)
WORKLOAD = Generator.parse(
    {
        "pods": 40,
        "arrivals": {"process": "poisson", "rate": 0.2},
        "mix": [
            {
                "cpu": "1",
                "count": 1,
                "deviceClass": "gpu",
                "duration": {"distribution": "exponential", "mean": 60},
            }
        ],
    }
)
TASKS = [
    Simulation(GROUPS.cluster(), WORKLOAD, Options(policy=policy, seed=seed))
    for policy in ("random", "fgd")
    for seed in (1, 2)
]


@pytest.fixture(scope="module")
def dask() -> Iterator[str]:
    with LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster:
        yield cluster.scheduler_address.replace("tcp://", "dask://")


def encoded(results: list[Result]) -> list[bytes]:
    return [one.encode() for one in results]


def test_one_process_four_processes_and_dask_give_the_same_bytes(dask: str) -> None:
    alone = encoded(run_all(TASKS))
    assert len(set(alone)) == len(TASKS)
    with open_executor(None, 4) as executor:
        assert encoded(run_all(TASKS, executor=executor)) == alone
    with open_executor(dask, 1) as executor:
        assert encoded(run_all(TASKS, executor=executor)) == alone


def test_the_command_line_prints_the_same_on_dask(dask: str, tmp_path: Path) -> None:
    (tmp_path / "nodes.csv").write_text("sn,cpu_milli,memory_mib,gpu,model\nn,64000,262144,4,G2\n")
    (tmp_path / "pods.csv").write_text(
        "name,cpu_milli,memory_mib,num_gpu,gpu_milli\np,1000,1024,1,500\nq,1000,1024,1,1000\n"
    )
    files = ["--nodes", str(tmp_path / "nodes.csv"), "--pods", str(tmp_path / "pods.csv"), "--seeds", "1-2"]
    here = CliRunner().invoke(dray, ["simulate", "openb", *files, "--processes", "1"])
    there = CliRunner().invoke(dray, ["simulate", "openb", *files, "--executor", dask])
    assert (here.exit_code, there.exit_code) == (0, 0)
    assert there.output == here.output


@dataclass(frozen=True)
class Counted:
    """A task that says that it ran, and fails if a file is there."""

    log: str
    number: int

    def run(self) -> dict[str, int]:
        if self.number == 2 and Path(f"{self.log}.fails").exists():
            raise KeyboardInterrupt
        with Path(self.log).open("a") as file:
            file.write(f"{self.number}\n")
        return {"number": self.number}


def test_an_interrupted_run_goes_on_where_it_was(tmp_path: Path) -> None:
    log = tmp_path / "log"
    fails = tmp_path / "log.fails"
    fails.touch()
    tasks = [Counted(str(log), number) for number in range(4)]
    with pytest.raises(KeyboardInterrupt):
        run_all(tasks, checkpoint=Checkpoint(tmp_path / "kept", dict[str, int]))
    fails.unlink()
    found = run_all(tasks, checkpoint=Checkpoint(tmp_path / "kept", dict[str, int]))
    assert found == [{"number": number} for number in range(4)]
    assert log.read_text().split() == ["0", "1", "2", "3"]


def test_kept_results_are_the_same_bytes_and_belong_to_the_content_of_files(tmp_path: Path) -> None:
    checkpoint = Checkpoint(tmp_path / "kept", Result)
    made = run_all(TASKS[:1], checkpoint=checkpoint)
    again = Checkpoint(tmp_path / "kept", Result).load(TASKS[0])
    assert again is not None
    assert again.encode() == made[0].encode()
    assert checkpoint.load(TASKS[1]) is None


@pytest.mark.parametrize(
    ("address", "complaint"),
    [
        ("ray://host:1", "give one such as dask://host:8786"),
        ("dask://host", "give one such as dask://host:8786"),
        ("dask://127.0.0.1:1", "there is no Dask scheduler at 127.0.0.1:1"),
    ],
)
def test_a_wrong_executor_is_one_clear_line(address: str, complaint: str) -> None:
    with pytest.raises(SimulationError, match=complaint), open_executor(address, 1, timeout=0.3):
        pass

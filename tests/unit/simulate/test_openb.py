"""Reading openb traces: what becomes of nodes and pods, and what is said about files that make no sense."""

from __future__ import annotations

import gzip
from dataclasses import replace
from pathlib import Path

import pytest

from dray.simulate.experiment import Experiment, Summary
from dray.simulate.go_random import GoRandom
from dray.simulate.model import SimulationError
from dray.simulate.openb import DRIVER, Documents, NodeList, PodList
from dray.simulate.runs import local_processes, run_all

NODES = "sn,cpu_milli,memory_mib,gpu,model\n" + "".join(
    f"node-{n},{cpu},262144,{gpus},{model}\n"
    for n, (cpu, gpus, model) in enumerate([(64000, 2, "P100"), (96000, 8, "G2"), (8000, 1, "T4")] * 4)
)
PODS = "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,creation_time\n" + "".join(
    f"pod-{n:03},{cpu},4096,{gpus},{share},{spec},{n}\n"
    for n, (cpu, gpus, share, spec) in enumerate(
        [(4000, 1, 460, ""), (8000, 1, 1000, ""), (6000, 2, 1000, "G2|P100"), (2000, 0, 0, "")] * 9
    )
)


@pytest.fixture
def trace(tmp_path: Path) -> tuple[Path, Path]:
    nodes, pods = tmp_path / "nodes.csv.gz", tmp_path / "pods.csv"
    nodes.write_bytes(gzip.compress(NODES.encode()))
    pods.write_text(PODS)
    return nodes, pods


def test_gpus_are_devices_that_can_be_shared(trace: tuple[Path, Path]) -> None:
    cluster = NodeList(trace[0]).cluster()
    assert len(cluster.nodes) == 12
    first = cluster.slices[0]["spec"]
    assert [one["name"] for one in first["devices"]] == ["gpu-0", "gpu-1"]
    assert first["devices"][0]["allowMultipleAllocations"]
    assert first["devices"][0]["capacity"]["milli"]["value"] == "1000"


def test_shares_counts_and_models_become_requests(trace: tuple[Path, Path]) -> None:
    rows = PodList(trace[1]).rows
    documents = Documents()
    requests = [
        claims[0]["spec"]["devices"]["requests"][0]["exactly"] if claims else None
        for _, claims in map(documents.of, rows[:4])
    ]
    assert requests[0] is not None and requests[0]["capacity"] == {"requests": {"milli": "460"}}
    assert requests[1] is not None and requests[1]["count"] == 1
    assert requests[2] is not None and requests[2]["count"] == 2
    assert requests[2]["selectors"] == [
        {"cel": {"expression": f'device.attributes["{DRIVER}"].model in ["G2", "P100"]'}}
    ]
    assert requests[3] is None


def test_pods_are_shuffled_by_the_seed_and_cloned_until_they_ask_for_enough(trace: tuple[Path, Path]) -> None:
    pods = PodList(trace[1])
    one, again, other = (pods.tuned(GoRandom(seed), 60_000) for seed in (1, 1, 2))
    assert one == again != other
    assert 60_000 - 8000 < sum(row.units for row in one) <= 60_000 + 8000
    assert len({row.name for row in one}) == len(one)
    assert sorted(one[:36]) == sorted(pods.rows)
    fewer = pods.tuned(GoRandom(1), 9_000)
    assert sum(row.units for row in fewer) <= 9_000
    assert set(fewer) < set(pods.rows)


@pytest.mark.parametrize(
    ("nodes", "pods", "complaint"),
    [
        ("sn,gpu\na,1\n", PODS, "nodes.csv: column cpu_milli, memory_mib, model is missing"),
        (NODES, "name,cpu_milli\na,1\n", "pods.csv: column memory_mib, num_gpu, gpu_milli is missing"),
        (
            NODES,
            PODS + "x,1,1,1,1000,,-7\n",
            "pods.csv, line 38: creation_time is -7; it must not be negative",
        ),
        (NODES, PODS + "x,many,1,1,1000,,7\n", "line 38: cpu_milli 'many' is not a number"),
        (NODES, PODS + "x,1,1,2,300,,7\n", "line 38: num_gpu 2 with gpu_milli 300: a share is"),
        (NODES, PODS + "x,1,1\n", "line 38: not as many fields as columns"),
        (NODES, "name,cpu_milli,memory_mib,num_gpu,gpu_milli\n", "there is no pod in it"),
    ],
)
def test_a_trace_that_makes_no_sense_is_one_line(
    tmp_path: Path, nodes: str, pods: str, complaint: str
) -> None:
    (tmp_path / "nodes.csv").write_text(nodes)
    (tmp_path / "pods.csv").write_text(pods)
    with pytest.raises(SimulationError) as problem:
        Experiment(tmp_path / "nodes.csv", tmp_path / "pods.csv", "default", 1).run()
    assert complaint in str(problem.value)
    assert "\n" not in str(problem.value)


@pytest.mark.parametrize("policy", ["default", "random", "fgd", "gpuclustering"])
def test_an_experiment_allocates_what_is_asked_for_until_nothing_fits(
    trace: tuple[Path, Path], policy: str
) -> None:
    figures = Experiment(*trace, policy, 3).run()
    first, last = min(figures.allocated_percent), max(figures.allocated_percent)
    assert figures.allocated_percent[first] == pytest.approx(first, abs=3)
    assert figures.allocated_percent[last] > 80
    assert figures.fragmented_percent[last] > figures.fragmented_percent[first]


def test_the_same_seed_gives_the_same_bytes_in_one_process_and_in_several(trace: tuple[Path, Path]) -> None:
    nodes, pods = trace
    cluster, listed = NodeList(nodes).cluster(), PodList(pods)
    one, again = (Experiment(nodes, pods, "random", 5).simulate(cluster, listed).encode() for _ in "ab")
    assert one == again
    experiments = [Experiment(nodes, pods, "fgd", seed) for seed in range(4)]
    with local_processes(2) as executor:
        assert run_all(experiments, executor=executor) == run_all(experiments)


def test_a_summary_has_means_over_seeds(trace: tuple[Path, Path]) -> None:
    one = Experiment(*trace, "bestfit", 1).run()
    mark, value = next(iter(one.allocated_percent.items()))
    other = replace(one, seed=2, allocated_percent={mark: value + 2})
    summary = Summary.of([one, other])
    assert summary.seeds == (1, 2)
    assert summary.allocated_percent[mark] == pytest.approx(value + 1)
    assert summary.allocated_stdev[mark] == pytest.approx(2**0.5)

"""``dray simulate`` as scripts call it: one JSON line for each policy, and one line for each mistake."""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from dray.cli.commands import dray
from dray.placement.policies import registry

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
    assert list(lines[0]) == [
        "policy", "seeds", "allocated_percent", "fragmented_percent", "pods", "seconds",
    ]  # fmt: skip
    assert {"50", "100", "130"} <= set(lines[0]["allocated_percent"]) == set(lines[0]["fragmented_percent"])


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


def test_lists_of_nodes_and_pods_are_a_cluster_and_a_workload(tmp_path: Path) -> None:
    (tmp_path / "nodes.csv").write_text("sn,cpu_milli,memory_mib,gpu,model\nn,64000,262144,1,G2\n")
    columns = "name,cpu_milli,memory_mib,num_gpu,gpu_milli,creation_time,deletion_time,scheduled_time\n"
    (tmp_path / "pods.csv").write_text(
        columns + "q,1000,1024,1,1000,1010,1200,1100\np,1000,1024,1,1000,1000,1060,1000\nr,1,1,0,0,1020,,\n"
    )
    files = ["--cluster", str(tmp_path / "nodes.csv"), "-f", str(tmp_path / "pods.csv")]
    done = call("run", *files, "--pods-to", str(tmp_path / "out.csv"), "--use-to", str(tmp_path / "use.csv"))
    assert done.exit_code == 0, done.output
    pods = {row["pod"]: row for row in csv.DictReader((tmp_path / "out.csv").open())}
    times = {name: (row["arrived"], row["scheduled"], row["ended"]) for name, row in pods.items()}
    assert times == {
        "default/p": ("0.0", "0.0", "60.0"),
        "default/q": ("10.0", "60.0", "160.0"),
        "default/r": ("20.0", "20.0", ""),
    }
    use = list(csv.DictReader((tmp_path / "use.csv").open()))
    assert [(row["time"], row["kind"], row["name"], row["units"]) for row in use] == [
        (time, kind, name, units)
        for time, units in (("0.0", "1000"), ("160.0", "0"))
        for kind, name in (("class", "openb-gpu"), ("model", "G2"), ("node", "n"))
    ]
    Path(files[3]).write_text(columns + "p,1000,1024,1,1000,1000,900,1000\n")
    assert "line 2: the pod is deleted at 900, before 1000" in call("run", *files).output


ADDED = """
- {at: 40, loseNode: n}
- at: 50
  addNodes:
    name: spare
    allocatable: {cpu: "64", memory: 64Gi}
    slices:
    - {driver: gpu.openb.example.com, count: 1, device: {attributes: {model: {string: H100}}}}
"""


def test_events_of_a_file_happen_to_the_cluster(tmp_path: Path) -> None:
    (tmp_path / "nodes.csv").write_text(
        "sn,cpu_milli,memory_mib,gpu,model\nn,64000,262144,1,G2\nm,64000,262144,1,G2\n"
    )
    (tmp_path / "trace.csv").write_text(
        "name,arrival,duration,count,device_class\np,0,100,1,openb-gpu\nq,0,100,1,openb-gpu\n"
    )
    (tmp_path / "events.yaml").write_text("- {at: 40, drainNode: n}\n- {at: 50, loseNode: n}\n")
    files = ["--cluster", str(tmp_path / "nodes.csv"), "-f", str(tmp_path / "trace.csv"), "-o", "json"]
    done = call("run", *files, "--events", str(tmp_path / "events.yaml"))
    assert done.exit_code == 0, done.output
    found = json.loads(done.output)
    assert (found["evictions"], found["ended"], found["seconds"]) == (1, 2, 200)
    # The evicted pod had its device for 40 s before, and that counts, too.
    assert found["device_seconds_by_class"] == {"openb-gpu": 240}
    (tmp_path / "events.yaml").write_text(ADDED)
    use = tmp_path / "use.csv"
    assert call("run", *files, "--events", str(tmp_path / "events.yaml"), "--use-to", str(use)).exit_code == 0
    rows = [(row["time"], row["kind"], row["name"]) for row in csv.DictReader(use.open())]
    assert ("50.0", "model", "H100") in rows
    assert ("50.0", "node", "spare-0") in rows
    (tmp_path / "events.yaml").write_text("- {at: 40, drainNode: gone}\n")
    wrong = call("run", *files, "--events", str(tmp_path / "events.yaml"))
    assert (wrong.exit_code, wrong.output) == (1, "Error: there is no node gone at 40 s\n")


POLICIES = """
from dray.placement.policies import DevicePolicy

class Tidy(DevicePolicy):
    name = "tidy"
    def score(self, request, node):
        return 100 - node.total_free / 80

class Raising(DevicePolicy):
    name = "raising"
    def score(self, request, node):
        raise ValueError("no idea")

nothing = 1
"""


@pytest.fixture
def other_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Policies of an installed package that is not dray."""
    folder = tmp_path / "site"
    metadata = folder / "tidy_policy-1.0.dist-info"
    metadata.mkdir(parents=True)
    (folder / "tidy_policy.py").write_text(POLICIES)
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: tidy-policy\nVersion: 1.0\n")
    names = {"tidy": "Tidy", "raising": "Raising", "nothing": "nothing", "absent": "Absent"}
    points = "".join(f"{name} = tidy_policy:{value}\n" for name, value in names.items())
    (metadata / "entry_points.txt").write_text(f"[dray.policies]\n{points}")
    monkeypatch.syspath_prepend(str(folder))
    registry._installed.cache_clear()
    yield
    sys.modules.pop("tidy_policy", None)
    registry._installed.cache_clear()


@pytest.mark.usefixtures("other_package")
def test_a_policy_of_another_package_is_found_by_its_entry_point(trace: list[str]) -> None:
    done = call("openb", *trace, "--policy", "tidy", "--seeds", "1", "--processes", "1", "-o", "json")
    assert done.exit_code == 0, done.output
    assert json.loads(done.output)["policy"] == "tidy"
    assert "tidy" in registry.policy_names()


@pytest.mark.usefixtures("other_package")
@pytest.mark.parametrize(
    ("policy", "complaint"),
    [
        ("raising", "device policy 'raising' raised ValueError: no idea"),
        ("nothing", "device policy 'nothing': tidy_policy:nothing is not a subclass of DevicePolicy"),
        ("absent", "device policy 'absent' cannot be loaded from tidy_policy:Absent: AttributeError"),
    ],
)
def test_a_policy_of_another_package_that_is_at_fault_is_one_line_and_nothing_is_written(
    trace: list[str], tmp_path: Path, policy: str, complaint: str
) -> None:
    report = tmp_path / "report.html"
    wanted = ["--policy", policy, "--seeds", "1", "--processes", "1", "--report", str(report)]
    done = call("openb", *trace, *wanted)
    assert done.exit_code != 0
    assert complaint in done.output.splitlines()[-1]
    assert "Traceback" not in done.output
    assert not report.exists()

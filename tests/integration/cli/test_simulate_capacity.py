"""``dray simulate capacity``: before and after in one table, and one line for each mistake."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from dray.cli.commands import dray

GROUP = "name: big\nallocatable: {cpu: '4'}\n"
JOB = """
apiVersion: v1
kind: Pod
metadata: {name: web}
spec: {containers: [{name: main, image: i, resources: {requests: {cpu: "2"}}}]}
"""


@pytest.fixture(autouse=True)
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("cluster.yaml").write_text("groups: [{name: small, allocatable: {cpu: '2'}}]")
    Path("group.yaml").write_text(GROUP)
    Path("job.yaml").write_text(JOB)


def call(*arguments: str) -> Result:
    return CliRunner().invoke(
        dray, ["simulate", "capacity", "--cluster", "cluster.yaml", "-f", "job.yaml", *arguments]
    )


def test_before_and_after_stand_in_one_table() -> None:
    done = call("--add-nodes", "group.yaml:3")
    assert done.exit_code == 0, done.output
    rows = [line.split() for line in done.output.splitlines()]
    assert rows[1] == ["before", "1", "0", "-", "1", "-", "cpu", "on", "1", "of", "1", "nodes"]
    assert rows[2] == ["after", "4", "0", "-", "7", "-", "cpu", "on", "4", "of", "4", "nodes"]


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--add-nodes", "group.yaml"], "such as group.yaml:10"),
        (["--add-nodes", "absent.yaml:2"], "there is no file absent.yaml"),
        (["--remove-node", "nobody"], "there is no node nobody"),
        (["--class", "job.yaml"], "--class takes DeviceClasses, not Pod"),
    ],
)
def test_a_mistake_is_one_clear_line(arguments: list[str], complaint: str) -> None:
    done = call(*arguments)
    assert done.exit_code in (1, 2)
    assert complaint in done.output
    assert "Traceback" not in done.output

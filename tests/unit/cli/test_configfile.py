"""The file of ``dray up --config``: what it may say, and one line about what it may not."""

from __future__ import annotations

from pathlib import Path

import click
import pytest

from dray.api import yamldocs
from dray.cli.configfile import camel_case, example, options, read
from dray.cli.up import up

FILE = """
apiVersion: dray.dev/v1
kind: Cluster
emulate: "1.32"
featureGates: {DynamicResourceAllocation: true, DRAAdminAccess: false}
runtimeConfig:
  resource.k8s.io/v1beta1: true
drivers: [gpu, cats]
without: [scheduler, controllers]
nodes: 5
devicePreemption: true
withdrawAfter: 2.5
data: here
store: sqlite:store.db
"""


def parsed(tmp_path: Path, text: str) -> dict[str, object]:
    file = tmp_path / "cluster.yaml"
    file.write_text(text)
    return read(file, click.Context(up))


def test_the_file_says_what_the_command_line_would(tmp_path: Path):
    assert parsed(tmp_path, FILE) == {
        "emulate": "1.32",
        "feature_gates": "DynamicResourceAllocation=true,DRAAdminAccess=false",
        "runtime_config": "resource.k8s.io/v1beta1=true",
        "drivers": "gpu,cats",
        "without": "scheduler,controllers",
        "nodes": 5,
        "device_preemption": True,
        "withdraw_after": 2.5,
        "data": str(tmp_path / "here"),
        "store": f"sqlite:{tmp_path / 'store.db'}",
    }


def test_the_command_line_comes_before_the_file(tmp_path: Path):
    file = tmp_path / "cluster.yaml"
    file.write_text("nodes: 5\ndevices: 2\n")
    ctx = up.make_context("up", ["--nodes", "1", "--config", str(file)])
    assert (ctx.params["nodes"], ctx.params["devices"]) == (1, 2)


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("nodez: 3", "nodez: there is no such option; did you mean nodes?"),
        ("feature-gates: A=true", "feature-gates: it is written featureGates here"),
        ("nodes: many", "nodes: 'many' is not a valid integer range."),
        ("nodes: -1", "nodes: -1 is not in the range x>=0."),
        ("nodes: [1, 2]", "nodes: a single value is expected here"),
        ("emulate: 1.30", "emulate: 1.3 is a number; put the text into quotes"),
        ("devicePreemption: 'yes please'", "devicePreemption: 'yes please' is not true or false"),
        ("devicePolicy: tidy", "devicePolicy: there is no device policy 'tidy'"),
        ("schedulerConfig: nosuch.yaml", "schedulerConfig: File"),
        ("kind: ClusterConfiguration", "kind: ClusterConfiguration: must be Cluster"),
        ("detach: true", "detach: there is no such option"),
        ("- a list", "not a mapping of options to values"),
        ("a: b: c", "not YAML"),
    ],
)
def test_a_mistake_is_one_line_with_the_file_and_the_option(tmp_path: Path, text: str, line: str):
    with pytest.raises(click.ClickException) as problem:
        parsed(tmp_path, text)
    said = problem.value.format_message()
    assert said.startswith(f"{tmp_path / 'cluster.yaml'}: {line}") and "\n" not in said


def test_a_file_that_is_not_there_is_told_how_to_make(tmp_path: Path):
    with pytest.raises(click.ClickException, match=r"write one to start from with: dray config > "):
        read(tmp_path / "nosuch.yaml", click.Context(up))


def test_the_example_has_every_option_and_can_be_read_with_and_without_its_comment_signs(tmp_path: Path):
    text = example(up)
    assert parsed(tmp_path, text) == {}
    uncommented = "\n".join(
        line[1:] if line.startswith("#") and not line.startswith("# ") else line for line in text.splitlines()
    ).replace("#  ", "  ")
    found = yamldocs.load(uncommented)
    assert set(found) == {"apiVersion", "kind", *(camel_case(o.name or "") for o in options(up))}
    assert parsed(tmp_path, uncommented)["runtime_config"] == "resource.k8s.io/v1beta1=true"

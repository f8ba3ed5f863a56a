"""``dray simulate scale-up`` on a snapshot, with the template that ``dray snapshot`` takes from one of its nodes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result

from dray.cli.commands import dray
from dray.simulate.sources.node_groups import NodeGroup, SliceTemplate
from dray.simulate.sources.shapes import PodShape


def call(*arguments: str) -> Result:
    return CliRunner().invoke(dray, arguments)


@pytest.fixture
def snapshot(tmp_path: Path) -> str:
    """A node with two devices, and five pods that wait for one each."""
    slices = [SliceTemplate("gpu.example.com", 2)]
    node, published = NodeGroup("worker", allocatable={"cpu": "8"}, slices=slices).make(0)
    shape = PodShape(cpu="1", count=1, device_class="gpu")
    device_class = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "DeviceClass",
        "metadata": {"name": "gpu"},
        "spec": {},
    }
    items: list[Any] = [node, *published, device_class]
    for number in range(5):
        pod, claims = shape.make(f"p{number}")
        items += [pod, *claims]
    path = tmp_path / "cluster.yaml"
    path.write_text(
        yaml.safe_dump({"apiVersion": "v1", "kind": "List", "items": json.loads(json.dumps(items))})
    )
    return str(path)


def test_nodes_like_a_live_one_let_pending_pods_run(snapshot: str, tmp_path: Path) -> None:
    group = tmp_path / "group.yaml"
    done = call("snapshot", "--snapshot", snapshot, "--node-template", "worker-0", "-f", str(group))
    assert done.exit_code == 0, done.output
    group.write_text(group.read_text().replace("price: 0.0", "price: 1.5"))
    done = call("simulate", "scale-up", "--snapshot", snapshot, "--groups", str(group))
    assert done.exit_code == 0, done.output
    assert "Add 2 × like-worker-0 for 3.00 an hour: 3 of 3 pods run." in done.output


def test_pods_that_nothing_helps_are_said_and_a_missing_node_is_one_line(
    snapshot: str, tmp_path: Path
) -> None:
    (tmp_path / "plain.yaml").write_text("name: plain\nallocatable: {cpu: '8'}\n")
    done = call("simulate", "scale-up", "--snapshot", snapshot, "--groups", str(tmp_path / "plain.yaml"))
    assert (done.exit_code, done.output.splitlines()[-1]) == (3, "3 pods run on none of these groups.")
    wrong = call("snapshot", "--snapshot", snapshot, "--node-template", "nobody")
    assert (wrong.exit_code, wrong.output) == (1, "Error: there is no node nobody\n")


def test_a_template_is_written_as_cluster_autoscaler_wants_it(snapshot: str) -> None:
    done = call(
        "snapshot", "--snapshot", snapshot, "--node-template", "worker-0", "--template-form", "cluster-api"
    )
    assert done.exit_code == 0, done.output
    annotations = yaml.safe_load(done.output)["metadata"]["annotations"]
    prefix = "capacity.cluster-autoscaler.kubernetes.io/"
    assert annotations[f"{prefix}cpu"] == "8"
    assert annotations[f"{prefix}dra-driver"] == "gpu.example.com"
    assert annotations[f"{prefix}gpu-count"] == "2"

"""Clusters and workloads from files, and results as tables."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from dray.explain.model import snapshot
from dray.explain.model.snapshot import Snapshot, SnapshotError
from dray.simulate import (
    Generator,
    Manifests,
    NodeGroups,
    Options,
    SimulationError,
    SnapshotSource,
    Trace,
    simulate,
    summarize,
)
from dray.simulate.model import PodDeleted
from dray.simulate.sources.files import read_workload
from dray.simulate.tables import check_name, write_pods, write_samples

GROUPS = """
classes: [{metadata: {name: gpu}, spec: {selectors: [{cel: {expression: 'device.driver == "gpu.example.com"'}}]}}]
groups:
- name: big
  count: 2
  allocatable: {cpu: "32", memory: 64Gi}
  slices:
  - driver: gpu.example.com
    count: 4
    device: {allowMultipleAllocations: true, capacity: {memory: {value: 80Gi}}}
"""
GENERATOR = """
pods: 60
arrivals: {rate: 0.5}
mix:
- {weight: 3, cpu: "1", count: 1, deviceClass: gpu, capacity: {memory: 20Gi}, duration: {distribution: exponential, mean: 30}}
- {cpu: "2", count: 2, deviceClass: gpu, duration: {mean: 60}}
"""
TRACE = """name,arrival,duration,cpu,count,device_class,capacity,selector
b,5,,1,2,gpu,,
a,0,10.5,500m,1,gpu,memory=40Gi,device.driver.startsWith('gpu')
c,7,1,,,,,
"""


def cluster() -> Any:
    return NodeGroups.parse(yaml.safe_load(GROUPS)).cluster()


def test_node_groups_are_nodes_with_slices() -> None:
    made = cluster()
    assert [node["metadata"]["name"] for node in made.nodes] == ["big-0", "big-1"]
    assert [len(one["spec"]["devices"]) for one in made.slices] == [4, 4]


def test_a_generated_workload_runs_and_is_summed_up() -> None:
    generator = Generator.parse(yaml.safe_load(GENERATOR))
    result = simulate(cluster(), generator.events(1), Options(policy="bestfit", seed=1))
    summary = summarize(result)
    assert (summary.pods, summary.ended, summary.pending) == (60, 60, 0)
    assert 0 < summary.allocated_percent < summary.highest_allocated_percent <= 100
    assert summary.waiting is not None and summary.slowdown is not None
    assert list(generator.events(1)) == list(generator.events(1)) != list(generator.events(2))


def test_a_trace_is_put_in_order_of_time(tmp_path: Path) -> None:
    path = tmp_path / "trace.csv"
    path.write_text(TRACE)
    first, *_ = events = list(Trace(path).events())
    assert [one.pod["metadata"]["name"] for one in events] == ["a", "b", "c"]
    assert first.duration == 10.5
    asked = first.claims[0]["spec"]["devices"]["requests"][0]["exactly"]
    assert asked["capacity"] == {"requests": {"memory": "40Gi"}}
    result = simulate(cluster(), events, Options())
    assert [one.units for one in result.pods] == [500, 2000, 0]


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("x,-1,,,,,,", "line 5: arrival is '-1'; it must be a number of seconds, not negative"),
        ("x,1,-3,,,,,", "duration is '-3'"),
        ("x,1,3,lots,,,,", "'lots' is not a quantity"),
        ("x,1,3,1,2,,,", "a pod with a count of 2 needs a device_class"),
        ("a,9,,,,,,", "pod default/a is there twice"),
    ],
)
def test_a_line_that_makes_no_sense_is_named(tmp_path: Path, line: str, complaint: str) -> None:
    path = tmp_path / "trace.csv"
    path.write_text(TRACE + line + "\n")
    with pytest.raises(SimulationError) as problem:
        list(Trace(path).events())
    assert complaint in str(problem.value)


MANIFESTS = """
apiVersion: resource.k8s.io/v1
kind: ResourceClaimTemplate
metadata: {name: one}
spec: {spec: {devices: {requests: [{name: gpu, exactly: {deviceClassName: gpu}}]}}}
---
apiVersion: scheduling.k8s.io/v1
kind: PriorityClass
metadata: {name: urgent}
value: 50
---
apiVersion: batch/v1
kind: Job
metadata:
  name: train
  annotations: {simulate.dray.dev/arrival: "10", simulate.dray.dev/duration: "100"}
spec:
  parallelism: 3
  template:
    spec:
      priorityClassName: urgent
      restartPolicy: Never
      containers: [{name: main, image: train}]
      resourceClaims: [{name: gpu, resourceClaimTemplateName: one}]
"""


def test_manifests_say_when_pods_come_and_how_long_they_run(tmp_path: Path) -> None:
    path = tmp_path / "job.yaml"
    path.write_text(MANIFESTS)
    workload = read_workload([path])
    assert isinstance(workload, Manifests)
    events: list[Any] = list(workload.events(0))
    assert [(one.time, one.duration, one.pod["spec"]["priority"]) for one in events] == [(10, 100, 50)] * 3
    result = simulate(cluster(), events, Options())
    assert [(one.ended, len(one.devices)) for one in result.pods] == [(110, 1)] * 3
    with pytest.raises(SimulationError, match="there is no ResourceClaimTemplate one in the manifests"):
        list(Manifests(workload.documents[1:]).events())


@pytest.mark.parametrize("suffix", [".csv", ".csv.gz", ".parquet"])
def test_tables_hold_every_pod_and_sample_and_are_the_same_bytes_again(tmp_path: Path, suffix: str) -> None:
    generator = Generator.parse(yaml.safe_load(GENERATOR))
    results = [simulate(cluster(), generator.events(1), Options(seed=1))]
    pods, samples, again = (tmp_path / f"{name}{suffix}" for name in ("pods", "samples", "again"))
    write_pods(pods, results)
    write_samples(samples, results)
    write_pods(again, results)
    assert pods.read_bytes() == again.read_bytes()
    if suffix == ".csv":
        assert len(pods.read_text().splitlines()) == 61
        assert pods.read_text().startswith("policy,seed,pod,arrived,scheduled,ended,node,devices")
    assert sorted(one.name for one in tmp_path.iterdir()) == sorted(p.name for p in (pods, samples, again))


def test_a_form_of_table_that_does_not_exist_is_refused_before_the_run(tmp_path: Path) -> None:
    with pytest.raises(SimulationError, match=r"results are written as \.csv, \.csv\.gz, \.parquet"):
        check_name(tmp_path / "pods.xlsx")


def test_files_that_make_no_sense_are_one_line(tmp_path: Path) -> None:
    with pytest.raises(
        SnapshotError, match=r"a snapshot of version dray\.dev/v9, and this dray reads dray\.dev/v1"
    ):
        snapshot.parse(b'{"apiVersion": "dray.dev/v9", "kind": "Snapshot", "nodes": []}', "file")
    with pytest.raises(SimulationError, match="it has no metadata"):
        list(Manifests([{"groups": []}]).events())
    with pytest.raises(SimulationError, match="unknown field `gpus`"):
        NodeGroups.parse({"groups": [{"name": "a", "gpus": 8}]})
    with pytest.raises(SimulationError, match="rate of arrivals must be positive"):
        Generator.parse({"pods": 1, "arrivals": {"rate": 0}, "mix": [{}]})


def shared_claim_cluster() -> Snapshot:
    claim: Any = {
        "apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim",
        "metadata": {"name": "both", "namespace": "default", "uid": "claim", "resourceVersion": "7"},
        "spec": {"devices": {"requests": [{"name": "gpu", "exactly": {
            "deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 1}}]}},
    }  # fmt: skip
    pods: list[Any] = [
        {
            "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "default", "uid": name},
            "spec": {"containers": [{"name": "c", "resources": {"claims": [{"name": "gpu"}]}}],
                     "resourceClaims": [{"name": "gpu", "resourceClaimName": "both"}]},
        }
        for name in ("a", "b")
    ]  # fmt: skip
    made = cluster()
    return Snapshot(
        nodes=tuple(made.nodes),
        slices=tuple(made.slices),
        classes=tuple(made.classes),
        pods=tuple(pods),
        claims=(claim,),
    )


def test_a_claim_that_two_waiting_pods_share_comes_once_and_both_run_on_its_device() -> None:
    source = SnapshotSource(shared_claim_cluster())
    first, second = source.events(0)
    assert [len(first.claims), len(second.claims)] == [1, 0]
    result = simulate(source.cluster(), [first, second], Options())
    [one, other] = result.pods
    assert one.node == other.node != ""
    assert result.samples[-1].allocated == one.units  # not twice


def test_a_shared_claim_gives_its_device_back_when_its_last_user_is_gone() -> None:
    source = SnapshotSource(shared_claim_cluster())
    first, second = source.events(0)
    events = [replace(first, duration=5.0), replace(second, time=1.0), PodDeleted(9.0, "b")]
    samples = simulate(source.cluster(), events, Options()).samples
    allocated = {sample.time: sample.allocated for sample in samples}
    assert allocated[5.0] == allocated[1.0] > 0
    assert allocated[9.0] == 0

"""What happens to a cluster, from a file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from dray.simulate.model import (
    Arrival,
    ClassChanged,
    DevicesTainted,
    NodeAdded,
    NodeDrained,
    NodeLost,
    SimulationError,
    SlicePublished,
    SliceWithdrawn,
    TaintRemoved,
)
from dray.simulate.sources.cluster_events import WithClusterEvents
from dray.simulate.sources.files import read_events
from dray.simulate.sources.trace import Trace

EVENTS = """
- {at: 900, loseNode: a100-4}
- {at: 600, drainNode: a100-3}
- at: 1200
  addNodes:
    name: spare
    count: 2
    allocatable: {cpu: "96"}
    slices: [{driver: gpu.example.com, count: 8}]
- {at: 1300, apply: {kind: DeviceTaintRule, metadata: {name: hot}, spec: {taint: {key: hot, effect: NoExecute}}}}
- {at: 1400, apply: {kind: DeviceClass, metadata: {name: gpu}, spec: {}}}
- {at: 1500, apply: {kind: ResourceSlice, metadata: {name: s}, spec: {driver: d}}}
- {at: 1600, apply: {kind: Node, metadata: {name: n}, spec: {}}}
- {at: 1700, delete: {kind: DeviceTaintRule, name: hot}}
- {at: 1800, delete: {kind: ResourceSlice, name: s}}
"""


def test_every_kind_of_event_is_read_in_order_of_time(tmp_path: Path) -> None:
    path = tmp_path / "events.yaml"
    path.write_text(EVENTS)
    found = read_events(path)
    assert [(type(one), one.time) for one in found] == [
        (NodeDrained, 600),
        (NodeLost, 900),
        (NodeAdded, 1200),
        (NodeAdded, 1200),
        (DevicesTainted, 1300),
        (ClassChanged, 1400),
        (SlicePublished, 1500),
        (NodeAdded, 1600),
        (TaintRemoved, 1700),
        (SliceWithdrawn, 1800),
    ]
    spare: Any = found[3]
    assert spare.node["metadata"]["name"] == "spare-1"
    assert len(spare.slices[0]["spec"]["devices"]) == 8


def test_events_come_between_the_pods_of_a_workload(tmp_path: Path) -> None:
    trace = tmp_path / "trace.csv"
    trace.write_text("name,arrival\na,5\nb,10\n")
    drained = NodeDrained(5, "n"), NodeDrained(7, "m"), NodeDrained(20, "o")
    merged = list(WithClusterEvents(Trace(trace), drained).events(0))
    assert [one.pod["metadata"]["name"] if isinstance(one, Arrival) else one.node for one in merged] == [  # type: ignore[union-attr]
        *("n", "a", "m", "b", "o")
    ]


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("- {at: -1, drainNode: n}", "an event is at -1; it must be a time that is not negative"),
        ("- {at: 1}", "nothing happens at 1: say drainNode"),
        ("- {at: 1, evictNode: n}", "unknown field `evictNode`"),
        ("- {drainNode: n}", "missing required field `at`"),
        ("- {at: 1, apply: {kind: Pod, metadata: {name: p}, spec: {}}}", "apply takes a DeviceTaintRule"),
        ("- {at: 1, apply: {kind: DeviceClass, metadata: {name: p}}}", "apply takes an object with a spec"),
        ("- {at: 1, apply: {kind: DeviceClass}}", "apply takes an object with a metadata.name"),
        ("- {at: 1, delete: {kind: Node, name: n}}", "nodes are lost by loseNode"),
        ("- [", "not YAML"),
    ],
)
def test_an_events_file_that_makes_no_sense_is_one_line(tmp_path: Path, text: str, complaint: str) -> None:
    path = tmp_path / "events.yaml"
    path.write_text(text)
    with pytest.raises(SimulationError) as problem:
        read_events(path)
    assert complaint in str(problem.value)
    assert str(problem.value).startswith(str(path))
    assert "\n" not in str(problem.value)

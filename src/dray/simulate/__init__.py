"""The simulator: the scheduler's own decisions over traces, in virtual time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dray.exports import lazy

if TYPE_CHECKING:
    from dray.simulate.engine import simulate
    from dray.simulate.experiment import Experiment, Figures, Summary
    from dray.simulate.model import (
        Arrival,
        ClassChanged,
        Cluster,
        ClusterSource,
        DevicesTainted,
        Event,
        GroupCreated,
        NodeAdded,
        NodeDrained,
        NodeLost,
        Options,
        PodDeleted,
        PodOutcome,
        Result,
        Sample,
        SimulationError,
        SlicePublished,
        SliceWithdrawn,
        Stay,
        TaintRemoved,
        WorkloadSource,
    )
    from dray.simulate.openb import NodeList, PodList
    from dray.simulate.runs import Simulation, local_processes, run_all
    from dray.simulate.sources.generator import Generator
    from dray.simulate.sources.manifests import Manifests
    from dray.simulate.sources.node_groups import NodeGroups
    from dray.simulate.sources.recording import Recording
    from dray.simulate.sources.snapshot import SnapshotSource
    from dray.simulate.sources.trace import Trace
    from dray.simulate.summary import ResultSummary, summarize

__all__ = [
    "Arrival",
    "ClassChanged",
    "Cluster",
    "ClusterSource",
    "DevicesTainted",
    "Event",
    "Experiment",
    "Figures",
    "Generator",
    "GroupCreated",
    "Manifests",
    "NodeAdded",
    "NodeDrained",
    "NodeGroups",
    "NodeList",
    "NodeLost",
    "Options",
    "PodDeleted",
    "PodList",
    "PodOutcome",
    "Recording",
    "Result",
    "ResultSummary",
    "Sample",
    "Simulation",
    "SimulationError",
    "SlicePublished",
    "SliceWithdrawn",
    "SnapshotSource",
    "Stay",
    "Summary",
    "TaintRemoved",
    "Trace",
    "WorkloadSource",
    "local_processes",
    "run_all",
    "simulate",
    "summarize",
]

__getattr__ = lazy(
    __name__,
    {
        "Arrival": "model",
        "ClassChanged": "model",
        "Cluster": "model",
        "ClusterSource": "model",
        "DevicesTainted": "model",
        "Event": "model",
        "Experiment": "experiment",
        "Figures": "experiment",
        "Generator": "sources.generator",
        "GroupCreated": "model",
        "Manifests": "sources.manifests",
        "NodeAdded": "model",
        "NodeDrained": "model",
        "NodeGroups": "sources.node_groups",
        "NodeList": "openb",
        "NodeLost": "model",
        "Options": "model",
        "PodDeleted": "model",
        "PodList": "openb",
        "PodOutcome": "model",
        "Recording": "sources.recording",
        "Result": "model",
        "ResultSummary": "summary",
        "Sample": "model",
        "Simulation": "runs",
        "SimulationError": "model",
        "SlicePublished": "model",
        "SliceWithdrawn": "model",
        "SnapshotSource": "sources.snapshot",
        "Stay": "model",
        "Summary": "experiment",
        "TaintRemoved": "model",
        "Trace": "sources.trace",
        "WorkloadSource": "model",
        "local_processes": "runs",
        "run_all": "runs",
        "simulate": "engine",
        "summarize": "summary",
    },
)

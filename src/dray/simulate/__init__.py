"""The simulator: the scheduler's own decisions over traces, in virtual time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dray.exports import lazy

if TYPE_CHECKING:
    from dray.simulate.engine import simulate
    from dray.simulate.experiment import Experiment, Figures, Summary
    from dray.simulate.model import (
        Arrival,
        Cluster,
        ClusterSource,
        Event,
        Options,
        PodOutcome,
        Result,
        Sample,
        SimulationError,
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
    "Cluster",
    "ClusterSource",
    "Event",
    "Experiment",
    "Figures",
    "Generator",
    "Manifests",
    "NodeGroups",
    "NodeList",
    "Options",
    "PodList",
    "PodOutcome",
    "Recording",
    "Result",
    "ResultSummary",
    "Sample",
    "Simulation",
    "SimulationError",
    "SnapshotSource",
    "Summary",
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
        "Cluster": "model",
        "ClusterSource": "model",
        "Event": "model",
        "Experiment": "experiment",
        "Figures": "experiment",
        "Generator": "sources.generator",
        "Manifests": "sources.manifests",
        "NodeGroups": "sources.node_groups",
        "NodeList": "openb",
        "Options": "model",
        "PodList": "openb",
        "PodOutcome": "model",
        "Recording": "sources.recording",
        "Result": "model",
        "ResultSummary": "summary",
        "Sample": "model",
        "Simulation": "runs",
        "SimulationError": "model",
        "SnapshotSource": "sources.snapshot",
        "Summary": "experiment",
        "Trace": "sources.trace",
        "WorkloadSource": "model",
        "local_processes": "runs",
        "run_all": "runs",
        "simulate": "engine",
        "summarize": "summary",
    },
)

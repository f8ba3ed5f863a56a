"""Workloads, clusters and events from files: what a file is follows from its name, or from what is in it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from dray.api import yamldocs
from dray.simulate.model import Cluster, Event, SimulationError, WorkloadSource
from dray.simulate.openb import NodeList, PodTrace, is_pod_list
from dray.simulate.sources.cluster_events import parse_events
from dray.simulate.sources.generator import Generator
from dray.simulate.sources.manifests import Manifests
from dray.simulate.sources.node_groups import NodeGroups
from dray.simulate.sources.recording import SUFFIXES, Recording
from dray.simulate.sources.trace import Trace

_NODE_LISTS = (".csv", ".csv.gz")
_TRACES = (*_NODE_LISTS, ".parquet")


def read_workload(paths: Sequence[Path]) -> WorkloadSource:
    """A trace (CSV, Parquet), a list of pods (CSV), a recording (JSON lines), a generator (YAML), or manifests."""
    if len(paths) == 1 and paths[0].name.endswith(_TRACES):
        return PodTrace(paths[0]) if is_pod_list(paths[0]) else Trace(paths[0])
    if len(paths) == 1 and is_recording(paths[0]):
        return Recording(paths[0])
    if any(path.name.endswith((*_TRACES, *SUFFIXES)) for path in paths):
        raise SimulationError("a trace or recording is a workload by itself: give one file")
    if len(paths) == 1 and isinstance(document := _yaml(paths[0]), dict) and "mix" in document:
        return Generator.parse(document, str(paths[0]))
    from dray.explain.model import manifests

    found = Manifests([one.document for one in manifests.read_files(paths)])
    if not any(True for _ in found.arrivals()):
        raise SimulationError(f"{', '.join(map(str, paths))}: there is no pod in it")
    return found


def is_recording(path: Path) -> bool:
    return path.name.endswith(SUFFIXES)


def read_cluster(path: Path) -> Cluster:
    """A list of nodes (CSV), or node groups (YAML)."""
    if path.name.endswith(_NODE_LISTS):
        return NodeList(path).cluster()
    return NodeGroups.parse(_yaml(path), str(path)).cluster()


def read_events(path: Path) -> Sequence[Event]:
    """What happens to the cluster, from a YAML file."""
    return parse_events(_yaml(path), str(path))


def read_groups_to_add(path: Path) -> NodeGroups:
    """Node groups, or the file of one group."""
    document = _yaml(path)
    if isinstance(document, dict) and "groups" not in document:
        document = {"groups": [document]}
    return NodeGroups.parse(document, str(path))


def _yaml(path: Path) -> Any:
    """The document of a file; None if there are several."""
    try:
        documents = [one.value for one in yamldocs.documents(path.read_text())]
    except (yamldocs.InvalidYAML, UnicodeDecodeError) as problem:
        raise SimulationError(f"{path}: not YAML: {' '.join(str(problem).split())}") from None
    return documents[0] if len(documents) == 1 else None

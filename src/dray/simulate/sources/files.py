"""Workloads and clusters from files: what a file is follows from its name, or from what is in it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from dray.api import yamldocs
from dray.simulate.model import Event, SimulationError, WorkloadSource
from dray.simulate.sources.generator import Generator
from dray.simulate.sources.manifests import Manifests
from dray.simulate.sources.node_groups import NodeGroups
from dray.simulate.sources.recording import SUFFIXES, Recording
from dray.simulate.sources.trace import Trace

_TRACES = (".csv", ".csv.gz", ".parquet")


def read_workload(paths: Sequence[Path]) -> WorkloadSource:
    """A trace (CSV, Parquet), a recording (JSON lines), a generator (YAML with a mix), or manifests."""
    if len(paths) == 1 and paths[0].name.endswith(_TRACES):
        return Trace(paths[0])
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


def read_node_groups(path: Path) -> NodeGroups:
    return NodeGroups.parse(_yaml(path), str(path))


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


def together(*sources: Iterable[Event]) -> list[Event]:
    """The events of several sources in order of time."""
    return sorted((event for source in sources for event in source), key=lambda event: event.time)

"""``Recorder``: what happens in a live cluster, written to a file that a simulation can run again."""

from __future__ import annotations

import asyncio
import gzip
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Final

import msgspec

from dray.client.discovery import Discovery
from dray.client.informers import Informers
from dray.explain.model.collector import RESOURCES, hub_shape, release, served_resource
from dray.explain.model.snapshot import Snapshot
from dray.simulate.model import SimulationError
from dray.simulate.sources.recording import SUFFIXES, Change, Type

if TYPE_CHECKING:
    from dray.api.types import Object
    from dray.client.client import Client
    from dray.client.informers import Informer

#: the fields of a snapshot whose objects are recorded
_RECORDED: Final = ("nodes", "pods", "classes", "slices", "claims", "taint_rules", "groups")


class Recorder:
    """Writes what happens to nodes, pods, claims, slices, classes and taint rules for as long as it runs."""

    def __init__(self, client: Client, path: Path, *, clock: Callable[[], float]) -> None:
        self._client = client
        self._path = check_recording_name(path)
        self._clock = clock
        self._began = 0.0
        self.changes = 0

    async def run(self, end: asyncio.Event, *, started: Callable[[Snapshot], None]) -> None:
        """Record until ``end`` is set. ``started`` is called with the cluster at the beginning."""
        discovery = Discovery(self._client)
        served = {
            name: one
            for name in _RECORDED
            if (one := await served_resource(discovery, RESOURCES[name])) is not None
        }
        informers = Informers(self._client)
        followed = {name: (informers.get(one), hub_shape(one)) for name, one in served.items()}
        version = await release(self._client)
        async with informers:
            await informers.synced()
            # Nothing is awaited from here to the last handler, so no change is missed and none is written twice.
            objects: dict[str, Any] = {
                name: tuple(map(shape, informer.items())) for name, (informer, shape) in followed.items()
            }
            first = replace(Snapshot(release=version), **objects)
            opened = gzip.open if self._path.suffix == ".gz" else open
            with opened(self._path, "wb") as file:
                self._began = self._clock()
                _write(file, first.dump())
                for informer, shape in followed.values():
                    self._follow(informer, shape, file)
                started(first)
                await end.wait()

    def _follow(
        self, informer: Informer[Any], shape: Callable[[Any], Any], file: IO[bytes] | gzip.GzipFile
    ) -> None:
        is_new = False

        def write(type_: Type, obj: Object) -> None:
            time = round(self._clock() - self._began, 3)
            _write(file, msgspec.json.encode(Change(time, type_, shape(obj))))
            self.changes += 1

        def added(obj: Object) -> None:
            if is_new:  # what was there already is in the first line
                write("ADDED", obj)

        def modified(old: Object, new: Object) -> None:
            if old["metadata"].get("resourceVersion") != new["metadata"].get("resourceVersion"):
                write("MODIFIED", new)

        def deleted(obj: Object) -> None:
            write("DELETED", obj)

        informer.add_handler(on_add=added, on_update=modified, on_delete=deleted)
        is_new = True


def check_recording_name(path: Path) -> Path:
    if not path.name.endswith(SUFFIXES):
        raise SimulationError(f"{path}: the name of a recording ends in {' or '.join(SUFFIXES)}")
    return path


def _write(file: IO[bytes] | gzip.GzipFile, line: bytes) -> None:
    file.write(line + b"\n")
    file.flush()

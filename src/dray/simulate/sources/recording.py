"""A recording of ``dray snapshot --follow`` as a cluster and a workload: what happened, to be run under another policy.

A file has a JSON document on each line. The first one is the cluster at the beginning, as ``dray snapshot`` writes it; each
other one is a change: ``time`` (seconds since the beginning), ``type`` (``ADDED``, ``MODIFIED``, ``DELETED``) and ``object``.
"""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

import msgspec

from dray.api import claims, pods
from dray.api.objects import controller_of
from dray.explain.model import snapshot as snapshots
from dray.simulate.model import (
    Arrival,
    ClassChanged,
    Cluster,
    DevicesTainted,
    Event,
    GroupCreated,
    NodeAdded,
    NodeLost,
    PodDeleted,
    SimulationError,
    SlicePublished,
    SliceWithdrawn,
    TaintRemoved,
)
from dray.simulate.sources.snapshot import SnapshotSource

if TYPE_CHECKING:
    from dray.api.types import Object
    from dray.api.types.core import Node, Pod, PodSpec, PodStatus
    from dray.api.types.meta import ObjectMeta
    from dray.api.types.resource import ResourceClaim
    from dray.explain import Snapshot

SUFFIXES: Final = (".jsonl", ".jsonl.gz")
Type = Literal["ADDED", "MODIFIED", "DELETED"]


class Change(msgspec.Struct, frozen=True):
    """One line of a recording after the first."""

    time: float
    type: Type
    object: Any


@dataclass(frozen=True)
class Recording:
    """A recorded cluster and what happened in it.

    Pods arrive when they were created, without gates, and run as long as they ran. Nodes, slices, classes and taint rules
    change when they changed. Pods that ran at the beginning, and those that never ran, leave when they were deleted.
    """

    path: Path

    def cluster(self) -> Cluster:
        return SnapshotSource(self._lines[0]).cluster()

    def events(self, seed: int = 0) -> Iterator[Event]:
        first, changes = self._lines
        waiting = {arrival.pod["metadata"]["uid"]: arrival for arrival in SnapshotSource(first).events(seed)}
        lives = {uid: _Life(arrival.pod, 0.0, arrival.claims) for uid, arrival in waiting.items()}
        running = {pod["metadata"]["uid"] for pod in self.cluster().pods}
        own, shared = self._claims_of_pods()
        events: list[Event] = []
        for change in changes:
            obj: Object = change.object
            if obj.get("kind") == "Pod":
                if obj["metadata"]["uid"] in running:
                    if change.type == "DELETED" or pods.is_terminal(change.object):
                        events.append(PodDeleted(change.time, obj["metadata"]["uid"]))
                else:
                    _live(lives, change)
            else:
                events.extend(_events_of(change))
        brought: set[str] = set()
        for uid, life in lives.items():
            if life.arrived is None:
                continue
            named = [
                claim
                for name in (
                    one.claim for one in claims.references(life.pod) if one.claim and not one.generated
                )
                if (claim := shared.get((life.pod["metadata"]["namespace"], name))) is not None
                and claim["metadata"]["uid"] not in brought
            ]
            brought.update(claim["metadata"]["uid"] for claim in named)
            events.append(
                Arrival(
                    life.arrived,
                    _as_created(life.pod),
                    (*life.claims, *own.get(uid, ()), *named),
                    life.duration,
                )
            )
            if life.scheduled is None and life.ended is not None:
                events.append(PodDeleted(life.ended, uid))
        # Of what happened at the same time the pods come last: their nodes and devices are there.
        yield from sorted(events, key=lambda one: (one.time, isinstance(one, Arrival | PodDeleted)))

    def _claims_of_pods(self) -> tuple[dict[str, list[ResourceClaim]], dict[tuple[str, str], ResourceClaim]]:
        """The claims that are new, as they were created: by the uid of the pod that has them, or by name."""
        own: dict[str, list[ResourceClaim]] = {}
        shared: dict[tuple[str, str], ResourceClaim] = {}
        for change in self._lines[1]:
            claim: ResourceClaim = change.object
            if claim.get("kind") != "ResourceClaim" or change.type != "ADDED":
                continue
            metadata = claim["metadata"]
            if (metadata.get("annotations") or {}).get(claims.EXTENDED_RESOURCE_ANNOTATION) == "true":
                continue  # the scheduler makes it
            created: ResourceClaim = {**claim, "status": {}}
            if owner := _owner(claim):
                own.setdefault(owner, []).append(created)
            else:
                shared[metadata["namespace"], metadata["name"]] = created
        return own, shared

    @cached_property
    def _lines(self) -> tuple[Snapshot, Sequence[Change]]:
        lines = _read(self.path)
        if not lines:
            raise SimulationError(f"{self.path}: it is empty: write it with dray snapshot --follow")
        first = snapshots.parse(lines[0], str(self.path))
        decoder = msgspec.json.Decoder(Change)
        changes = []
        for number, line in enumerate(lines[1:], start=2):
            try:
                change = decoder.decode(line)
                assert isinstance(change.object, dict) and change.object["metadata"]["name"]
                changes.append(change)
            except (msgspec.MsgspecError, AssertionError, KeyError, TypeError) as problem:
                if number == len(lines) and not line.endswith(b"\n"):
                    break  # the recorder was killed while it wrote
                raise SimulationError(
                    f"{self.path}, line {number}: no change of a recording ({str(problem) or 'no object'})"
                ) from None
        return first, changes


@dataclass(slots=True)
class _Life:
    """A pod that came while the cluster was recorded."""

    pod: Pod
    arrived: float | None  # None: it is gated
    claims: Sequence[ResourceClaim] = ()
    scheduled: float | None = None
    ended: float | None = None

    @property
    def duration(self) -> float | None:
        return None if self.scheduled is None or self.ended is None else max(self.ended - self.scheduled, 0.0)


def _live(lives: dict[str, _Life], change: Change) -> None:
    pod: Pod = change.object
    uid = pod["metadata"]["uid"]
    life = lives.setdefault(uid, _Life(pod, None))
    gone = change.type == "DELETED" or pods.is_terminal(pod)
    if not gone:
        life.pod = pod  # claims that were made for it are in its status later
    if life.arrived is None and not pod["spec"].get("schedulingGates"):
        life.arrived = change.time
    if life.scheduled is None and pod["spec"].get("nodeName"):
        life.scheduled = change.time
    if gone and life.ended is None:
        life.ended = change.time


def _as_created(pod: Pod) -> Pod:
    """Without what the scheduler, the node and whoever deleted it have written."""
    metadata: ObjectMeta = {**pod["metadata"]}
    metadata.pop("deletionTimestamp", None)
    metadata.pop("deletionGracePeriodSeconds", None)
    spec: PodSpec = {**pod["spec"], "schedulerName": "default-scheduler"}  # whoever scheduled it
    spec.pop("nodeName", None)
    spec.pop("schedulingGates", None)
    status: PodStatus = {}
    if (statuses := (pod.get("status") or {}).get("resourceClaimStatuses")) is not None:
        status["resourceClaimStatuses"] = statuses
    return {**pod, "metadata": metadata, "spec": spec, "status": status}


def _owner(claim: ResourceClaim) -> str:
    owner = controller_of(claim)
    return owner["uid"] if owner is not None and owner.get("kind") == "Pod" else ""


def _events_of(change: Change) -> Iterator[Event]:
    obj, time, gone = change.object, change.time, change.type == "DELETED"
    any_object: Object = obj
    name = any_object["metadata"]["name"]
    match any_object.get("kind"):
        case "Node":
            node: Node = obj
            yield NodeLost(time, name) if gone else NodeAdded(time, node)
        case "ResourceSlice":
            yield SliceWithdrawn(time, name) if gone else SlicePublished(time, obj)
        case "PodGroup" if not gone:
            yield GroupCreated(time, obj)
        case "DeviceClass" if not gone:
            yield ClassChanged(time, obj)
        case "DeviceTaintRule":
            yield TaintRemoved(time, name) if gone else DevicesTainted(time, obj)


def _read(path: Path) -> list[bytes]:
    """The lines of a file; of one that was cut off those that are whole."""
    lines: list[bytes] = []
    try:
        with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
            lines.extend(file)
    except (EOFError, zlib.error):
        pass
    except OSError as problem:
        raise SimulationError(f"{path}: {problem.strerror or problem}") from None
    return lines

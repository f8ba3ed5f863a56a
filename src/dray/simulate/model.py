"""What goes into a simulation and what comes out of it, as frozen data.

In: a ``Cluster``, and a stream of ``Arrival`` and other events, each at its time. Out: a ``Result`` with the outcome of
every pod and a time series. Documents are those that an API server would have: everything could be applied.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, TypeAlias

import msgspec

if TYPE_CHECKING:
    from dray.api.types.core import Node, Pod
    from dray.api.types.resource import DeviceClass, DeviceTaintRule, ResourceClaim, ResourceSlice
    from dray.api.types.scheduling_v1beta1 import PodGroup
    from dray.placement.policies.model import DevicePolicy, TypicalRequest, TypicalShape

#: the devices of a cluster are counted in thousandths of a device
UNITS_PER_DEVICE = 1000


class SimulationError(Exception):
    """What is to be simulated makes no sense, or a policy is at fault. The text says what to do."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Cluster:
    """A cluster before the first event."""

    nodes: Sequence[Node] = ()
    slices: Sequence[ResourceSlice] = ()
    classes: Sequence[DeviceClass] = ()
    taint_rules: Sequence[DeviceTaintRule] = ()
    groups: Sequence[PodGroup] = ()
    #: pods that have a node already, and claims that are allocated already
    pods: Sequence[Pod] = ()
    claims: Sequence[ResourceClaim] = ()


@dataclass(frozen=True, slots=True)
class Arrival:
    """A pod is created, with its claims; a claim that several pods share comes with the first of them.

    ``duration``: how long it runs once it is scheduled; None: for good.
    """

    time: float
    pod: Pod
    claims: tuple[ResourceClaim, ...] = ()
    duration: float | None = None


@dataclass(frozen=True, slots=True)
class PodDeleted:
    """The pod is deleted, whether it runs or waits. Pods that are gone already are passed over."""

    time: float
    uid: str


@dataclass(frozen=True, slots=True)
class GroupCreated:
    """A PodGroup is there, or has changed. Its pods are scheduled together once it is."""

    time: float
    group: PodGroup


@dataclass(frozen=True, slots=True)
class NodeAdded:
    """A node joins with its slices, or changes its labels, taints or allocatable resources."""

    time: float
    node: Node
    slices: tuple[ResourceSlice, ...] = ()


@dataclass(frozen=True, slots=True)
class NodeDrained:
    """The node is cordoned, and its pods are evicted."""

    time: float
    node: str


@dataclass(frozen=True, slots=True)
class NodeLost:
    """The node is gone with its pods and its slices."""

    time: float
    node: str


@dataclass(frozen=True, slots=True)
class SlicePublished:
    """A slice is new, or replaces the one of the same name: devices appear, vanish, or are tainted."""

    time: float
    slice: ResourceSlice


@dataclass(frozen=True, slots=True)
class SliceWithdrawn:
    """The slice of this name is gone. Pods that have devices of it keep them."""

    time: float
    slice: str


@dataclass(frozen=True, slots=True)
class ClassChanged:
    time: float
    device_class: DeviceClass


@dataclass(frozen=True, slots=True)
class DevicesTainted:
    """A DeviceTaintRule begins to count. The effect NoExecute evicts the pods that do not tolerate it."""

    time: float
    rule: DeviceTaintRule


@dataclass(frozen=True, slots=True)
class TaintRemoved:
    time: float
    rule: str


Event: TypeAlias = (
    Arrival
    | PodDeleted
    | GroupCreated
    | NodeAdded
    | NodeDrained
    | NodeLost
    | SlicePublished
    | SliceWithdrawn
    | ClassChanged
    | DevicesTainted
    | TaintRemoved
)


def published_slices(events: Iterable[Event]) -> Iterator[ResourceSlice]:
    """The slices that are published while events happen."""
    for event in events:
        match event:
            case NodeAdded(slices=slices):
                yield from slices
            case SlicePublished(slice=one):
                yield one


class ClusterSource(Protocol):
    """Whatever can say what a cluster consists of: a snapshot, a list of nodes, templates of node groups."""

    def cluster(self) -> Cluster: ...


class WorkloadSource(Protocol):
    """Whatever can say what happens: a trace, manifests, a generator. The same seed gives the same events."""

    def events(self, seed: int) -> Iterable[Event]:
        """In order of time."""
        ...


class Stay(msgspec.Struct, frozen=True, gc=False):
    """A pod on a node with its devices, from ``began`` to ``ended``."""

    node: str
    began: float
    ended: float
    devices: tuple[str, ...] = ()  # driver/pool/device
    classes: tuple[str, ...] = ()  # the DeviceClass by which it got each of them
    units: int = 0  # thousandths of devices that it had


class PodOutcome(msgspec.Struct, frozen=True, gc=False):
    """What became of one pod."""

    pod: str  # namespace/name
    arrived: float
    scheduled: float | None = None  # the last time it got a node
    ended: float | None = None  # it ran to its end; None: it still runs, or never ran
    node: str = ""
    devices: tuple[str, ...] = ()  # driver/pool/device
    classes: tuple[str, ...] = ()  # the DeviceClass by which it got each of them
    units: int = 0  # thousandths of devices that it has
    requested: int = 0  # thousandths of devices that it asked for
    attempts: int = 0
    evictions: int = 0  # by preemption, drains, lost nodes and tainted devices
    waited: float = 0.0  # the time it spent in the queue
    duration: float | None = None  # of its run, as the workload has it
    reason: str = ""  # why it was dropped, if the options want to know
    evicted: tuple[Stay, ...] = ()  # where it was before it was evicted, as often as that happened

    def stays(self, end: float) -> Iterator[Stay]:
        """Where the pod has been; ``end``: the end of the simulation, until which it runs if it still does."""
        yield from self.evicted
        if self.scheduled is not None:
            ended = self.ended if self.ended is not None else end
            yield Stay(self.node, self.scheduled, ended, self.devices, self.classes, self.units)

    @property
    def slowdown(self) -> float | None:
        """How many times longer than its run the pod took, waiting included; None for pods that did not end."""
        if self.ended is None or not self.duration:
            return None
        return (self.ended - self.arrived) / self.duration


class Sample(msgspec.Struct, frozen=True, gc=False):
    """The cluster at one time, after everything that happened then."""

    time: float
    arrived: int  # pods so far
    requested: int  # thousandths of devices, by all pods that have arrived
    capacity: int  # thousandths of devices that there are
    allocated: int
    fragmented: float  # of the free ones, what typical pods could not use
    running: int
    pending: int
    preemptions: int  # so far


@dataclass(frozen=True, slots=True)
class Result:
    """What one run gave. The same inputs and seed give the same result, byte for byte."""

    policy: str
    seed: int
    nodes: int
    devices: int
    pods: tuple[PodOutcome, ...]
    samples: tuple[Sample, ...]

    def encode(self) -> bytes:
        return _encode(self)

    def __iter__(self) -> Iterator[PodOutcome]:
        return iter(self.pods)


_encode = msgspec.json.Encoder(order="deterministic").encode


@dataclass(frozen=True, kw_only=True, slots=True)
class Options:
    """How a simulation is run."""

    policy: str | type[DevicePolicy] = "default"
    seed: int = 0
    #: Pods that no node fits wait, and are tried again as the scheduler would. Otherwise they are dropped.
    retries: bool = True
    #: Say why pods are dropped.
    explains: bool = False
    #: Pods of higher priority may take devices from others.
    device_preemption: bool = False
    #: Evicted pods come again, as their controllers would make them.
    recreates_evicted: bool = True
    #: Taints with the effect NoExecute evict pods from devices, as their controller would.
    evicts_tainted: bool = True
    #: Of nodes with the best score policies that keep an order take the one with the least number; None: an order that
    #: the seed decides.
    node_order: Mapping[str, int] | None = None
    #: The typical requests that fragmentation is measured by, and that policies know beforehand. None: the pods that are
    #: there are counted, by policies and for fragmentation alike.
    typical: Sequence[TypicalRequest] | None = None
    #: The same as somebody has declared it.
    typical_shapes: Sequence[TypicalShape] = ()
    #: End at this time even if something would still happen.
    until: float | None = None
    #: At most one sample in this many seconds; 0: one whenever something has happened.
    sample_every: float = 0.0

"""The engine: events in virtual time, decided by the scheduler's own code.

The engine stands where the scheduler's shell stands in a cluster. It keeps the same caches and the same queue, asks
``decide`` about one pod after the other, and does at once what the scheduler would write. There is no other model of a
node, a device or a claim.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

from dray.simulate.claims import unversioned
from dray.simulate.components import Components
from dray.simulate.cycle import SchedulingCycle
from dray.simulate.model import (
    UNITS_PER_DEVICE,
    Arrival,
    ClassChanged,
    Cluster,
    DevicesTainted,
    Event,
    GroupCreated,
    NodeAdded,
    NodeDrained,
    NodeLost,
    Options,
    PodDeleted,
    Result,
    SimulationError,
    SlicePublished,
    SliceWithdrawn,
    TaintRemoved,
)
from dray.simulate.pods import Pods
from dray.simulate.sampler import Sampler
from dray.simulate.taint_eviction import TaintEviction

if TYPE_CHECKING:
    from dray.api.types.core import Node, Taint
    from dray.api.types.resource import DeviceTaintRule, ResourceSlice
    from dray.placement.cache.nodes import NodeInfo

Progress = Callable[[int], None]

_CORDON: Taint = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}
#: how often the scheduler looks for pods that have been unschedulable for long
_FLUSH_SECONDS = 30.0
_REPORT_EVERY = 500  # events


def simulate(
    cluster: Cluster, events: Iterable[Event], options: Options, *, progress: Progress | None = None
) -> Result:
    """Run a simulation to its end. ``progress`` is called now and then with the number of pods that have arrived."""
    return _Simulation(cluster, options).run(events, progress or (lambda pods: None))


class _Simulation:
    def __init__(self, start: Cluster, options: Options) -> None:
        self._options = options
        self._components = components = Components(options)
        self._clock = components.clock
        self._cluster = components.cluster
        self._claims = components.claims
        self._pending = components.pending
        self._sampler = Sampler(components)
        self._pods = Pods(components, self._sampler)
        self._taints = TaintEviction(components, self._pods) if options.evicts_tainted else None
        self._cycle = SchedulingCycle(components, self._pods, self._sampler, self._taints)
        self._slices_of: dict[str, list[str]] = {}  # names of slices by node
        self._next_flush = _FLUSH_SECONDS
        self._fill(start)

    def _fill(self, start: Cluster) -> None:
        """The cluster before the first event."""
        for device_class in start.classes:
            self._claims.set_class(device_class)
        for rule in start.taint_rules:
            self._taint(rule)
        for group in start.groups:
            self._components.groups.set_group(group)
        for one in start.slices:
            self._publish(one)
        for claim in start.claims:
            self._claims.set_claim(unversioned(claim))
        for node in start.nodes:
            self._cluster.set_node(node)
        for document in start.pods:
            self._pods.start(document)
        if self._taints is not None:
            self._taints.check_all()
        self._sampler.recount()

    # -- the loop -----------------------------------------------------------------------------------------------------

    def run(self, events: Iterable[Event], progress: Progress) -> Result:
        upcoming = _in_order(events)
        following = next(upcoming, None)
        handled = 0
        pods, cycle = self._pods, self._cycle
        while True:
            now = self._next_time(following)
            if now is None or (self._options.until is not None and now > self._options.until):
                break
            self._clock.now = now
            pods.end_due()
            while following is not None and following.time <= now:
                self._handle(following)
                following = next(upcoming, None)
                handled += 1
                if not handled % _REPORT_EVERY:
                    progress(pods.arrived)
            for uid in self._taints.pop_due() if self._taints is not None else ():
                pods.evict(uid)
            if now >= self._next_flush:
                self._components.queue.flush_unschedulable()
                self._next_flush = now + _FLUSH_SECONDS
            cycle.run()
            self._sampler.sample(
                arrived=pods.arrived,
                requested=pods.requested,
                running=pods.running,
                preemptions=cycle.preemptions,
            )
        progress(pods.arrived)
        return Result(
            policy=self._components.scorer.policy.name,
            seed=self._options.seed,
            nodes=len(self._cluster),
            devices=self._sampler.capacity // UNITS_PER_DEVICE,
            pods=pods.outcomes(),
            samples=tuple(self._sampler.samples),
        )

    def _next_time(self, following: Event | None) -> float | None:
        """When something happens next: an event, the end of a pod, an eviction, the end of a backoff."""
        times = [following.time] if following is not None else []
        end = self._pods.next_end
        if end is not None:
            times.append(end)
        eviction = self._taints.next_due if self._taints is not None else None
        if eviction is not None:
            times.append(eviction)
        if not times:
            return None  # whoever waits now waits for good
        due = self._components.queue.next_due()
        if due is not None and due > self._clock.now:
            times.append(due)
        return min(times)

    # -- events -------------------------------------------------------------------------------------------------------

    def _handle(self, event: Event) -> None:
        match event:
            case Arrival():
                self._pods.arrive(event)
            case PodDeleted(uid=uid):
                self._pods.delete(uid)
            case GroupCreated(group=group):
                assert self._pending.groups is not None
                self._pending.groups.set_group(group)
            case NodeAdded(node=node, slices=slices):
                for one in slices:
                    self._publish(one)
                added = self._cluster.set_node(node)
                self._pending.node_event(added)
                self._sampler.count(added)
            case NodeDrained(node=name):
                self._cordon(self._known_node(name))
                self._pods.evict_all(name)
            case NodeLost(node=name):
                self._lose(self._known_node(name))
            case SlicePublished(slice=one):
                self._publish(one)
                self._slices_changed()
            case SliceWithdrawn(slice=slice_name):
                self._withdraw(slice_name)
                self._slices_changed()
            case ClassChanged(device_class=device_class):
                self._claims.set_class(device_class)
                self._pending.event("DeviceClass")
            case DevicesTainted(rule=rule):
                self._taint(rule)
                self._pending.event("DeviceTaintRule")
            case TaintRemoved(rule=rule_name):
                self._claims.remove_taint_rule(rule_name)
                if self._taints is not None:
                    self._taints.remove_rule(rule_name)
                self._pending.event("DeviceTaintRule")

    def _publish(self, one: ResourceSlice) -> None:
        self._claims.set_slice(one)
        if self._taints is not None:
            self._taints.set_slice(one)
        node = one["spec"].get("nodeName")
        if node:
            names = self._slices_of.setdefault(node, [])
            if one["metadata"]["name"] not in names:
                names.append(one["metadata"]["name"])

    def _withdraw(self, slice_name: str) -> None:
        self._claims.remove_slice(slice_name)
        if self._taints is not None:
            self._taints.remove_slice(slice_name)

    def _taint(self, rule: DeviceTaintRule) -> None:
        self._claims.set_taint_rule(rule)
        if self._taints is not None:
            self._taints.set_rule(rule)

    def _slices_changed(self) -> None:
        self._pending.event("ResourceSlice")
        self._sampler.recount()

    def _known_node(self, name: str) -> NodeInfo:
        node = self._cluster.get(name)
        if node is None:
            raise SimulationError(f"there is no node {name} at {self._clock.now:g} s")
        return node

    def _cordon(self, node: NodeInfo) -> None:
        assert node.document is not None
        spec = node.document.get("spec") or {}
        taints = [*(t for t in spec.get("taints") or () if t.get("key") != _CORDON["key"]), _CORDON]
        cordoned: Node = {**node.document, "spec": {**spec, "unschedulable": True, "taints": taints}}
        self._cluster.set_node(cordoned)

    def _lose(self, node: NodeInfo) -> None:
        name = node.name
        self._pods.evict_all(name)
        for slice_name in self._slices_of.pop(name, ()):
            self._withdraw(slice_name)
        self._cluster.remove_node(name)
        self._claims.inventory.forget_node(name)
        self._sampler.discount(name)
        self._pending.node_event(None)


def _in_order(events: Iterable[Event]) -> Iterator[Event]:
    last = 0.0
    for event in events:
        if not event.time >= 0:
            raise SimulationError(f"an event has the time {event.time:g}: times are not negative")
        if event.time < last:
            raise SimulationError(f"events are not in order of time: {event.time:g} comes after {last:g}")
        last = event.time
        yield event

"""Pools: which slices count, whether a pool is complete and sound, and in which order its devices are tried.

Only the newest generation of a pool counts. A pool of which slices are missing, or whose slices contradict each
other, offers nothing; that it exists still matters to requests for all devices.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from dray.allocation.devices import Device, Origin, Shapes
from dray.allocation.features import Features
from dray.allocation.node_selection import Labels, NodeSelection
from dray.api.identity import PoolID
from dray.api.quantity import Quantity

if TYPE_CHECKING:
    from dray.api.types.resource import CounterSet, ResourceSlice


class Slice:
    """One ResourceSlice, read once."""

    __slots__ = (
        "counter_sets",
        "devices",
        "expected",
        "generation",
        "has_compatibility_groups",
        "key",
        "name",
        "order",
        "per_device",
        "pool",
        "selection",
        "spec",
    )

    def __init__(self, document: ResourceSlice, shapes: Shapes, *, key: str, order: int) -> None:
        spec = document["spec"]
        pool = spec["pool"]
        self.spec = spec
        self.key = key  # what tells it from all others
        self.name = (document.get("metadata") or {}).get("name") or ""
        self.order = order  # slices are considered in the order in which they were first seen
        self.pool = PoolID(spec["driver"], pool["name"])
        self.generation = pool.get("generation") or 0
        self.expected = pool.get("resourceSliceCount") or 0
        self.selection = NodeSelection(spec)
        self.per_device = spec.get("perDeviceNodeSelection") is True
        origin = Origin(self.pool, self.selection, self.per_device, spec.get("skipNodeOperations"))
        self.devices = tuple(Device(device, origin, shapes) for device in spec.get("devices") or ())
        self.counter_sets: Sequence[CounterSet] = spec.get("sharedCounters") or []
        #: some device may share a counter set only with devices of its compatibility groups
        self.has_compatibility_groups = any(
            consumption.groups for device in self.devices for consumption in device.consumes_counters
        )

    @property
    def local(self) -> str:
        """The node this slice belongs to, if it belongs to one."""
        return self.selection.name

    def node_keys(self) -> Iterable[Hashable]:
        """Index keys of the nodes this slice may be for."""
        if self.selection.known or not self.per_device:
            return self.selection.keys
        return {key for device in self.devices if device.selection for key in device.selection.keys}

    def reaches(self, name: str, labels: Labels) -> bool:
        """Whether a node sees this slice."""
        if self.selection.known:
            return self.selection.matches(name, labels)
        return self.per_device and any(
            d.selection is not None and d.selection.matches(name, labels) for d in self.devices
        )

    def admitted(self, features: Features) -> bool:
        """Slices that use what is switched off are not there at all."""
        if not features.partitionable_devices and (
            self.counter_sets or self.spec.get("perDeviceNodeSelection") is not None
        ):
            return False
        return (
            not self.has_compatibility_groups
            or features.compatibility_groups
            or features.ignores_compatibility_groups
        )


class Pool:
    """What one node sees of a pool."""

    __slots__ = (
        "available",
        "counter_sets",
        "devices",
        "has_binding_conditions",
        "id",
        "incomplete",
        "invalid",
        "other_nodes_devices",
        "withheld",
    )

    def __init__(
        self,
        id: PoolID,
        *,
        devices: tuple[Device, ...] = (),
        other_nodes_devices: tuple[Device, ...] = (),
        counter_sets: dict[str, dict[str, int]] | None = None,
        incomplete: bool = False,
        invalid: str = "",
        withheld: tuple[Device, ...] = (),
    ) -> None:
        self.id = id
        self.devices = devices
        #: devices of the pool that other nodes see; they consume the same counters
        self.other_nodes_devices = other_nodes_devices
        self.counter_sets = counter_sets or {}
        self.incomplete = incomplete
        self.invalid = invalid  # why the pool is unsound
        self.withheld = withheld  # devices that are not offered because of that
        #: some device needs to be waited for before a pod is bound
        self.has_binding_conditions = any(device.binding_conditions is not None for device in devices)
        #: what is left in the counter sets, for one state of the pool's use; see ``counters``
        self.available: Any = None

    @property
    def usable(self) -> bool:
        return not (self.incomplete or self.invalid)

    def __repr__(self) -> str:
        return f"Pool({self.id})"


def newest_generation(slices: Iterable[Slice]) -> list[Slice]:
    """The slices of the highest generation among these."""
    kept: list[Slice] = []
    for one in slices:
        if kept and one.generation < kept[0].generation:
            continue
        if kept and one.generation > kept[0].generation:
            kept.clear()
        kept.append(one)
    return kept


def build_pool(id: PoolID, seen: Sequence[Slice], whole: Sequence[Slice], features: Features) -> Pool | None:
    """The pool that a node has from the slices it sees, given all slices of the pool; None if it is outdated.

    ``seen`` is of one generation, in the order in which slices are considered.
    """
    generation, expected = seen[0].generation, seen[0].expected
    unseen: list[Slice] = []
    if len(seen) != expected:
        # Slices may be missing only because they are for other nodes.
        if any(one.generation > generation for one in whole):
            return None
        current = [
            one
            for one in whole
            if one.generation == generation and (features.counts_unsupported_slices or one.admitted(features))
        ]
        if len(current) != expected:
            return Pool(id, incomplete=True, withheld=tuple(d for one in seen for d in one.devices))
        keys = {one.key for one in seen}
        unseen = [one for one in current if one.key not in keys]
    # Trying slices by name lets driver authors say which devices go first.
    seen = sorted(seen, key=lambda one: one.name)
    return _checked_pool(id, seen, unseen, features)


def _checked_pool(id: PoolID, seen: Sequence[Slice], unseen: Sequence[Slice], features: Features) -> Pool:
    offering = [one for one in seen if not (features.partitionable_devices and one.counter_sets)]
    devices = tuple(device for one in offering for device in one.devices)
    names: set[str] = set()
    for device in devices:
        if device.name in names:
            return Pool(id, invalid=f"duplicate device name {device.name}", withheld=devices)
        names.add(device.name)
    if not features.partitionable_devices:
        return Pool(id, devices=devices)
    counting = [one for one in seen if one.counter_sets]
    if not features.counters_reach_every_node:
        counting += [one for one in unseen if one.counter_sets]
    counter_sets: dict[str, dict[str, int]] = {}
    for one in counting:
        for document in one.counter_sets:
            if document["name"] in counter_sets:
                return Pool(id, invalid=f"duplicate counter set name {document['name']}", withheld=devices)
            counter_sets[document["name"]] = {
                name: Quantity.from_json(counter["value"]).nano
                for name, counter in (document.get("counters") or {}).items()
            }
    other_nodes_devices = tuple(device for one in unseen for device in one.devices)
    wrong = _undeclared_counter(devices, counter_sets) or _undeclared_counter(
        other_nodes_devices, counter_sets
    )
    if wrong:
        return Pool(id, invalid=wrong, withheld=devices)
    return Pool(id, devices=devices, other_nodes_devices=other_nodes_devices, counter_sets=counter_sets)


def _undeclared_counter(devices: Iterable[Device], counter_sets: dict[str, dict[str, int]]) -> str:
    for device in devices:
        for consumption in device.consumes_counters:
            counters = counter_sets.get(consumption.counter_set)
            if counters is None:
                return f"counter set {consumption.counter_set} not found"
            for name in consumption.amounts:
                if name not in counters:
                    return f"counter {name} not found in counter set {consumption.counter_set}"
    return ""


def sort_pools(pools: Iterable[Pool]) -> tuple[Pool, ...]:
    """Pools by name; those with binding conditions come last."""
    return tuple(sorted(pools, key=lambda pool: (pool.has_binding_conditions, pool.id)))

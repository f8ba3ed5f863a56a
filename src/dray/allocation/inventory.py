"""All ResourceSlices and DeviceClasses, indexed so that one node's devices are found without reading other slices.

An inventory is kept up to date: the cost of adding, changing or removing a slice depends on the size of the slice, and
only nodes that see its pool are affected. The pools of a node are gathered at first use and kept until they change.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import TYPE_CHECKING, Any

import msgspec

from dray.allocation.devices import Device, Shapes
from dray.allocation.errors import AllocationError
from dray.allocation.features import Features
from dray.allocation.node_selection import Labels, index_keys
from dray.allocation.pools import Pool, Slice, build_pool, newest_generation, sort_pools
from dray.allocation.requests import Demand, demand_key, read_claim
from dray.api.identity import DeviceID, PoolID

if TYPE_CHECKING:
    from dray.api.types.core import Node
    from dray.api.types.resource import DeviceClass, ResourceClaim, ResourceSlice

_DEMANDS_KEPT = 10_000


class NodeView(msgspec.Struct, frozen=True):
    """The pools that one node sees, and what they depend on."""

    labels: Labels
    pooling: tuple[bool, ...]
    epoch: int
    pools: tuple[Pool, ...]


class Inventory:
    def __init__(self, *, slices: Iterable[ResourceSlice] = (), classes: Iterable[DeviceClass] = ()) -> None:
        self._shapes = Shapes()
        self._slices: dict[str, Slice] = {}
        self._order = 0
        self._by_pool: dict[PoolID, dict[str, Slice]] = {}
        self._by_node: dict[Hashable, dict[str, Slice]] = {}
        self._built: dict[PoolID, dict[Any, Pool | None]] = {}
        self._views: dict[str, NodeView] = {}
        self._seen_by: dict[PoolID, set[str]] = {}  # nodes that have looked at the pool
        self._counter_slices: dict[PoolID, dict[str, Slice]] = {}  # slices of counters
        #: pools with counters that have changed since they were last checked
        self._unchecked_pools: set[PoolID] = set()
        self._invalid_pools: dict[PoolID, Pool] = {}  # pools with counters that are incomplete or unsound
        self._checked: tuple[bool, ...] = ()
        self._epoch = 0
        self._classes: dict[str, DeviceClass] = {}
        self._demands: dict[bytes, Demand] = {}
        self._demanded_with: Features | None = None
        self.evaluations = self._shapes.evaluations
        for resource_slice in slices:
            self.add_slice(resource_slice)
        for device_class in classes:
            self.add_class(device_class)

    # --- slices ---

    def add_slice(self, document: ResourceSlice, *, key: str | None = None) -> set[str] | None:
        """Add a slice, or replace the one that has this key; the key is the slice's name unless said otherwise.

        Returns the nodes for which it makes a difference; None: it may be any.
        """
        if key is None:
            key = (document.get("metadata") or {}).get("name") or ""
        old = self._slices.get(key)
        if old is None:
            self._order += 1
        new = Slice(document, self._shapes, key=key, order=old.order if old is not None else self._order)
        before = self._unlink(old) if old is not None else set()
        self._slices[key] = new
        self._by_pool.setdefault(new.pool, {})[key] = new
        for node_key in new.node_keys():
            self._by_node.setdefault(node_key, {})[key] = new
        if new.counter_sets:
            self._counter_slices.setdefault(new.pool, {})[key] = new
        after = self._changed(new)
        return None if before is None or after is None else before | after

    def remove_slice(self, key: str) -> set[str] | None:
        """Returns the nodes for which it makes a difference; None: it may be any."""
        old = self._slices.pop(key, None)
        return self._unlink(old) if old is not None else set()

    def _unlink(self, old: Slice) -> set[str] | None:
        self._by_pool[old.pool].pop(old.key)
        if not self._by_pool[old.pool]:
            del self._by_pool[old.pool]
        for node_key in old.node_keys():
            self._by_node[node_key].pop(old.key, None)
        if old.counter_sets:
            self._counter_slices[old.pool].pop(old.key)
        return self._changed(old)

    def _changed(self, one: Slice) -> set[str] | None:
        """Drop what was built from the pool of this slice; returns the nodes that saw it or will see it."""
        self._built.pop(one.pool, None)
        nodes = self._seen_by.pop(one.pool, set())
        for node in nodes:
            self._views.pop(node, None)
        if one.pool in self._counter_slices:
            self._unchecked_pools.add(one.pool)
        if not one.local:
            self._epoch += 1
            return None
        self._views.pop(one.local, None)
        return nodes | {one.local}

    def slices(self) -> Iterable[Slice]:
        return self._slices.values()

    def slices_of(self, pool: PoolID) -> list[Slice]:
        """The slices of a pool, of whatever generation."""
        return list(self._by_pool.get(pool, {}).values())

    def device(self, id: DeviceID) -> Device | None:
        """A device by name, from the newest generation of its pool."""
        for one in newest_generation(self._by_pool.get(id.pool_id, {}).values()):
            for device in one.devices:
                if device.name == id.device:
                    return device
        return None

    # --- classes and claims ---

    def add_class(self, document: DeviceClass) -> None:
        self._classes[document["metadata"]["name"]] = document
        self._demands.clear()

    def remove_class(self, name: str) -> None:
        self._classes.pop(name, None)
        self._demands.clear()

    def device_class(self, name: str) -> DeviceClass | None:
        return self._classes.get(name)

    def demand(self, claim: ResourceClaim, features: Features) -> Demand:
        """What a claim asks for, read once for all claims with the same spec."""
        # An inventory nearly always sees one set of features.
        if features is not self._demanded_with:
            if features != self._demanded_with:
                self._demands.clear()
            self._demanded_with = features
        key = demand_key(claim)
        found = self._demands.get(key)
        if found is None:
            if len(self._demands) >= _DEMANDS_KEPT:
                self._demands.clear()
            found = self._demands[key] = read_claim(claim, key, self._classes.get, features)
        return found

    # --- nodes ---

    def pools(self, node: Node, features: Features) -> tuple[Pool, ...]:
        """The pools a node sees, in the order in which their devices are tried."""
        metadata = node.get("metadata") or {}
        name = metadata.get("name") or ""
        labels: Labels = metadata.get("labels") or {}
        view = self._views.get(name)
        if (
            view is None
            or view.epoch != self._epoch
            or view.pooling != features.pooling
            or (view.labels is not labels and view.labels != labels)
        ):
            view = NodeView(labels, features.pooling, self._epoch, self._gather_pools(name, labels, features))
            self._views[name] = view
        if self._counter_slices and features.counters_reach_every_node and features.partitionable_devices:
            return self._with_invalid_pools(view.pools, features)
        return view.pools

    def forget_node(self, name: str) -> None:
        """Drop what was put together for a node that is gone."""
        self._views.pop(name, None)

    def _gather_pools(self, name: str, labels: Labels, features: Features) -> tuple[Pool, ...]:
        seen: dict[PoolID, list[Slice]] = {}
        for one in self._candidates(name, labels, features):
            if one.admitted(features) and self._reaches(one, name, labels, features):
                seen.setdefault(one.pool, []).append(one)
        pools = []
        for id, slices in seen.items():
            self._seen_by.setdefault(id, set()).add(name)
            pool = self._pool(id, newest_generation(slices), features)
            if pool is not None:
                pools.append(pool)
        return sort_pools(pools)

    def _candidates(self, name: str, labels: Labels, features: Features) -> list[Slice]:
        found: dict[str, Slice] = {}
        for key in index_keys(name, labels):
            found.update(self._by_node.get(key, {}))
        if features.counters_reach_every_node:
            for id in {one.pool for one in found.values()} & self._counter_slices.keys():
                found.update(self._counter_slices[id])
        # Upstream looks at a node's own slices before those of several nodes.
        return sorted(found.values(), key=lambda one: (not one.local or bool(one.counter_sets), one.order))

    def _reaches(self, one: Slice, name: str, labels: Labels, features: Features) -> bool:
        if one.counter_sets and features.counters_reach_every_node:
            return True
        try:
            return one.reaches(name, labels)
        except AllocationError as error:
            message = (
                f"gather pool information: failed to perform node selection for slice {one.name}: {error}"
            )
            raise AllocationError(message) from error

    def _pool(self, id: PoolID, seen: list[Slice], features: Features) -> Pool | None:
        """One pool for all nodes that see the same of it."""
        built = self._built.setdefault(id, {})
        key = (features.pooling, *(one.key for one in seen))
        if key not in built:
            built[key] = build_pool(id, seen, list(self._by_pool[id].values()), features)
        return built[key]

    def _with_invalid_pools(self, pools: tuple[Pool, ...], features: Features) -> tuple[Pool, ...]:
        if self._checked != features.pooling:
            self._checked = features.pooling
            self._unchecked_pools.update(self._counter_slices)
        while self._unchecked_pools:
            id = self._unchecked_pools.pop()
            self._invalid_pools.pop(id, None)
            seen = sorted(self._counter_slices[id].values(), key=lambda one: one.order)
            seen = newest_generation(one for one in seen if one.admitted(features))
            pool = self._pool(id, seen, features) if seen else None
            if pool is not None and not pool.usable:
                self._invalid_pools[id] = pool
        if not self._invalid_pools:
            return pools
        seen_here = {pool.id for pool in pools}
        return sort_pools(
            [*pools, *(pool for id, pool in self._invalid_pools.items() if id not in seen_here)]
        )

"""The cache of claims and devices: the inventory, the devices in use, and the allocations that are not written yet.

Informers fill it, and the scheduler itself as soon as it decides: an allocation that has not been written yet counts
like any other. So this scheduler never allocates a device twice, however slow the writes are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from dray.allocation.inventory import Inventory
from dray.allocation.usage import Usage
from dray.api import claims, objects
from dray.api.identity import PoolID
from dray.placement.plugins.extended_resources import DeviceClassResolver

if TYPE_CHECKING:
    from dray.api.types.meta import ObjectMeta
    from dray.api.types.resource import (
        AllocationResult,
        Device,
        DeviceClass,
        DeviceTaintRule,
        NodeAllocatableResource,
        NodeAllocatableResourceMapping,
        ResourceClaim,
        ResourceSlice,
    )

Key = tuple[str, str]  # (namespace, name)
#: What devices that stand for resources of their node have, since 1.37 and in 1.36.
_MAPPINGS: Final = ("nodeAllocatableResources", "nodeAllocatableResourceMappings")


class ClaimCache:
    """Claims, slices, classes and taint rules, with the ``Inventory`` and ``Usage`` that the allocator reads."""

    def __init__(self, *, freed: Callable[[set[str] | None], None] = lambda nodes: None) -> None:
        """``freed`` is called with the nodes that may fit more pods than before; None: any node."""
        self.inventory = Inventory()
        self.usage = Usage()
        self.classes = DeviceClassResolver()
        self._freed = freed
        self._claims: dict[Key, ResourceClaim] = {}
        self._by_owner: dict[str, set[Key]] = {}  # pod uid → its claims for extended resources
        self._recorded: dict[
            str, tuple[ResourceClaim, AllocationResult]
        ] = {}  # by claim uid; counted in usage
        self._pending_allocations: set[str] = set()
        self._slices: dict[str, ResourceSlice] = {}
        #: slices with devices that stand for resources of their node
        self._node_allocatable_slices: dict[str, ResourceSlice] = {}
        self._taint_rules: dict[str, DeviceTaintRule] = {}
        #: pool → slice → node; None: a slice that is not of one node
        self._pool_nodes: dict[PoolID, dict[str, str | None]] = {}

    # -- claims -----------------------------------------------------------------------------------------------------

    def claim(self, namespace: str, name: str) -> ResourceClaim | None:
        return self._claims.get((namespace, name))

    def extended_resource_claim(self, pod_uid: str) -> ResourceClaim | None:
        """The claim for the pod's extended resources, if it exists; of several the oldest."""
        found = [self._claims[key] for key in self._by_owner.get(pod_uid, ())]
        return min(found, key=_age) if found else None

    def set_claim(self, claim: ResourceClaim) -> None:
        """A claim as the API server has it; the cached version and older ones are ignored."""
        metadata = claim["metadata"]
        key = (metadata["namespace"], metadata["name"])
        known = self._claims.get(key)
        if known is not None:
            if known["metadata"]["uid"] != metadata["uid"]:
                self.remove_claim(known)
            elif _is_known(metadata, known["metadata"]):
                return
        self._claims[key] = claim
        if (metadata.get("annotations") or {}).get(claims.EXTENDED_RESOURCE_ANNOTATION) == "true":
            owner = objects.controller_of(claim)
            if owner is not None:
                self._by_owner.setdefault(owner["uid"], set()).add(key)
        self._account(claim)

    def remove_claim(self, claim: ResourceClaim) -> None:
        metadata = claim["metadata"]
        key = (metadata["namespace"], metadata["name"])
        known = self._claims.get(key)
        if known is not None and known["metadata"]["uid"] == metadata["uid"]:
            del self._claims[key]
            owner = objects.controller_of(known)
            if owner is not None and key in (keys := self._by_owner.get(owner["uid"], set())):
                keys.discard(key)
                if not keys:
                    del self._by_owner[owner["uid"]]
        self._pending_allocations.discard(metadata["uid"])
        self._release(metadata["uid"])

    def _account(self, claim: ResourceClaim) -> None:
        uid = claim["metadata"]["uid"]
        allocation = claims.allocation(claim)
        if allocation is not None:
            self._pending_allocations.discard(uid)
            self._record(uid, claim, allocation)
        elif uid not in self._pending_allocations:
            self._release(uid)

    def _record(self, uid: str, claim: ResourceClaim, allocation: AllocationResult) -> None:
        recorded = self._recorded.get(uid)
        if recorded is not None:
            if recorded[1] is allocation or recorded[1].get("devices") == allocation.get("devices"):
                self._recorded[uid] = (claim, allocation)  # so that the former state need not be held for it
                return
            self._release(uid)
        self.usage.add(claim, allocation)
        self._recorded[uid] = (claim, allocation)

    def _release(self, uid: str) -> None:
        recorded = self._recorded.pop(uid, None)
        if recorded is not None:
            self._freed(self.nodes_of(self.usage.remove(*recorded)))

    # -- pending allocations ----------------------------------------------------------------------------------------

    def has_pending_allocation(self, uid: str) -> bool:
        return uid in self._pending_allocations

    def pending_allocation(self, uid: str) -> AllocationResult | None:
        """The allocation of a claim that is decided but not written yet."""
        return self._recorded[uid][1] if uid in self._pending_allocations and uid in self._recorded else None

    @contextmanager
    def as_if_free(self, freed: Iterable[ResourceClaim]) -> Iterator[None]:
        """What if these claims gave their devices back?"""
        taken = [
            self._recorded[uid] for claim in freed if (uid := claim["metadata"]["uid"]) in self._recorded
        ]
        for recorded in taken:
            self._freed(self.nodes_of(self.usage.remove(*recorded)))
        try:
            yield
        finally:
            for recorded in taken:
                self.usage.add(*recorded)
            if taken:
                self._freed(None)

    def assume(self, claim: ResourceClaim, allocation: AllocationResult) -> None:
        """Count an allocation that is decided but not written yet."""
        uid = claim["metadata"]["uid"]
        self._pending_allocations.add(uid)
        self._record(uid, claim, allocation)

    def assume_created(self, in_memory_uid: str, claim: ResourceClaim) -> None:
        """A claim that existed in memory only has been created: it takes over the assumed allocation."""
        recorded = self._recorded.pop(in_memory_uid, None)
        self._pending_allocations.discard(in_memory_uid)
        if recorded is not None:
            self.usage.remove(*recorded)
            self.assume(claim, recorded[1])

    def forget(self, uid: str) -> None:
        """The write did not happen: the assumed allocation is free again, unless the claim is allocated after all."""
        if uid in self._pending_allocations:
            self._pending_allocations.discard(uid)
            self._release(uid)

    # -- devices ----------------------------------------------------------------------------------------------------

    def nodes_of(self, pools: Iterable[PoolID]) -> set[str] | None:
        """The nodes that can use the pools; None when a pool is not of single nodes."""
        nodes: set[str] = set()
        for pool in pools:
            for node in self._pool_nodes.get(pool, {}).values():
                if node is None:
                    return None
                nodes.add(node)
        return nodes

    def set_slice(self, document: ResourceSlice) -> None:
        name = document["metadata"]["name"]
        if name in self._slices:
            self._forget_pool(name)
        self._slices[name] = document
        spec = document["spec"]
        if any(field in device for device in spec.get("devices") or () for field in _MAPPINGS):
            self._node_allocatable_slices[name] = document
        else:
            self._node_allocatable_slices.pop(name, None)
        pool = PoolID(spec["driver"], spec["pool"]["name"])
        self._pool_nodes.setdefault(pool, {})[name] = spec.get("nodeName") or None
        self.inventory.add_slice(self._tainted(document), key=name)
        self._freed(self.nodes_of([pool]))

    def remove_slice(self, name: str) -> None:
        if self._slices.pop(name, None) is not None:
            self._forget_pool(name)
            self._node_allocatable_slices.pop(name, None)
            self.inventory.remove_slice(name)
            # An older generation of the pool may count now, or the pool may be valid without the slice.
            self._freed(None)

    def _forget_pool(self, name: str) -> None:
        for pool, slices in list(self._pool_nodes.items()):
            if name in slices:
                del slices[name]
                if not slices:
                    del self._pool_nodes[pool]
                return

    @property
    def has_node_allocatable_devices(self) -> bool:
        """Whether some device stands for cpu or memory of its node."""
        return bool(self._node_allocatable_slices)

    def mappings(
        self, pool: str, device: str
    ) -> Mapping[str, NodeAllocatableResource | NodeAllocatableResourceMapping] | None:
        """The resources that a device stands for, in the form in which its slice has them."""
        for document in self._node_allocatable_slices.values():
            spec = document["spec"]
            if spec["pool"]["name"] == pool:
                for one in spec.get("devices") or ():
                    if one["name"] == device:
                        return one.get("nodeAllocatableResources") or one.get(
                            "nodeAllocatableResourceMappings"
                        )
        return None

    def set_class(self, document: DeviceClass) -> None:
        self.inventory.add_class(document)
        self.classes.set(document)
        self._freed(None)

    def remove_class(self, name: str) -> None:
        self.inventory.remove_class(name)
        self.classes.remove(name)

    def set_taint_rule(self, rule: DeviceTaintRule) -> None:
        self._taint_rules[rule["metadata"]["name"]] = rule
        self._taint_all()

    def remove_taint_rule(self, name: str) -> None:
        if self._taint_rules.pop(name, None) is not None:
            self._taint_all()

    def _taint_all(self) -> None:
        for name, document in self._slices.items():
            self.inventory.add_slice(self._tainted(document), key=name)
        self._freed(None)

    def _tainted(self, document: ResourceSlice) -> ResourceSlice:
        """The slice with the taints that rules add to its devices."""
        spec = document["spec"]
        rules = [
            r for r in self._taint_rules.values() if _selects_pool(r, spec["driver"], spec["pool"]["name"])
        ]
        if not rules:
            return document
        devices: list[Device] = []
        for device in spec.get("devices") or ():
            added = [r["spec"]["taint"] for r in rules if _selects_device(r, device["name"])]
            devices.append({**device, "taints": [*(device.get("taints") or ()), *added]} if added else device)
        return {**document, "spec": {**spec, "devices": devices}}


def _selects_device(rule: DeviceTaintRule, device: str) -> bool:
    return ((rule.get("spec") or {}).get("deviceSelector") or {}).get("device") in (None, "", device)


def _selects_pool(rule: DeviceTaintRule, driver: str, pool: str) -> bool:
    selector = (rule.get("spec") or {}).get("deviceSelector")
    if selector is None:
        return False
    return selector.get("driver") in (None, "", driver) and selector.get("pool") in (None, "", pool)


def _age(document: ResourceClaim) -> tuple[str, str]:
    metadata = document["metadata"]
    return metadata.get("creationTimestamp") or "", metadata["name"]


def _is_known(metadata: ObjectMeta, known: ObjectMeta) -> bool:
    """Whether the cached version is as new, as it is of a claim that this scheduler has written."""
    version, latest = metadata.get("resourceVersion"), known.get("resourceVersion")
    if not version or not latest:
        return False
    if version == latest:
        return True
    try:
        return int(latest) > int(version)
    except ValueError:  # versions of another API server need not be numbers; then the last event counts
        return False

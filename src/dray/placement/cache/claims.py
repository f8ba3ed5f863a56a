"""What the scheduler knows of claims and devices: the inventory, what is taken, and what is about to be.

Fed by informers, and by the scheduler itself the moment it decides: an allocation that has not been written yet is
already part of what everybody else sees. So no device is given twice by this scheduler, however slow the writes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from dray.allocation.inventory import Inventory
from dray.allocation.usage import Usage
from dray.api import claims, objects
from dray.api.identity import PoolID
from dray.placement.plugins.extended_resources import DeviceClassResolver

Document = Any
Key = tuple[str, str]  # (namespace, name)
_MAPPINGS = "nodeAllocatableResourceMappings"


class ClaimCache:
    """Claims, slices, classes and taint rules, and the two views of them that decisions need."""

    def __init__(self, *, freed: Callable[[set[str] | None], None] = lambda nodes: None) -> None:
        """``freed`` is told which nodes may fit more pods than before; None means any."""
        self.inventory = Inventory()
        self.usage = Usage()
        self.classes = DeviceClassResolver()
        self._freed = freed
        self._claims: dict[Key, Document] = {}
        self._by_owner: dict[str, set[Key]] = {}  # pod uid → extended-resource claims made for it
        self._recorded: dict[str, tuple[Document, Document]] = {}  # claim uid → what the usage counts for it
        self._pending_allocations: set[str] = set()
        self._slices: dict[str, Document] = {}
        self._node_allocatable_slices: dict[
            str, Document
        ] = {}  # slices with devices that stand for resources of their node
        self._taint_rules: dict[str, Document] = {}
        self._pool_nodes: dict[
            PoolID, dict[str, str | None]
        ] = {}  # pool → slice → node, None: not of one node

    # -- claims -----------------------------------------------------------------------------------------------------

    def claim(self, namespace: str, name: str) -> Document | None:
        return self._claims.get((namespace, name))

    def claims(self) -> Iterable[Document]:
        return self._claims.values()

    def extended_resource_claim(self, pod_uid: str) -> Document | None:
        """The claim that stands for the pod's extended resources, if it has been made; of several the oldest."""
        made = [self._claims[key] for key in self._by_owner.get(pod_uid, ())]
        return min(made, key=_age) if made else None

    def set_claim(self, claim: Document) -> None:
        """A claim as the API server has it. What is known already, and older news, is passed over."""
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
        self._account(claim, known)

    def remove_claim(self, claim: Document) -> None:
        metadata = claim["metadata"]
        key = (metadata["namespace"], metadata["name"])
        known = self._claims.get(key)
        if known is not None and known["metadata"]["uid"] == metadata["uid"]:
            del self._claims[key]
            owner = objects.controller_of(known)
            if owner is not None and key in (held := self._by_owner.get(owner["uid"], set())):
                held.discard(key)
                if not held:
                    del self._by_owner[owner["uid"]]
        self._pending_allocations.discard(metadata["uid"])
        self._release(metadata["uid"])

    def _account(self, claim: Document, known: Document | None) -> None:
        uid = claim["metadata"]["uid"]
        allocation = claims.allocation(claim)
        if allocation is not None:
            self._pending_allocations.discard(uid)
            self._record(uid, claim, allocation)
        elif uid not in self._pending_allocations:
            self._release(uid)

    def _record(self, uid: str, claim: Document, allocation: Document) -> None:
        recorded = self._recorded.get(uid)
        if recorded is not None:
            if recorded[1] is allocation or recorded[1].get("devices") == allocation.get("devices"):
                return
            self._release(uid)
        self.usage.add(claim, allocation)
        self._recorded[uid] = (claim, allocation)

    def _release(self, uid: str) -> None:
        recorded = self._recorded.pop(uid, None)
        if recorded is not None:
            self._freed(self.nodes_of(self.usage.remove(*recorded)))

    # -- allocations in flight --------------------------------------------------------------------------------------

    def has_pending_allocation(self, uid: str) -> bool:
        return uid in self._pending_allocations

    def assume(self, claim: Document, allocation: Document) -> None:
        """Count an allocation that is decided but not written yet."""
        uid = claim["metadata"]["uid"]
        self._pending_allocations.add(uid)
        self._record(uid, claim, allocation)

    def assume_created(self, in_memory_uid: str, claim: Document) -> None:
        """A claim that was only planned has been made: what was promised to its stand-in is promised to it."""
        recorded = self._recorded.pop(in_memory_uid, None)
        self._pending_allocations.discard(in_memory_uid)
        if recorded is not None:
            self.usage.remove(*recorded)
            self.assume(claim, recorded[1])

    def forget(self, uid: str) -> None:
        """The write did not happen: what was promised is free again, unless the claim turned out allocated."""
        if uid in self._pending_allocations:
            self._pending_allocations.discard(uid)
            self._release(uid)

    # -- devices ----------------------------------------------------------------------------------------------------

    def nodes_of(self, pools: Iterable[PoolID]) -> set[str] | None:
        """The nodes that see the pools; None when that is not known node by node."""
        nodes: set[str] = set()
        for pool in pools:
            for node in self._pool_nodes.get(pool, {}).values():
                if node is None:
                    return None
                nodes.add(node)
        return nodes

    def set_slice(self, document: Document) -> None:
        name = document["metadata"]["name"]
        if name in self._slices:
            self._forget_pool(name)
        self._slices[name] = document
        spec = document["spec"]
        if any(_MAPPINGS in device for device in spec.get("devices") or ()):
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
            # An older generation of the pool, or a pool that was invalid with it, may come to the fore.
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

    def mappings(self, pool: str, device: str) -> Mapping[str, Document] | None:
        """The resources that a device stands for."""
        for document in self._node_allocatable_slices.values():
            spec = document["spec"]
            if spec["pool"]["name"] == pool:
                for one in spec.get("devices") or ():
                    if one["name"] == device:
                        found: Mapping[str, Document] | None = one.get(_MAPPINGS)
                        return found
        return None

    def set_class(self, document: Document) -> None:
        self.inventory.add_class(document)
        self.classes.set(document)
        self._freed(None)

    def remove_class(self, name: str) -> None:
        self.inventory.remove_class(name)
        self.classes.remove(name)

    def set_taint_rule(self, rule: Document) -> None:
        self._taint_rules[rule["metadata"]["name"]] = rule
        self._taint_again()

    def remove_taint_rule(self, name: str) -> None:
        if self._taint_rules.pop(name, None) is not None:
            self._taint_again()

    def _taint_again(self) -> None:
        for name, document in self._slices.items():
            self.inventory.add_slice(self._tainted(document), key=name)
        self._freed(None)

    def _tainted(self, document: Document) -> Document:
        """The slice with the taints that rules put on its devices."""
        spec = document["spec"]
        rules = [
            r for r in self._taint_rules.values() if _selects_pool(r, spec["driver"], spec["pool"]["name"])
        ]
        if not rules:
            return document
        devices = []
        for device in spec.get("devices") or ():
            added = [_taint(r) for r in rules if _selector(r).get("device") in (None, "", device["name"])]
            devices.append({**device, "taints": [*(device.get("taints") or ()), *added]} if added else device)
        return {**document, "spec": {**spec, "devices": devices}}


def _selector(rule: Document) -> Document:
    return (rule.get("spec") or {}).get("deviceSelector") or {}


def _selects_pool(rule: Document, driver: str, pool: str) -> bool:
    selector = (rule.get("spec") or {}).get("deviceSelector")
    if selector is None:
        return False
    return selector.get("driver") in (None, "", driver) and selector.get("pool") in (None, "", pool)


def _taint(rule: Document) -> Document:
    taint: Document = rule["spec"]["taint"]
    return taint


def _age(document: Document) -> tuple[str, str]:
    metadata = document["metadata"]
    return metadata.get("creationTimestamp") or "", metadata["name"]


def _is_known(metadata: Document, known: Document) -> bool:
    """Whether something as new is known already, as it is of a claim that was written here."""
    version, latest = metadata.get("resourceVersion"), known.get("resourceVersion")
    if not version or not latest:
        return False
    if version == latest:
        return True
    try:
        return int(latest) > int(version)
    except ValueError:  # an API server may use anything; then the newest news wins
        return False

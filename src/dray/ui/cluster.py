"""A cluster that is kept up to date object by object, with a note of everything that a change has touched.

It is ``explain``'s cluster, so devices and their states are worked out by the same code as for ``dray devices``. What
a change costs depends on the pools it touches, not on the size of the cluster.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, cast

from dray.allocation import DeviceID, Inventory, PoolID, Usage
from dray.allocation.pools import Pool, build_pool, newest_generation
from dray.allocation.taints import with_taint_rules
from dray.api import claims as resource_claims
from dray.api.groups.resource.classic import bridge
from dray.api.identity import ObjectKey, object_key
from dray.explain.allocated import claims_of
from dray.explain.classic import shows_devices_as_named_resources
from dray.explain.devices import health as device_health
from dray.explain.devices.states import DeviceView, devices_of_pool
from dray.explain.model.cluster import Cluster
from dray.explain.model.collector import RESOURCES
from dray.explain.model.snapshot import Snapshot
from dray.ui import named_resources

if TYPE_CHECKING:
    from dray.api.types.core import Node, Pod
    from dray.api.types.resource import DeviceClass, DeviceTaintRule, ResourceClaim, ResourceSlice
    from dray.api.types.resource_v1alpha2 import ResourceClaim as ClassicClaim
    from dray.api.types.resource_v1alpha2 import ResourceSlice as ClassicSlice

#: Fields whose objects are found by name alone.
_BY_NAME: Final = ("nodes", "classes", "namespaces", "resource_classes")


@dataclass(slots=True)
class Touched:
    """What has changed since this was last looked at."""

    pools: set[PoolID] = field(default_factory=set)
    claims: set[ObjectKey] = field(default_factory=set)
    pods: set[ObjectKey] = field(default_factory=set)
    nodes: set[str] = field(default_factory=set)
    slices: set[str] = field(default_factory=set)
    classes: set[str] = field(
        default_factory=set
    )  # a class that changes changes what every pool counts for it

    def __bool__(self) -> bool:
        return bool(
            self.pools or self.claims or self.pods or self.nodes or self.slices or self.classes
        )  # fmt: skip


class LiveCluster(Cluster):
    """Look-ups over objects that come and go. Fields are those of a snapshot."""

    def __init__(
        self, *, release: str = "", gates: frozenset[str] | None = None, unread: tuple[str, ...] = ()
    ) -> None:
        super().__init__(Snapshot(release=release, gates=gates, unread=unread), filters_nodes=True)
        self.objects: dict[str, dict[ObjectKey, Any]] = {name: {} for name in RESOURCES}
        self.touched = Touched()
        self.revision = 0  # counts the changes
        self.slices: dict[str, ResourceSlice] = {}  # also those of 1.30, in today's shape
        self.pods_of_claim: dict[ObjectKey, set[ObjectKey]] = {}
        self.health: dict[DeviceID, str] = {}
        self._reported: dict[tuple[str, ObjectKey], dict[DeviceID, str]] = {}
        # In place of the look-ups that a cluster makes of its snapshot.
        self.inventory = Inventory()
        self.usage = Usage(sharing=self.features.consumable_capacity)
        self.pools: dict[PoolID, Pool] = {}
        self.nodes: dict[str, Node] = {}
        self.classes: dict[str, DeviceClass] = {}
        self.namespaces = {}
        self.resource_classes = {}
        self.pods: dict[ObjectKey, Pod] = self.objects["pods"]
        self.claims: dict[ObjectKey, ResourceClaim] = {}
        self.templates = self.objects["templates"]
        self.classic_claims = self.objects["classic_claims"]
        self.classic_templates = self.objects["classic_templates"]
        self.scheduling_contexts = self.objects["scheduling_contexts"]
        self.groups = self.objects["groups"]
        self._pods_by_uid: dict[str | None, ObjectKey] = {}

    # --- changes ---

    def fill(self, snapshot: Snapshot) -> None:
        """All objects of a snapshot are there."""
        for name, objects in self.objects.items():
            for obj in getattr(snapshot, name):
                if object_key(obj) not in objects:
                    self.put(name, obj)

    def put(self, name: str, obj: Any) -> None:
        """An object of this field is there, or is there in another form."""
        key = object_key(obj)
        objects = self.objects[name]
        old = objects.get(key)
        objects[key] = obj
        self._change(name, key, old, obj)

    def remove(self, name: str, obj: Any) -> None:
        key = object_key(obj)
        old = self.objects[name].pop(key, None)
        if old is not None:
            self._change(name, key, old, None)

    def _change(self, name: str, key: ObjectKey, old: Any, new: Any) -> None:
        self.revision += 1
        if name in _BY_NAME:
            known = getattr(self, name)
            if new is None:
                known.pop(key.name, None)
            else:
                known[key.name] = new
        match name:
            case "slices":
                self._slice(key.name, old, new)
            case "classic_slices":
                self._classic_slice(key.name, old, new)
            case "claims" | "classic_claims":
                self._claim(key, old, new, classic=name == "classic_claims")
            case "pods":
                self._pod(key, old, new)
            case "nodes":
                self.touched.nodes.add(key.name)
            case "classes":
                self._class(key.name, new)
            case "resource_classes":
                self.touched.classes.add(key.name)
            case "taint_rules":
                for name, document in list(self.slices.items()):
                    self._slice(name, document, document)

    def _slice(self, name: str, old: ResourceSlice | None, new: ResourceSlice | None) -> None:
        self.touched.slices.add(name)
        for document in (old, new):
            if document is not None:
                self.touched.pools.add(_pool_of(document))
        if new is None:
            self.inventory.remove_slice(name)
            self.slices.pop(name, None)
            return
        self.slices[name] = new
        rules: dict[ObjectKey, DeviceTaintRule] = self.objects["taint_rules"]
        if rules and self.features.device_taints:
            new = with_taint_rules(new, rules.values())
        self.inventory.add_slice(new)

    def _classic_slice(self, name: str, old: ClassicSlice | None, new: ClassicSlice | None) -> None:
        if not shows_devices_as_named_resources(self):
            return
        if new is None:
            self._slice(name, self.slices.get(name), None)
        known: dict[ObjectKey, ClassicSlice] = self.objects["classic_slices"]
        for pool in {named_resources.pool_of(one) for one in (old, new) if one is not None}:
            for document in named_resources.slices_of(pool, known.values()):
                of = object_key(document).name
                self._slice(of, self.slices.get(of), document)

    def _claim(self, key: ObjectKey, old: Any, new: Any, *, classic: bool) -> None:
        self.touched.claims.add(key)
        self.touched.pods.update(self.pods_of_claim.get(key, ()))  # why they wait depends on their claims
        if classic:
            old = self.claims.get(key)
            new = self._modern(new) if new is not None else None
        if new is None:
            self.claims.pop(key, None)
        else:
            self.claims[key] = new
        for claim, change in ((old, self.usage.remove), (new, self.usage.add)):
            if claim is not None:
                self.touched.pools.update(change(claim))
                # Admin access takes nothing, but its holder is shown.
                self.touched.pools.update(_pools_of(claim))
        found = dict(device_health.reported_by_claim(key, new)) if new is not None else {}
        self._report(("claim", key), found)
        for pod in self.pods_of_claim.get(key, ()):
            if (document := self.pods.get(pod)) is not None:
                self._report(("pod", pod), dict(device_health.reported_by_pod(self, pod, document)))

    def _modern(self, classic: ClassicClaim) -> ResourceClaim:
        typed = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim"}
        claim = cast("ResourceClaim", {**typed, **bridge.as_modern(cast("dict[str, Any]", classic))})
        if not shows_devices_as_named_resources(self):
            return claim
        return named_resources.with_instances(self, classic, claim)

    def _pod(self, key: ObjectKey, old: Pod | None, new: Pod | None) -> None:
        self.touched.pods.add(key)
        before = (
            {ObjectKey(key.namespace, name) for name in claims_of(self, old)} if old is not None else set()
        )
        after = (
            {ObjectKey(key.namespace, name) for name in claims_of(self, new)} if new is not None else set()
        )
        for claim in before - after:
            self.pods_of_claim[claim].discard(key)
            if not self.pods_of_claim[claim]:
                del self.pods_of_claim[claim]
        for claim in after - before:
            self.pods_of_claim.setdefault(claim, set()).add(key)
        self.touched.claims.update(before ^ after)
        if old is not None:
            self._pods_by_uid.pop(old["metadata"].get("uid"), None)
        if new is not None:
            self._pods_by_uid[new["metadata"].get("uid")] = key
        reports = dict(device_health.reported_by_pod(self, key, new)) if new is not None else {}
        self._report(("pod", key), reports)

    def _class(self, name: str, new: DeviceClass | None) -> None:
        self.touched.classes.add(name)
        if new is None:
            self.inventory.remove_class(name)
        else:
            self.inventory.add_class(new)

    def _report(self, source: tuple[str, ObjectKey], found: dict[DeviceID, str]) -> None:
        """Which devices a pod or claim reports as unhealthy now."""
        before = self._reported.get(source, {})
        if found == before:
            return
        if found:
            self._reported[source] = found
        else:
            del self._reported[source]
        for device in before.keys() | found.keys():
            words = [one[device] for one in self._reported.values() if device in one]
            if words:
                self.health[device] = words[0]
            else:
                self.health.pop(device, None)
            self.touched.pools.add(device.pool_id)

    # --- what follows from them ---

    def take_touched(self) -> Touched:
        """What was touched since this was asked last; pools among it are built anew."""
        touched, self.touched = self.touched, Touched()
        for id in touched.pools:
            slices = [one for one in self.inventory.slices_of(id) if one.admitted(self.features)]
            pool = build_pool(id, newest_generation(slices), slices, self.features) if slices else None
            if pool is None:
                self.pools.pop(id, None)
            else:
                self.pools[id] = pool
        return touched

    def touched_pod(self, key: ObjectKey) -> None:
        """What is said about a pod has changed, though the pod has not."""
        self.touched.pods.add(key)

    def devices(self, pool: Pool) -> Iterator[DeviceView]:
        return devices_of_pool(self, pool, self.health)

    def slices_of(self, pool: PoolID) -> list[Any]:
        return newest_generation(self.inventory.slices_of(pool))

    def frozen(self) -> Cluster:
        """The cluster as it is now, for work that takes longer and is done in a thread."""
        snapshot = Snapshot(
            release=self.snapshot.release,
            gates=self.snapshot.gates,
            unread=self.snapshot.unread,
            **{name: tuple(objects.values()) for name, objects in self.objects.items() if name != "slices"},
            slices=tuple(self.slices.values()),
        )
        cluster = Cluster(snapshot, filters_nodes=True)
        cluster.usage = self.usage.snapshot()
        return cluster


def _pool_of(document: ResourceSlice) -> PoolID:
    spec = document["spec"]
    return PoolID(spec["driver"], spec["pool"]["name"])


def _pools_of(claim: ResourceClaim) -> Iterator[PoolID]:
    for result in resource_claims.allocation_results(claim):
        yield PoolID(result["driver"], result["pool"])

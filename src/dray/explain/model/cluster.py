"""A snapshot with its look-ups: objects by name, the inventory of devices, what claims have allocated."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cached_property
from typing import TYPE_CHECKING, Any, cast

from dray.allocation import DeviceID, Features, Inventory, PoolID, Usage
from dray.allocation.pools import Pool, Slice, build_pool, newest_generation
from dray.allocation.taints import with_taint_rules
from dray.api.claims import has_fixed_names
from dray.api.groups.resource.classic import bridge
from dray.api.identity import ObjectKey, object_key
from dray.api.release import EMULATED, EffectiveVersion, Gates, Release
from dray.explain.model.snapshot import Snapshot

if TYPE_CHECKING:
    from dray.api.types import Object
    from dray.api.types.core import Namespace, Node, Pod
    from dray.api.types.resource import DeviceClass, ResourceClaim, ResourceClaimTemplate, ResourceSlice
    from dray.api.types.resource_v1alpha2 import PodSchedulingContext, ResourceClass
    from dray.api.types.resource_v1alpha2 import ResourceClaim as ClassicClaim
    from dray.api.types.resource_v1alpha2 import ResourceClaimTemplate as ClassicTemplate
    from dray.api.types.scheduling_v1beta1 import PodGroup
    from dray.explain.nodes.filters import NodeFilters


class Cluster:
    """Look-ups over a snapshot, each made when it is needed for the first time."""

    def __init__(self, snapshot: Snapshot, *, filters_nodes: bool = False) -> None:
        """``filters_nodes``: the scheduler's filters apply. Otherwise a node's devices alone decide."""
        self.snapshot = snapshot
        self._filters_nodes = filters_nodes

    def node_filters(self) -> NodeFilters | None:
        """The scheduler's filters over the nodes and pods of the snapshot, made anew."""
        if not self._filters_nodes:
            return None
        from dray.explain.nodes.filters import NodeFilters

        return NodeFilters(self)

    def changed(self, snapshot: Snapshot) -> Cluster:
        """Another state of the same cluster."""
        return Cluster(snapshot, filters_nodes=self._filters_nodes)

    @cached_property
    def version(self) -> EffectiveVersion:
        return EffectiveVersion.parse(_emulated(self.snapshot.release))

    @cached_property
    def gates(self) -> Gates:
        gates = self.snapshot.gates
        return self.version.gates() if gates is None else Gates(gates)

    @cached_property
    def features(self) -> Features:
        return Features.of(self.version.release, self.gates)

    @cached_property
    def inventory(self) -> Inventory:
        rules = self.snapshot.taint_rules if self.features.device_taints else ()
        slices: Iterable[ResourceSlice] = self.snapshot.slices
        if rules:
            slices = (with_taint_rules(one, rules) for one in slices)
        return Inventory(slices=slices, classes=self.snapshot.classes)

    @cached_property
    def usage(self) -> Usage:
        return Usage.by(self.snapshot.claims, sharing=self.features.consumable_capacity)

    @cached_property
    def nodes(self) -> dict[str, Node]:
        return {object_key(node).name: node for node in self.snapshot.nodes}

    @cached_property
    def pods(self) -> dict[ObjectKey, Pod]:
        return {object_key(pod): pod for pod in self.snapshot.pods}

    @cached_property
    def claims(self) -> dict[ObjectKey, ResourceClaim]:
        """Every claim, classic ones as the bridge shows them."""
        found = {object_key(claim): claim for claim in self.snapshot.claims}
        for key, classic in self.classic_claims.items():
            view = bridge.as_modern(cast("dict[str, Any]", classic))
            typed: ResourceClaim = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim"}
            found[key] = cast("ResourceClaim", {**typed, **view})
        return found

    @cached_property
    def templates(self) -> dict[ObjectKey, ResourceClaimTemplate]:
        return {object_key(template): template for template in self.snapshot.templates}

    @cached_property
    def groups(self) -> dict[ObjectKey, PodGroup]:
        return {object_key(group): group for group in self.snapshot.groups}

    @cached_property
    def classes(self) -> dict[str, DeviceClass]:
        return {object_key(one).name: one for one in self.snapshot.classes}

    @cached_property
    def fixed_names(self) -> bool:
        """Whether claims made from templates have names that follow from their pod's."""
        return has_fixed_names(self.version.release)

    @cached_property
    def classic_claims(self) -> dict[ObjectKey, ClassicClaim]:
        return {object_key(claim): claim for claim in self.snapshot.classic_claims}

    @cached_property
    def classic_templates(self) -> dict[ObjectKey, ClassicTemplate]:
        return {object_key(template): template for template in self.snapshot.classic_templates}

    @cached_property
    def resource_classes(self) -> dict[str, ResourceClass]:
        return {object_key(one).name: one for one in self.snapshot.resource_classes}

    @cached_property
    def scheduling_contexts(self) -> dict[ObjectKey, PodSchedulingContext]:
        return {object_key(one): one for one in self.snapshot.scheduling_contexts}

    @cached_property
    def namespaces(self) -> dict[str, Namespace]:
        return {object_key(one).name: one for one in self.snapshot.namespaces}

    def users_of(self, claim: ObjectKey) -> tuple[ObjectKey, ...]:
        """The pods that a claim is reserved for."""
        reserved = ((self.claims.get(claim) or {}).get("status") or {}).get("reservedFor") or ()
        return tuple(
            self._pods_by_uid.get(entry.get("uid")) or ObjectKey(claim.namespace, entry.get("name", ""))
            for entry in reserved
        )

    def warnings(self, obj: Object, *, most: int = 3) -> list[str]:
        """The newest warning events about an object, each text once."""
        uid = (obj.get("metadata") or {}).get("uid")
        about = [
            one for one in self.snapshot.events if uid and (one.get("involvedObject") or {}).get("uid") == uid
        ]
        about.sort(key=lambda one: one.get("lastTimestamp") or one.get("eventTime") or "", reverse=True)
        said = dict.fromkeys(f"{one.get('reason', '')}: {one.get('message', '')}" for one in about)
        return list(said)[:most]

    @cached_property
    def _pods_by_uid(self) -> dict[str | None, ObjectKey]:
        return {(pod.get("metadata") or {}).get("uid"): key for key, pod in self.pods.items()}

    @cached_property
    def pools(self) -> dict[PoolID, Pool]:
        """Every pool as a whole, whatever single nodes see of it."""
        return {
            id: pool
            for id, slices in self._slices_by_pool.items()
            if (pool := build_pool(id, newest_generation(slices), slices, self.features)) is not None
        }

    @cached_property
    def _slices_by_pool(self) -> dict[PoolID, list[Slice]]:
        found: dict[PoolID, list[Slice]] = {}
        for one in self.inventory.slices():
            if one.admitted(self.features):
                found.setdefault(one.pool, []).append(one)
        return found

    def slices_of(self, pool: PoolID) -> list[Slice]:
        """The newest generation of a pool, as far as it is there."""
        return newest_generation(self._slices_by_pool.get(pool, ()))

    def owners(self, device: DeviceID) -> Iterator[ObjectKey]:
        """The claims that use a device."""
        for name in self.usage.owners(device):
            namespace, _, name = name.rpartition("/")
            yield ObjectKey(namespace, name)


def _emulated(release: str) -> str:
    """The newest release up to this one that can be emulated; empty: emulate none."""
    try:
        wanted = Release.parse(release)
    except ValueError:
        return ""
    older = [known for known in EMULATED if known <= wanted]
    return str(max(older)) if older and wanted <= max(EMULATED) else ""

"""A snapshot with everything looked up and added together: devices, what is taken, who is where."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cached_property
from typing import NamedTuple

from dray.allocation import DeviceID, Features, Inventory, PoolID, Usage
from dray.allocation.pools import Pool, Slice, build_pool, newest_generation
from dray.allocation.taints import with_taint_rules
from dray.api.release import EMULATED, EffectiveVersion, Gates
from dray.explain.model.snapshot import Document, Snapshot
from dray.explain.nodes.causes import NodeFilters


class Key(NamedTuple):
    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}" if self.namespace else self.name


def key_of(document: Document) -> Key:
    metadata = document.get("metadata") or {}
    return Key(metadata.get("namespace") or "", metadata.get("name") or "")


class Cluster:
    """Look-ups over a snapshot, each worked out when it is first asked for."""

    def __init__(
        self, snapshot: Snapshot, *, node_filters: Callable[[Cluster], NodeFilters] | None = None
    ) -> None:
        """``scheduling`` brings the scheduler's filters; without it nodes are asked for their devices only."""
        self.snapshot = snapshot
        self._node_filters = node_filters

    def node_filters(self) -> NodeFilters | None:
        """The nodes as the scheduler sees them, made anew."""
        return None if self._node_filters is None else self._node_filters(self)

    def changed(self, snapshot: Snapshot) -> Cluster:
        """Another state of the same cluster."""
        return Cluster(snapshot, node_filters=self._node_filters)

    @cached_property
    def gates(self) -> Gates:
        release = EffectiveVersion.parse(_emulated(self.snapshot.release))
        known = release.gates()
        return known if self.snapshot.gates is None else Gates(self.snapshot.gates, known.release)

    @cached_property
    def features(self) -> Features:
        return Features.of(self.gates.release, self.gates)

    @cached_property
    def inventory(self) -> Inventory:
        rules = self.snapshot.taint_rules if self.features.device_taints else ()
        slices = (
            (with_taint_rules(one, rules) for one in self.snapshot.slices) if rules else self.snapshot.slices
        )
        return Inventory(slices=slices, classes=self.snapshot.classes)

    @cached_property
    def usage(self) -> Usage:
        return Usage.by(self.snapshot.claims, sharing=self.features.consumable_capacity)

    @cached_property
    def nodes(self) -> dict[str, Document]:
        return {key_of(node).name: node for node in self.snapshot.nodes}

    @cached_property
    def pods(self) -> dict[Key, Document]:
        return {key_of(pod): pod for pod in self.snapshot.pods}

    @cached_property
    def claims(self) -> dict[Key, Document]:
        return {key_of(claim): claim for claim in self.snapshot.claims}

    @cached_property
    def templates(self) -> dict[Key, Document]:
        return {key_of(template): template for template in self.snapshot.templates}

    @cached_property
    def classes(self) -> dict[str, Document]:
        return {key_of(one).name: one for one in self.snapshot.classes}

    @cached_property
    def namespaces(self) -> dict[str, Document]:
        return {key_of(one).name: one for one in self.snapshot.namespaces}

    def users_of(self, claim: Key) -> tuple[Key, ...]:
        """The pods that a claim is reserved for."""
        reserved = ((self.claims.get(claim) or {}).get("status") or {}).get("reservedFor") or ()
        return tuple(
            self._pods_by_uid.get(entry.get("uid")) or Key(claim.namespace, entry.get("name", ""))
            for entry in reserved
        )

    def warnings(self, document: Document, *, most: int = 3) -> list[str]:
        """What was last warned of about an object, each thing once."""
        uid = (document.get("metadata") or {}).get("uid")
        about = [
            one for one in self.snapshot.events if uid and (one.get("involvedObject") or {}).get("uid") == uid
        ]
        about.sort(key=lambda one: one.get("lastTimestamp") or one.get("eventTime") or "", reverse=True)
        said = dict.fromkeys(f"{one.get('reason', '')}: {one.get('message', '')}" for one in about)
        return list(said)[:most]

    @cached_property
    def _pods_by_uid(self) -> dict[str | None, Key]:
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

    def owners(self, device: DeviceID) -> Iterator[Key]:
        """The claims that use a device."""
        for name in self.usage.owners(device):
            namespace, _, name = name.rpartition("/")
            yield Key(namespace, name)


def _emulated(release: str) -> str:
    """The release whose rules are known and nearest below; empty: the newest of all."""
    try:
        number = tuple(map(int, release.split(".")[:2]))
    except ValueError:
        return ""
    known = {tuple(known): str(known) for known in EMULATED}
    if not number or number > max(known):
        return ""
    older = [one for one in known if one <= number]
    return known[max(older)] if older else ""

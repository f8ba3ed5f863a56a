"""A snapshot of ``dray snapshot``, or a live cluster, as the start of a simulation; its pending pods as a workload."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dray.api import claims, pods
from dray.simulate.model import Arrival, Cluster

if TYPE_CHECKING:
    from dray.api.types.core import Pod
    from dray.api.types.resource import ResourceClaim
    from dray.explain import Snapshot


@dataclass(frozen=True)
class SnapshotSource:
    """Pods that have a node are in the cluster, and those that wait for one arrive at 0 s."""

    snapshot: Snapshot

    def cluster(self) -> Cluster:
        snapshot = self.snapshot
        waiting = {id(claim) for pod in self._pending() for claim in self._claims_of(pod)}
        return Cluster(
            nodes=snapshot.nodes,
            slices=snapshot.slices,
            classes=snapshot.classes,
            taint_rules=snapshot.taint_rules,
            groups=snapshot.groups,
            pods=[pod for pod in snapshot.pods if pod["spec"].get("nodeName") and not pods.is_terminal(pod)],
            claims=[claim for claim in snapshot.claims if id(claim) not in waiting],
        )

    def events(self, seed: int) -> Iterator[Arrival]:
        brought: set[int] = set()  # claims that several pods share come with the first of them
        for pod in self._pending():
            found = [claim for claim in self._claims_of(pod) if id(claim) not in brought]
            brought.update(map(id, found))
            yield Arrival(0.0, pod, tuple(found))

    def _pending(self) -> list[Pod]:
        return [
            pod
            for pod in self.snapshot.pods
            if not pod["spec"].get("nodeName")
            and not pods.is_terminal(pod)
            and not pod["spec"].get("schedulingGates")
            and "deletionTimestamp" not in pod["metadata"]
        ]

    def _claims_of(self, pod: Pod) -> Iterator[ResourceClaim]:
        """The claims that are not allocated yet; others are part of the cluster."""
        names = {one.claim for one in claims.references(pod) if one.claim}
        for claim in self.snapshot.claims:
            metadata = claim["metadata"]
            if (
                metadata["namespace"] == pod["metadata"]["namespace"]
                and metadata["name"] in names
                and claims.allocation(claim) is None
            ):
                yield claim

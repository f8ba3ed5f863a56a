"""What if: which node and devices would pods get, and how many of them still fit?

Pods are placed one after the other, each seeing what those before it have taken. A pod gets the first node that takes
it, with ``pack`` the fullest and with ``spread`` the emptiest; which of several a scheduler would prefer otherwise is a
matter of its scores.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from typing import Any

from dray.allocation import DEFAULT, SPREAD, Policy
from dray.allocation.policies import occupancy
from dray.api import claims as pod_claims
from dray.api.identity import DeviceID
from dray.explain.explainer import claims_of_pod
from dray.explain.model.cluster import Cluster, Key
from dray.explain.model.snapshot import Document
from dray.explain.nodes.trial import Trial

#: filters whose answer may change for the better when other pods are placed
_CHANGING = ("InterPodAffinity", "PodTopologySpread")


@dataclass(frozen=True, slots=True)
class DeviceGrant:
    """One device for one request."""

    claim: str
    request: str
    device: DeviceID

    def as_document(self) -> dict[str, Any]:
        return {"claim": self.claim, "request": self.request, "device": str(self.device)}


@dataclass(frozen=True, slots=True)
class PodPlacement:
    """Where a pod would go, and what it would get; without a node, why it would not."""

    pod: str
    node: str = ""
    devices: tuple[DeviceGrant, ...] = ()
    problem: str = ""

    def as_document(self) -> dict[str, Any]:
        return {
            "pod": self.pod,
            "node": self.node,
            "devices": [one.as_document() for one in self.devices],
            "problem": self.problem,
        }


@dataclass(frozen=True, slots=True)
class CandidateNodes:
    """Nodes worth trying, best first: score, position, name."""

    heap: list[tuple[float, int, str]]


class WhatIf:
    """A cluster that fills up, in thought only."""

    def __init__(self, cluster: Cluster, *, policy: Policy = DEFAULT) -> None:
        self.cluster = cluster
        self._policy = policy
        self._usage = cluster.usage.snapshot()
        self._node_filters = cluster.node_filters()
        self._placed: list[Document] = []
        #: claims that several of the pods share are allocated once
        self._allocated: dict[Key, Document] = {}

    def candidates(self) -> CandidateNodes:
        """All nodes, to be tried in the order that suits the policy."""
        return CandidateNodes(
            sorted((self._score(n), number, n) for number, n in enumerate(self.cluster.nodes))
        )

    def _score(self, name: str) -> float:
        """Less is better: the fuller or the emptier, or all the same."""
        if self._policy is DEFAULT:
            return 0.0
        pools = self.cluster.inventory.pools(self.cluster.nodes[name], self.cluster.features)
        used = occupancy(pools, self._usage)
        return used if self._policy is SPREAD else -used

    def place(self, key: Key, pod: Document, candidates: CandidateNodes | None = None) -> PodPlacement:
        """Place a pod on the first of the candidates that takes it; those that never will are taken out."""
        gathered = claims_of_pod(self.cluster, key, pod)
        if gathered.facts:
            return PodPlacement(str(key), problem=gathered.facts[0])
        wanted = [self._current(claim) for claim in gathered.claims]
        trial = Trial(self.cluster, pod, wanted, policy=self._policy, node_filters=self._node_filters)
        if trial.pod_filters is not None and (refusal := trial.pod_filters.before()) is not None:
            return PodPlacement(str(key), problem=refusal.reasons[0])
        heap = (candidates or self.candidates()).heap
        later: list[tuple[float, int, str]] = []
        placed = PodPlacement(str(key), problem="fits on no node")
        while heap:
            score, number, name = heappop(heap)
            node = self.cluster.nodes[name]
            tried = trial.on_equivalent(node, self._usage)
            if tried.fits:
                plan = trial.on(node, self._usage).answer.plan
                assert plan is not None
                claims = trial.demands(name).documents
                self._take(claims, plan.results, name, pod)
                placed = PodPlacement(str(key), name, tuple(_device_grants(claims, plan.results)))
                later.append((self._score(name), number, name))
                break
            # Taking devices never makes room; but pods may want to be near to others, or evenly spread.
            if any(cause.refusal.plugin in _CHANGING for cause in tried.causes):
                later.append((score, number, name))
        for entry in later:
            heappush(heap, entry)
        return placed

    def _current(self, claim: Document) -> Document:
        return self._allocated.get(_key(claim), claim)

    def _take(
        self, claims: Sequence[Document], results: Sequence[Document], node: str, pod: Document
    ) -> None:
        for claim, result in zip(claims, results, strict=True):
            self._usage.add(claim, result)
            status = {**(claim.get("status") or {}), "allocation": result}
            self._allocated[_key(claim)] = {**claim, "status": status}
        placed = {**pod, "spec": {**(pod.get("spec") or {}), "nodeName": node}}
        self._placed.append({"kind": "Pod", **placed})
        if self._node_filters is not None:
            self._node_filters.place(placed, node)

    def explained(self) -> Cluster:
        """The cluster as it is by now, to ask why the next one does not fit."""
        from dataclasses import replace

        snapshot = self.cluster.snapshot
        claims = {(_key(claim)): claim for claim in snapshot.claims} | self._allocated
        return self.cluster.changed(
            replace(snapshot, claims=tuple(claims.values())).with_objects(self._placed)
        )


def place_copies(whatif: WhatIf, key: Key, pod: Document, count: int) -> list[PodPlacement]:
    """Place copies of a pod until they are enough or one fails, which is then the last."""
    candidates = whatif.candidates()
    placed: list[PodPlacement] = []
    for number in range(count):
        name = f"{key.name}-{number}" if count > 1 else key.name
        copy = {**pod, "metadata": {**pod["metadata"], "name": name, "uid": f"{key.namespace}/{name}"}}
        placed.append(whatif.place(Key(key.namespace, name), copy, candidates))
        if placed[-1].problem:
            break
    return placed


def _key(claim: Document) -> Key:
    metadata = claim.get("metadata") or {}
    return Key(metadata.get("namespace") or "", metadata.get("name") or "")


def _device_grants(claims: Sequence[Document], results: Sequence[Document]) -> list[DeviceGrant]:
    return [
        DeviceGrant(_key(claim).name, one["request"], DeviceID(one["driver"], one["pool"], one["device"]))
        for claim, result in zip(claims, results, strict=True)
        for one in (result.get("devices") or {}).get("results") or ()
    ]


def claim_as_pod(claim: Document) -> Document:
    """A pod that does nothing but use a claim, to place a claim of its own."""
    key = _key(claim)
    assert pod_claims.allocation(claim) is None
    return {
        "metadata": {"name": key.name, "namespace": key.namespace, "uid": ""},
        "spec": {"containers": [], "resourceClaims": [{"name": "claim", "resourceClaimName": key.name}]},
    }

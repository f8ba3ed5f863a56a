"""What if: which node and devices would pods get, and how many of them still fit?

Pods are placed one after the other, each on nodes as the pods before it leave them. A pod gets the first node that
takes it; nodes that the device policy scores higher come first. The scheduler's scores of cpu and memory play no part.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush
from typing import TYPE_CHECKING

from dray.api import claims as pod_claims
from dray.api.identity import DeviceID, ObjectKey, device_id, object_key
from dray.explain.classic import planned_instances
from dray.explain.explainer import claims_of_pod
from dray.explain.model.cluster import Cluster
from dray.explain.nodes.filters import pod_info
from dray.explain.nodes.trial import Trial
from dray.placement.cache.nodes import NodeInfo
from dray.placement.policies.registry import policy_type
from dray.placement.policies.scorer import Scorer

if TYPE_CHECKING:
    from dray.api.types.core import Pod
    from dray.api.types.meta import ObjectMeta
    from dray.api.types.resource import AllocationResult, ResourceClaim, ResourceClaimStatus
    from dray.api.types.resource_v1alpha2 import ResourceClaim as ClassicClaim
    from dray.explain.model.documents import DeviceGrantDocument, PodPlacementDocument
    from dray.placement.cache.pods import PodInfo
    from dray.placement.policies.model import NodeState, Request

#: filters that may accept a pod later, once other pods are placed
_CHANGING = ("InterPodAffinity", "PodTopologySpread")


@dataclass(frozen=True, slots=True)
class DeviceGrant:
    """One device for one request."""

    claim: str
    request: str
    device: DeviceID

    def as_document(self) -> DeviceGrantDocument:
        return {"claim": self.claim, "request": self.request, "device": str(self.device)}


@dataclass(frozen=True, slots=True)
class PodPlacement:
    """Where a pod would go, and what it would get; without a node, why it would not."""

    pod: str
    node: str = ""
    devices: tuple[DeviceGrant, ...] = ()
    problem: str = ""
    undecided: tuple[str, ...] = ()  # classic claims, for the controllers of their drivers to allocate

    def as_document(self) -> PodPlacementDocument:
        return {
            "pod": self.pod,
            "node": self.node,
            "devices": [one.as_document() for one in self.devices],
            "problem": self.problem,
            "undecided": list(self.undecided),
        }


@dataclass(slots=True)
class CandidateNodes:
    """Nodes worth trying for copies of one pod, best first: score, order of nodes with that score, name."""

    heap: list[tuple[float, int, str]]
    version: int = -1  # of the scores
    given_up: set[str] = field(default_factory=set)


class WhatIf:
    """A cluster that fills up as pods are placed, without anything being created."""

    def __init__(self, cluster: Cluster, *, policy: str = "default") -> None:
        self.cluster = cluster
        self._usage = cluster.usage.snapshot()
        self._scorer = Scorer(policy_type(policy), cluster.inventory, self._usage, cluster.features)
        self._node_filters = cluster.node_filters()
        self._placed: list[Pod] = []
        #: claims that several of the pods share are allocated once
        self._allocated: dict[ObjectKey, ResourceClaim] = {}
        self._classic: list[ClassicClaim] = []  # those that the scheduler would allocate itself

    def candidates(self) -> CandidateNodes:
        """All nodes, to be tried in the order that suits the policy."""
        return CandidateNodes([])

    def _refresh(self, candidates: CandidateNodes, pod: PodInfo, request: Request) -> None:
        """Score all nodes that are left, if nobody has done that, or what the policy knows of pods has changed."""
        if candidates.version != self._scorer.version:
            candidates.version = self._scorer.version
            candidates.heap = sorted(
                (self._score(name, request), self._order(pod, name, number), name)
                for number, name in enumerate(self.cluster.nodes)
                if name not in candidates.given_up
            )

    def _order(self, pod: PodInfo, name: str, number: int) -> int:
        policy, ties = self._scorer.policy, self._scorer.ties
        if policy.adds_to_resource_scores:
            return number
        return ties.mixed(name, ties.rank(pod.key)) if policy.draws_node else ties.rank_of_node(name)

    def _score(self, name: str, request: Request) -> float:
        """The order of nodes, least first; all equal under the default policy."""
        return 0.0 if self._scorer.policy.has_no_score else -self._scorer.score(request, self._state(name))

    def _state(self, name: str) -> NodeState:
        return self._scorer.states.with_usage(self._node_info(name), self._usage)

    def _node_info(self, name: str) -> NodeInfo:
        known = self._node_filters.nodes.get(name) if self._node_filters is not None else None
        if known is None:
            known = NodeInfo(name)
            known.describe(self.cluster.nodes[name])
        return known

    def place(self, key: ObjectKey, pod: Pod, candidates: CandidateNodes | None = None) -> PodPlacement:
        """Place a pod on the first of the candidates that takes it; those that never will are taken out."""
        gathered = claims_of_pod(self.cluster, key, pod)
        if gathered.facts:
            return PodPlacement(str(key), problem=gathered.facts[0])
        wanted = [self._current(claim) for claim in gathered.claims]
        info = pod_info(pod)
        unallocated = [claim for claim in wanted if pod_claims.allocation(claim) is None]
        request = self._scorer.request_of_claims(info, unallocated)
        if self._scorer.observed is not None:
            self._scorer.observed.add(info.uid, request)
        trial = Trial(
            self.cluster,
            pod,
            wanted,
            classic=gathered.classic,
            policy_on=lambda name: self._scorer.arrangement(info, self._node_info(name), lambda: request),
            node_filters=self._node_filters,
        )
        if trial.pod_filters is not None and (rejection := trial.pod_filters.prefilter()) is not None:
            return PodPlacement(str(key), problem=rejection.reasons[0])
        candidates = candidates or self.candidates()
        if self._scorer.policy.draws_node:
            candidates.version = -1  # each pod draws
        self._refresh(candidates, info, request)
        heap = candidates.heap
        later: list[tuple[float, int, str]] = []
        placed = PodPlacement(str(key), problem="fits on no node")
        while heap:
            score, number, name = heappop(heap)
            node = self.cluster.nodes[name]
            outcome = trial.evaluate_equivalent(node, self._usage)
            if outcome.fits:
                plan = trial.evaluate(node, self._usage).device_outcome.plan
                assert plan is not None
                claims = trial.demands(name).documents
                self._assume(claims, plan.results, name, pod)
                grants = _device_grants(claims, plan.results)
                placed = PodPlacement(
                    str(key),
                    name,
                    (*grants, *self._assume_classic(trial, name)),
                    undecided=tuple(_undecided(trial)),
                )
                later.append((self._score(name, request), number, name))
                break
            # Pods to come take devices and give none back, but affinity and spread may change with them.
            if any(cause.rejection.plugin in _CHANGING for cause in outcome.causes):
                later.append((score, number, name))
            else:
                candidates.given_up.add(name)
        for entry in later:
            heappush(heap, entry)
        return placed

    def _current(self, claim: ResourceClaim) -> ResourceClaim:
        return self._allocated.get(object_key(claim), claim)

    def _assume(
        self, claims: Sequence[ResourceClaim], results: Sequence[AllocationResult], node: str, pod: Pod
    ) -> None:
        for claim, result in zip(claims, results, strict=True):
            self._usage.add(claim, result)
            status: ResourceClaimStatus = {**(claim.get("status") or {}), "allocation": result}
            self._allocated[object_key(claim)] = {**claim, "status": status}
        placed: Pod = {"kind": "Pod", **pod, "spec": {**(pod.get("spec") or {}), "nodeName": node}}
        self._placed.append(placed)
        if self._node_filters is not None:
            self._node_filters.assume(placed, node)

    def _assume_classic(self, trial: Trial, node: str) -> Iterator[DeviceGrant]:
        """What the scheduler would allocate to the pod's classic claims; drivers tell nobody what they have."""
        plan = trial.pod_filters.classic_plan(node) if trial.pod_filters is not None else None
        if plan is None or self._node_filters is None:
            return
        self._classic += self._node_filters.classic.assume(plan)
        for one in planned_instances(plan):
            yield DeviceGrant(one.claim, "", DeviceID(one.driver, one.node, one.name))

    def explained(self) -> Cluster:
        """The cluster with the pods placed so far, to explain why the next one does not fit."""
        from dataclasses import replace

        snapshot = self.cluster.snapshot
        claims = {object_key(claim): claim for claim in snapshot.claims} | self._allocated
        return self.cluster.changed(
            replace(snapshot, claims=tuple(claims.values())).with_objects((*self._placed, *self._classic))
        )


def _undecided(trial: Trial) -> Iterator[str]:
    attempt = trial.pod_filters.classic if trial.pod_filters is not None else None
    for entry in attempt.pending if attempt is not None else ():
        yield entry.claim["metadata"]["name"]


def place_copies(
    whatif: WhatIf, key: ObjectKey, pod: Pod, count: int, *, enough: Callable[[], bool] = lambda: False
) -> list[PodPlacement]:
    """Place copies of a pod until they are enough or one fails, which is then the last."""
    candidates = whatif.candidates()
    placed: list[PodPlacement] = []
    for number in range(count):
        name = f"{key.name}-{number}" if count > 1 else key.name
        metadata: ObjectMeta = {**pod["metadata"], "name": name, "uid": f"{key.namespace}/{name}"}
        placed.append(whatif.place(ObjectKey(key.namespace, name), {**pod, "metadata": metadata}, candidates))
        if placed[-1].problem or enough():
            break
    return placed


def _device_grants(claims: Sequence[ResourceClaim], results: Sequence[AllocationResult]) -> list[DeviceGrant]:
    return [
        DeviceGrant(object_key(claim).name, one["request"], device_id(one))
        for claim, result in zip(claims, results, strict=True)
        for one in (result.get("devices") or {}).get("results") or ()
    ]


def claim_as_pod(claim: ResourceClaim) -> Pod:
    """A pod that does nothing but use a claim, to place a claim by itself."""
    key = object_key(claim)
    assert pod_claims.allocation(claim) is None
    return {
        "metadata": {"name": key.name, "namespace": key.namespace, "uid": ""},
        "spec": {"containers": [], "resourceClaims": [{"name": "claim", "resourceClaimName": key.name}]},
    }

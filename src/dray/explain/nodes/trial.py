"""Trying a pod's claims on every node of a snapshot, as the scheduler would, and keeping what each node says."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass

from dray.allocation import (
    DEFAULT,
    AllocationError,
    Cause,
    Plan,
    Policy,
    PoolID,
    Reasons,
    RequestReasons,
    Usage,
    allocate,
    reasons,
)
from dray.allocation.pools import Pool
from dray.allocation.search.state import AllocationState, Claim
from dray.api import claims as pod_claims
from dray.api import nodeaffinity
from dray.api.identity import object_name
from dray.explain.devices.equivalence import NodeEquivalence
from dray.explain.model.cluster import Cluster, key_of
from dray.explain.model.snapshot import Document
from dray.explain.nodes.causes import CauseMessage, NodeCause, NodeCauses, NodeFilters, PodFilters
from dray.explain.nodes.totals import RepeatedReasons, total_reasons

Progress = Callable[[int], None]

_STEP = 100


@dataclass(frozen=True, slots=True, eq=False)
class DeviceOutcome:
    """What the devices of a node say to the claims. Nodes that are alike share one, with the first one's devices."""

    node: str
    plan: Plan | None = None
    reasons: Reasons | None = None  # why there is no plan
    error: str = ""  # allocation ended with an error
    erring: bool = False  # some device makes a selector fail: which device is met first matters


@dataclass(frozen=True, slots=True)
class NodeOutcome:
    """What one node says to a pod and its claims."""

    node: str
    causes: tuple[NodeCause, ...]  # what keeps the pod away, devices aside
    answer: DeviceOutcome
    elsewhere: str = ""  # an allocated claim is for other nodes

    @property
    def devices_fit(self) -> bool:
        return self.answer.plan is not None and not self.elsewhere

    @property
    def fits(self) -> bool:
        return self.devices_fit and not self.causes


class ClaimDemands:
    """Claims to be allocated, read once."""

    def __init__(self, cluster: Cluster, documents: Sequence[Document]) -> None:
        self.documents = documents
        self.claims = [
            Claim(number, object_name(one), one, cluster.inventory.demand(one, cluster.features))
            for number, one in enumerate(documents)
        ]
        self.equivalence = NodeEquivalence(self.claims, cluster.features)
        self.answers: dict[Hashable, DeviceOutcome] = {}


class Trial:
    """A pod and its claims, to be held against nodes."""

    def __init__(
        self,
        cluster: Cluster,
        pod: Document | None,
        claims: Sequence[Document],
        *,
        policy: Policy = DEFAULT,
        node_filters: NodeFilters | None = None,
    ) -> None:
        """``scheduling``: the nodes as they are by now, if not as the snapshot has them."""
        self._cluster = cluster
        self._policy = policy
        node_filters = node_filters or (cluster.node_filters() if pod is not None else None)
        self.pod_filters: PodFilters | None = None
        self._placing: NodeCauses | None = None
        if pod is not None and node_filters is not None:
            self.pod_filters = node_filters.pod_filters(pod)
            self._placing = NodeCauses(cluster, pod, self.pod_filters)
        self.wanted = [claim for claim in claims if pod_claims.allocation(claim) is None]
        self._bound = [
            (object_name(claim), nodeaffinity.node_selector(given["nodeSelector"]))
            for claim in claims
            if (given := pod_claims.allocation(claim)) is not None and given.get("nodeSelector")
        ]
        self._shares = iter(range(1 << 30))
        self._demands: dict[int, ClaimDemands] = {}

    def demands(self, node: str) -> ClaimDemands:
        """The claims to be allocated on a node; extended resources may add one on some nodes only."""
        generated = self.pod_filters.generated(node) if self.pod_filters is not None else None
        found = self._demands.get(id(generated))
        if found is None:
            more = [generated] if generated is not None else []
            found = self._demands[id(generated)] = ClaimDemands(self._cluster, [*self.wanted, *more])
        return found

    @property
    def all_demands(self) -> ClaimDemands:
        """Those of the node that has most to allocate."""
        known = list(self._demands.values()) or [ClaimDemands(self._cluster, self.wanted)]
        return max(known, key=lambda one: len(one.claims))

    def told(self, node: str, cause: NodeCause) -> CauseMessage:
        assert self._placing is not None
        return self._placing.told(node, cause)

    def shortfall(self, tried: NodeOutcome) -> int:
        """How much a node is short of, to find the one that comes closest; comparable between like causes only."""
        assert self._placing is not None
        return sum(self._placing.shortfall(tried.node, cause) for cause in tried.causes)

    # --- one node ---

    def on(self, node: Document, usage: Usage) -> NodeOutcome:
        """What the node says."""
        return self._tried(node, self._answer(node, usage, self.demands(key_of(node).name)))

    def on_equivalent(self, node: Document, usage: Usage) -> NodeOutcome:
        """The same, but examples and plans may be of another node that is alike."""
        name = key_of(node).name
        demands = self.demands(name)
        pools = self._cluster.inventory.pools(node, self._cluster.features)
        kind = demands.equivalence.of(node, pools, usage)
        answer = demands.answers.get(kind)
        if answer is not None and answer.erring:
            kind = demands.equivalence.of(node, pools, usage, ordered=True)
            answer = demands.answers.get((kind,))
            if answer is None:
                answer = demands.answers[kind,] = self._answer(node, usage, demands)
        elif answer is None:
            answer = demands.answers[kind] = self._answer(node, usage, demands)
        return self._tried(node, answer)

    def _tried(self, node: Document, answer: DeviceOutcome) -> NodeOutcome:
        name = key_of(node).name
        causes = self._placing.causes(name) if self._placing is not None else ()
        labels = (node.get("metadata") or {}).get("labels") or {}
        elsewhere = next((claim for claim, test in self._bound if not test(name, labels)), "")
        return NodeOutcome(name, causes, answer, elsewhere)

    def _answer(self, node: Document, usage: Usage, demands: ClaimDemands) -> DeviceOutcome:
        name, cluster = key_of(node).name, self._cluster
        why = reasons.diagnose(
            AllocationState(node, demands.claims, usage, cluster.features),
            cluster.inventory.pools(node, cluster.features),
            demands.claims,
        )
        erring = _has_selector_error(why)
        if why.short and not erring:
            # What cannot be had alone need not be searched for together.
            return DeviceOutcome(name, reasons=why)
        try:
            answer = allocate(
                cluster.inventory,
                usage,
                node,
                demands.documents,
                features=cluster.features,
                policy=self._policy,
                new_share_id=lambda: f"share-{next(self._shares)}",
            )
        except AllocationError as problem:
            return DeviceOutcome(name, reasons=why, error=problem.message, erring=erring)
        if isinstance(answer, Plan):
            return DeviceOutcome(name, plan=answer, erring=erring)
        if not why.short:
            why = Reasons(why.requests, answer.reasons.together, why.pools)
        return DeviceOutcome(name, reasons=why, erring=erring)

    # --- all nodes ---

    def everywhere(self) -> list[RequestReasons]:
        """The requests over the whole cluster at once, as if all devices were in reach."""
        cluster, demands = self._cluster, self.all_demands
        kinds: Counter[Hashable] = Counter()
        first: dict[Hashable, Pool] = {}
        for pool in self._pools():
            kind = demands.equivalence.of_pool(pool, cluster.usage)
            kinds[kind] += 1
            first.setdefault(kind, pool)
        state = AllocationState({}, demands.claims, cluster.usage, cluster.features)
        told = [
            RepeatedReasons(reasons.diagnose(state, [pool], demands.claims).requests, kinds[kind])
            for kind, pool in first.items()
        ]
        if not told:
            told = [RepeatedReasons(reasons.diagnose(state, [], demands.claims).requests, 1)]
        return total_reasons(told)

    def _pools(self) -> Iterator[Pool]:
        """The pools that some node sees, each as a whole."""
        cluster = self._cluster
        seen: dict[PoolID, Pool] = {}
        partly: set[PoolID] = set()
        for node in cluster.nodes.values():
            for pool in cluster.inventory.pools(node, cluster.features):
                if seen.setdefault(pool.id, pool) is not pool or pool.elsewhere:
                    partly.add(pool.id)
        for id, pool in seen.items():
            yield cluster.pools.get(id, pool) if id in partly else pool


def _has_selector_error(why: Reasons) -> bool:
    return any(r.cause is Cause.SELECTOR_ERROR for request in why.requests for r in request.removals)


def evaluate_nodes(
    cluster: Cluster, trial: Trial, *, usage: Usage | None = None, progress: Progress | None = None
) -> list[NodeOutcome]:
    """Each node's answer, in the order of the nodes."""
    found = []
    for number, node in enumerate(cluster.nodes.values(), 1):
        found.append(trial.on_equivalent(node, usage if usage is not None else cluster.usage))
        if progress is not None and number % _STEP == 0:
            progress(_STEP)
    return found

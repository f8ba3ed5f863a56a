"""A pod and its claims tried on the nodes of a snapshot as the scheduler would try them, with the outcome of each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

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
from dray.api.identity import object_key, object_name
from dray.explain.devices.equivalence import NodeEquivalence
from dray.explain.model.cluster import Cluster
from dray.explain.nodes.causes import CauseMessage, NodeCause, NodeCauses
from dray.explain.nodes.totals import RepeatedReasons, total_reasons

if TYPE_CHECKING:
    from dray.api.types.core import Node, Pod
    from dray.api.types.resource import ResourceClaim
    from dray.api.types.resource_v1alpha2 import ResourceClaim as ClassicClaim
    from dray.explain.nodes.filters import NodeFilters, PodFilters

Progress = Callable[[int], None]

_STEP = 100


@dataclass(frozen=True, slots=True, eq=False)
class DeviceOutcome:
    """What allocation finds on a node. Equivalent nodes share one outcome, which names the first node's devices."""

    node: str
    plan: Plan | None = None
    reasons: Reasons | None = None  # why there is no plan
    error: str = ""  # allocation ended with an error
    erring: bool = False  # some device makes a selector fail: which device is met first matters


@dataclass(frozen=True, slots=True)
class NodeOutcome:
    """Whether one node takes a pod and its claims, and if not, why."""

    node: str
    causes: tuple[NodeCause, ...]  # what keeps the pod away, devices aside
    device_outcome: DeviceOutcome
    allocated_elsewhere: str = ""  # a claim that is allocated for other nodes

    @property
    def devices_fit(self) -> bool:
        return self.device_outcome.plan is not None and not self.allocated_elsewhere

    @property
    def fits(self) -> bool:
        return self.devices_fit and not self.causes


class ClaimDemands:
    """Claims to be allocated, read once."""

    def __init__(self, cluster: Cluster, documents: Sequence[ResourceClaim]) -> None:
        self.documents = documents
        self.claims = [
            Claim(number, object_name(one), one, cluster.inventory.demand(one, cluster.features))
            for number, one in enumerate(documents)
        ]
        self.equivalence = NodeEquivalence(self.claims, cluster.features)
        self.outcomes: dict[Hashable, DeviceOutcome] = {}


class Trial:
    """A pod and its claims, to be tried on nodes."""

    def __init__(
        self,
        cluster: Cluster,
        pod: Pod | None,
        claims: Sequence[ResourceClaim],
        *,
        classic: Sequence[ClassicClaim] = (),
        policy_on: Callable[[str], Policy] = lambda node: DEFAULT,
        node_filters: NodeFilters | None = None,
    ) -> None:
        """``classic``: the pod's claims of the classic API, which are tried with the node's filters.

        ``policy_on``: the order of devices on a node. ``node_filters``: the nodes with the pods assumed so far, if not as the snapshot has them.
        """
        self._cluster = cluster
        self._policy_on = policy_on
        node_filters = node_filters or (cluster.node_filters() if pod is not None else None)
        self.pod_filters: PodFilters | None = None
        self._node_causes: NodeCauses | None = None
        if pod is not None and node_filters is not None:
            self.pod_filters = node_filters.pod_filters(pod, classic)
            self._node_causes = NodeCauses(cluster, pod, self.pod_filters)
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
        extended = self.pod_filters.extended_resource_claim(node) if self.pod_filters is not None else None
        found = self._demands.get(id(extended))
        if found is None:
            more = [extended] if extended is not None else []
            found = self._demands[id(extended)] = ClaimDemands(self._cluster, [*self.wanted, *more])
        return found

    @property
    def all_demands(self) -> ClaimDemands:
        """Those of the node that has most to allocate."""
        known = list(self._demands.values()) or [ClaimDemands(self._cluster, self.wanted)]
        return max(known, key=lambda one: len(one.claims))

    def message(self, node: str, cause: NodeCause) -> CauseMessage:
        assert self._node_causes is not None
        return self._node_causes.message(node, cause)

    def shortfall(self, outcome: NodeOutcome) -> int:
        """How much of resources a node lacks, to find the closest one; comparable between equal causes only."""
        assert self._node_causes is not None
        return sum(self._node_causes.shortfall(outcome.node, cause) for cause in outcome.causes)

    # --- one node ---

    def evaluate(self, node: Node, usage: Usage) -> NodeOutcome:
        """The outcome on a node, with its own devices as examples and in the plan."""
        demands = self.demands(object_key(node).name)
        return self._node_outcome(node, self._device_outcome(node, usage, demands))

    def evaluate_equivalent(self, node: Node, usage: Usage) -> NodeOutcome:
        """The outcome on a node, whose examples and plan may be those of an equivalent node."""
        name = object_key(node).name
        demands = self.demands(name)
        pools = self._cluster.inventory.pools(node, self._cluster.features)
        key = demands.equivalence.of(node, pools, usage)
        outcome = demands.outcomes.get(key)
        if outcome is not None and outcome.erring:
            key = demands.equivalence.of(node, pools, usage, ordered=True)
            outcome = demands.outcomes.get((key,))
            if outcome is None:
                outcome = demands.outcomes[key,] = self._device_outcome(node, usage, demands)
        elif outcome is None:
            outcome = demands.outcomes[key] = self._device_outcome(node, usage, demands)
        return self._node_outcome(node, outcome)

    def _node_outcome(self, node: Node, outcome: DeviceOutcome) -> NodeOutcome:
        name = object_key(node).name
        causes = self._node_causes.causes(name) if self._node_causes is not None else ()
        labels = (node.get("metadata") or {}).get("labels") or {}
        elsewhere = next((claim for claim, test in self._bound if not test(name, labels)), "")
        return NodeOutcome(name, causes, outcome, elsewhere)

    def _device_outcome(self, node: Node, usage: Usage, demands: ClaimDemands) -> DeviceOutcome:
        name, cluster = object_key(node).name, self._cluster
        why = reasons.diagnose(
            AllocationState(node, demands.claims, usage, cluster.features),
            cluster.inventory.pools(node, cluster.features),
            demands.claims,
        )
        erring = _has_selector_error(why)
        if why.short and not erring:
            # A request that cannot be served alone cannot be served together with others.
            return DeviceOutcome(name, reasons=why)
        try:
            result = allocate(
                cluster.inventory,
                usage,
                node,
                demands.documents,
                features=cluster.features,
                policy=self._policy_on(name),
                new_share_id=lambda: f"share-{next(self._shares)}",
            )
        except AllocationError as problem:
            return DeviceOutcome(name, reasons=why, error=problem.message, erring=erring)
        if isinstance(result, Plan):
            return DeviceOutcome(name, plan=result, erring=erring)
        if not why.short:
            why = Reasons(why.requests, result.reasons.together, why.pools)
        return DeviceOutcome(name, reasons=why, erring=erring)

    # --- all nodes ---

    def everywhere(self) -> list[RequestReasons]:
        """The requests over the whole cluster at once, as if one node saw all devices."""
        cluster, demands = self._cluster, self.all_demands
        counts: Counter[Hashable] = Counter()
        first: dict[Hashable, Pool] = {}
        for pool in self._pools():
            key = demands.equivalence.of_pool(pool, cluster.usage)
            counts[key] += 1
            first.setdefault(key, pool)
        state = AllocationState({}, demands.claims, cluster.usage, cluster.features)
        repeated = [
            RepeatedReasons(reasons.diagnose(state, [pool], demands.claims).requests, counts[key])
            for key, pool in first.items()
        ]
        if not repeated:
            repeated = [RepeatedReasons(reasons.diagnose(state, [], demands.claims).requests, 1)]
        return total_reasons(repeated)

    def _pools(self) -> Iterator[Pool]:
        """The pools that some node sees, each as a whole."""
        cluster = self._cluster
        seen: dict[PoolID, Pool] = {}
        partly: set[PoolID] = set()
        for node in cluster.nodes.values():
            for pool in cluster.inventory.pools(node, cluster.features):
                if seen.setdefault(pool.id, pool) is not pool or pool.other_nodes_devices:
                    partly.add(pool.id)
        for id, pool in seen.items():
            yield cluster.pools.get(id, pool) if id in partly else pool


def _has_selector_error(why: Reasons) -> bool:
    return any(r.cause is Cause.SELECTOR_ERROR for request in why.requests for r in request.removals)


def evaluate_nodes(
    cluster: Cluster, trial: Trial, *, usage: Usage | None = None, progress: Progress | None = None
) -> list[NodeOutcome]:
    """The outcome of each node, in the order of the nodes."""
    found = []
    for number, node in enumerate(cluster.nodes.values(), 1):
        found.append(trial.evaluate_equivalent(node, usage if usage is not None else cluster.usage))
        if progress is not None and number % _STEP == 0:
            progress(_STEP)
    return found

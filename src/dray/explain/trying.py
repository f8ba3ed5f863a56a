"""Trying a pod's claims on every node of a snapshot, as the scheduler would, and keeping what each node says."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from dray.allocation import (
    DEFAULT,
    AllocationError,
    Cause,
    Plan,
    Policy,
    Reasons,
    Removal,
    RequestReasons,
    Usage,
    allocate,
    reasons,
)
from dray.allocation.identity import object_name
from dray.allocation.pools import Pool
from dray.allocation.state import Claim, State
from dray.api import claims as pod_claims
from dray.api import matching
from dray.explain.cluster import Cluster, NodeLoad, key_of
from dray.explain.placing import NodeCause, Placing
from dray.explain.snapshot import Document

Progress = Callable[[int], None]

_EXAMPLES = 4
#: Finding out why requests that can be had alone cannot be had together takes further searches: on so many nodes.
_CLOSER_LOOKS = 500
_NOT_TOGETHER = "each request can be served alone, but not all of them together"


@dataclass(frozen=True, slots=True)
class Tried:
    """What one node says to a pod and its claims."""

    node: str
    causes: tuple[NodeCause, ...]  # what keeps the pod away, devices aside
    plan: Plan | None = None
    reasons: Reasons | None = None  # why there is no plan
    error: str = ""  # allocation ended with an error
    elsewhere: str = ""  # an allocated claim is for other nodes

    @property
    def devices_fit(self) -> bool:
        return self.plan is not None and not self.elsewhere

    @property
    def fits(self) -> bool:
        return self.devices_fit and not self.causes


class Trial:
    """A pod and its claims, read once, to be held against nodes."""

    def __init__(
        self,
        cluster: Cluster,
        pod: Document | None,
        claims: Sequence[Document],
        *,
        policy: Policy = DEFAULT,
        loads: Mapping[str, NodeLoad] | None = None,
    ) -> None:
        self._cluster = cluster
        self._policy = policy
        self._placing = Placing(cluster, pod, loads) if pod is not None else None
        self.wanted = [claim for claim in claims if pod_claims.allocation(claim) is None]
        self._bound = [
            (object_name(claim), matching.node_selector(given["nodeSelector"]))
            for claim in claims
            if (given := pod_claims.allocation(claim)) is not None and given.get("nodeSelector")
        ]
        self._shares = iter(range(1 << 30))
        self._looks = 0

    def on(self, node: Document, usage: Usage) -> Tried:
        """What the node says; the reasons are worked out only where it says no."""
        name = key_of(node).name
        causes = self._placing.causes(node) if self._placing is not None else ()
        labels = (node.get("metadata") or {}).get("labels") or {}
        elsewhere = next((claim for claim, test in self._bound if not test(name, labels)), "")
        why = self._alone(node, usage)
        if why.short and not _erring(why):
            # What cannot be had alone need not be searched for together.
            return Tried(name, causes, reasons=why, elsewhere=elsewhere)
        try:
            answer = allocate(
                self._cluster.inventory,
                usage,
                node,
                self.wanted,
                features=self._cluster.features,
                policy=self._policy,
                new_share_id=lambda: f"share-{next(self._shares)}",
            )
        except AllocationError as problem:
            return Tried(name, causes, reasons=why, error=problem.message, elsewhere=elsewhere)
        if isinstance(answer, Plan):
            return Tried(name, causes, plan=answer, elsewhere=elsewhere)
        self._looks += 1
        if not why.short:
            closer = answer.reasons.together if self._looks <= _CLOSER_LOOKS else (_NOT_TOGETHER,)
            why = Reasons(why.requests, closer, why.pools)
        return Tried(name, causes, reasons=why, elsewhere=elsewhere)

    def _alone(self, node: Document, usage: Usage) -> Reasons:
        cluster = self._cluster
        return reasons.explain(
            State(node, self._claims, usage, cluster.features),
            cluster.inventory.pools(node, cluster.features),
            self._claims,
        )

    @cached_property
    def _claims(self) -> list[Claim]:
        return [
            Claim(
                number,
                object_name(claim),
                claim,
                self._cluster.inventory.demand(claim, self._cluster.features),
            )
            for number, claim in enumerate(self.wanted)
        ]

    def everywhere(self, tried: Iterable[Tried]) -> Sequence[RequestReasons]:
        """The requests over the whole cluster at once, as if all devices were in reach."""
        cluster = self._cluster
        pools: dict[int, Pool] = {}
        seen = 0
        for node in cluster.nodes.values():
            for pool in cluster.inventory.pools(node, cluster.features):
                pools[id(pool)] = pool
                seen += 1
        told = [one.reasons for one in tried]
        if seen == len(pools) and all(told):
            # No pool is seen by two nodes: adding up what they said is enough.
            return _sum([one for one in told if one is not None])
        state = State({}, self._claims, cluster.usage, cluster.features)
        return reasons.explain(state, list(pools.values()), self._claims).requests


def _erring(why: Reasons) -> bool:
    return any(r.cause is Cause.SELECTOR_ERROR for request in why.requests for r in request.removals)


def try_nodes(
    cluster: Cluster, trial: Trial, *, usage: Usage | None = None, progress: Progress | None = None
) -> list[Tried]:
    """Each node's answer, in the order of the nodes."""
    found = []
    for number, node in enumerate(cluster.nodes.values()):
        found.append(trial.on(node, usage if usage is not None else cluster.usage))
        if progress is not None and number % 100 == 99:
            progress(100)
    return found


def _sum(told: Sequence[Reasons]) -> list[RequestReasons]:
    if not told:
        return []
    return [
        _sum_request([one.requests[position] for one in told]) for position in range(len(told[0].requests))
    ]


def _sum_request(told: Sequence[RequestReasons]) -> RequestReasons:
    removals: dict[tuple[Cause, str], Removal] = {}
    nearest = None
    for one in told:
        if one.nearest is not None and (nearest is None or one.nearest.cause.rank > nearest.cause.rank):
            nearest = one.nearest
        for removal in one.removals:
            key = (removal.cause, removal.detail)
            known = removals.get(key)
            if known is None:
                removals[key] = removal
            else:
                examples = known.examples
                if len(examples) < _EXAMPLES:
                    examples = (*examples, *removal.examples)[:_EXAMPLES]
                removals[key] = Removal(
                    known.cause,
                    known.detail,
                    known.count + removal.count,
                    examples,
                    known.selector,
                    known.source,
                )
    first = told[0]
    return RequestReasons(
        first.claim,
        first.request,
        first.wanted,
        sum(one.considered for one in told),
        sum(one.usable for one in told),
        tuple(sorted(removals.values(), key=lambda removal: -removal.count)),
        nearest,
    )

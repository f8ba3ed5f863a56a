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
from dray.allocation.identity import object_name
from dray.allocation.pools import Pool
from dray.allocation.state import Claim, State
from dray.api import claims as pod_claims
from dray.api import matching
from dray.explain.alike import Likeness
from dray.explain.cluster import Cluster, key_of
from dray.explain.placing import Judge, NodeCause, Placing, Scheduling, Told
from dray.explain.snapshot import Document
from dray.explain.summing import Weighed, total

Progress = Callable[[int], None]

_STEP = 100


@dataclass(frozen=True, slots=True, eq=False)
class Answer:
    """What the devices of a node say to the claims. Nodes that are alike share one, with the first one's devices."""

    node: str
    plan: Plan | None = None
    reasons: Reasons | None = None  # why there is no plan
    error: str = ""  # allocation ended with an error
    erring: bool = False  # some device makes a selector fail: which device is met first matters


@dataclass(frozen=True, slots=True)
class Tried:
    """What one node says to a pod and its claims."""

    node: str
    causes: tuple[NodeCause, ...]  # what keeps the pod away, devices aside
    answer: Answer
    elsewhere: str = ""  # an allocated claim is for other nodes

    @property
    def devices_fit(self) -> bool:
        return self.answer.plan is not None and not self.elsewhere

    @property
    def fits(self) -> bool:
        return self.devices_fit and not self.causes


class Wishes:
    """Claims to be allocated, read once."""

    def __init__(self, cluster: Cluster, documents: Sequence[Document]) -> None:
        self.documents = documents
        self.claims = [
            Claim(number, object_name(one), one, cluster.inventory.demand(one, cluster.features))
            for number, one in enumerate(documents)
        ]
        self.likeness = Likeness(self.claims, cluster.features)
        self.answers: dict[Hashable, Answer] = {}


class Trial:
    """A pod and its claims, to be held against nodes."""

    def __init__(
        self,
        cluster: Cluster,
        pod: Document | None,
        claims: Sequence[Document],
        *,
        policy: Policy = DEFAULT,
        scheduling: Scheduling | None = None,
    ) -> None:
        """``scheduling``: the nodes as they are by now, if not as the snapshot has them."""
        self._cluster = cluster
        self._policy = policy
        scheduling = scheduling or (cluster.scheduling() if pod is not None else None)
        self.judge: Judge | None = None
        self._placing: Placing | None = None
        if pod is not None and scheduling is not None:
            self.judge = scheduling.judge(pod)
            self._placing = Placing(cluster, pod, self.judge)
        self.wanted = [claim for claim in claims if pod_claims.allocation(claim) is None]
        self._bound = [
            (object_name(claim), matching.node_selector(given["nodeSelector"]))
            for claim in claims
            if (given := pod_claims.allocation(claim)) is not None and given.get("nodeSelector")
        ]
        self._shares = iter(range(1 << 30))
        self._wishes: dict[int, Wishes] = {}

    def wishes(self, node: str) -> Wishes:
        """The claims to be allocated on a node; extended resources may add one on some nodes only."""
        generated = self.judge.generated(node) if self.judge is not None else None
        found = self._wishes.get(id(generated))
        if found is None:
            more = [generated] if generated is not None else []
            found = self._wishes[id(generated)] = Wishes(self._cluster, [*self.wanted, *more])
        return found

    @property
    def all_wishes(self) -> Wishes:
        """Those of the node that has most to allocate."""
        known = list(self._wishes.values()) or [Wishes(self._cluster, self.wanted)]
        return max(known, key=lambda one: len(one.claims))

    def told(self, node: str, cause: NodeCause) -> Told:
        assert self._placing is not None
        return self._placing.told(node, cause)

    def lack(self, tried: Tried) -> int:
        """How much a node is short of, to find the one that comes closest; comparable between like causes only."""
        assert self._placing is not None
        return sum(self._placing.lack(tried.node, cause) for cause in tried.causes)

    # --- one node ---

    def on(self, node: Document, usage: Usage) -> Tried:
        """What the node says."""
        return self._tried(node, self._answer(node, usage, self.wishes(key_of(node).name)))

    def glance(self, node: Document, usage: Usage) -> Tried:
        """The same, but examples and plans may be of another node that is alike."""
        name = key_of(node).name
        wishes = self.wishes(name)
        pools = self._cluster.inventory.pools(node, self._cluster.features)
        kind = wishes.likeness.of(node, pools, usage)
        answer = wishes.answers.get(kind)
        if answer is not None and answer.erring:
            kind = wishes.likeness.of(node, pools, usage, ordered=True)
            answer = wishes.answers.get((kind,))
            if answer is None:
                answer = wishes.answers[kind,] = self._answer(node, usage, wishes)
        elif answer is None:
            answer = wishes.answers[kind] = self._answer(node, usage, wishes)
        return self._tried(node, answer)

    def _tried(self, node: Document, answer: Answer) -> Tried:
        name = key_of(node).name
        causes = self._placing.causes(name) if self._placing is not None else ()
        labels = (node.get("metadata") or {}).get("labels") or {}
        elsewhere = next((claim for claim, test in self._bound if not test(name, labels)), "")
        return Tried(name, causes, answer, elsewhere)

    def _answer(self, node: Document, usage: Usage, wishes: Wishes) -> Answer:
        name, cluster = key_of(node).name, self._cluster
        why = reasons.explain(
            State(node, wishes.claims, usage, cluster.features),
            cluster.inventory.pools(node, cluster.features),
            wishes.claims,
        )
        erring = _erring(why)
        if why.short and not erring:
            # What cannot be had alone need not be searched for together.
            return Answer(name, reasons=why)
        try:
            answer = allocate(
                cluster.inventory,
                usage,
                node,
                wishes.documents,
                features=cluster.features,
                policy=self._policy,
                new_share_id=lambda: f"share-{next(self._shares)}",
            )
        except AllocationError as problem:
            return Answer(name, reasons=why, error=problem.message, erring=erring)
        if isinstance(answer, Plan):
            return Answer(name, plan=answer, erring=erring)
        if not why.short:
            why = Reasons(why.requests, answer.reasons.together, why.pools)
        return Answer(name, reasons=why, erring=erring)

    # --- all nodes ---

    def everywhere(self) -> list[RequestReasons]:
        """The requests over the whole cluster at once, as if all devices were in reach."""
        cluster, wishes = self._cluster, self.all_wishes
        kinds: Counter[Hashable] = Counter()
        first: dict[Hashable, Pool] = {}
        for pool in self._pools():
            kind = wishes.likeness.of_pool(pool, cluster.usage)
            kinds[kind] += 1
            first.setdefault(kind, pool)
        state = State({}, wishes.claims, cluster.usage, cluster.features)
        told = [
            Weighed(reasons.explain(state, [pool], wishes.claims).requests, kinds[kind])
            for kind, pool in first.items()
        ]
        if not told:
            told = [Weighed(reasons.explain(state, [], wishes.claims).requests, 1)]
        return total(told)

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


def _erring(why: Reasons) -> bool:
    return any(r.cause is Cause.SELECTOR_ERROR for request in why.requests for r in request.removals)


def try_nodes(
    cluster: Cluster, trial: Trial, *, usage: Usage | None = None, progress: Progress | None = None
) -> list[Tried]:
    """Each node's answer, in the order of the nodes."""
    found = []
    for number, node in enumerate(cluster.nodes.values(), 1):
        found.append(trial.glance(node, usage if usage is not None else cluster.usage))
        if progress is not None and number % _STEP == 0:
            progress(_STEP)
    return found

"""A joint choice of nodes and devices for the members of a gang, where one after the other did not fit.

Members that every node treats alike are one kind, and what matters is how many of each kind a node gets. The search
goes from node to node, tries mixtures of kinds on it, the largest first, and gives up a branch as soon as the nodes
that are left cannot have the members that are left. Whether a node can have a mixture is decided exactly: the filters
run with the members of the mixture on the node, and one call of the allocator looks for the devices of all their claims.

The search is exact while the devices of one node are not those of another, and while its budget of trials lasts.
Members whose filters depend on other pods or on volumes are not searched for.
"""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from dray.allocation import AllocationError
from dray.placement.outcome import Bind
from dray.placement.plugins.dynamic_resources import PLUGIN, DeviceAttempt, DeviceReservation, FilterTimeout
from dray.placement.status import Rejection

if TYPE_CHECKING:
    from dray.placement.cache.claims import ClaimCache
    from dray.placement.cache.nodes import NodeInfo
    from dray.placement.cache.pods import PodInfo
    from dray.placement.profiles import Framework

#: How often the filters and the allocator are asked about a mixture, and for how long, before the search ends.
TRIALS: Final = 4000
SECONDS: Final = 0.25
_MIXTURES: Final = 5000  # of kinds on one node

NOT_SEARCHED: Final = "not searched"
IMPOSSIBLE: Final = "impossible"
TOO_LONG: Final = "too long"


@dataclass(frozen=True, slots=True)
class _Member:
    pod: PodInfo
    attempt: DeviceAttempt | None


class _Exhausted(Exception):
    """The budget is used up."""


class JointSearch:
    """One search for one gang over a set of nodes."""

    def __init__(
        self,
        framework: Framework,
        claim_cache: ClaimCache,
        members: Sequence[PodInfo],
        nodes: Sequence[NodeInfo] | None,
        *,
        trials: int = TRIALS,
        monotonic: Callable[[], float] | None = None,
    ) -> None:
        self._framework = framework
        self._claim_cache = claim_cache
        self._pods = members
        self._nodes = list(framework.placement.cluster) if nodes is None else list(nodes)
        self._trials = trials
        self._monotonic = monotonic or time.monotonic
        self._deadline = self._monotonic() + SECONDS
        self._kinds: list[list[_Member]] = []

    def find(self, wanted: int) -> dict[str, Bind] | str:
        """The node and the devices of at least ``wanted`` members, by uid; otherwise why there is no answer."""
        if not self._read_members():
            return NOT_SEARCHED
        try:
            return self._on_one_node(wanted) if self._shares_claims() else self._over_nodes(wanted)
        except _Exhausted:
            return TOO_LONG

    # -- members ----------------------------------------------------------------------------------------------------

    def _read_members(self) -> bool:
        framework, kinds = self._framework, dict[object, list[_Member]]()
        if framework.placement.cluster.pods_with_affinity:
            return False
        for pod in self._pods:
            attempt: DeviceAttempt | None = None
            if framework.profile.enabled(PLUGIN):
                match framework.claims.pre_filter(pod):
                    case None:
                        pass
                    case DeviceAttempt() as started if started.searchable:
                        attempt = started
                    case _:
                        return False
            if pod.has_affinity_or_spread or pod.volume_claims or pod.nominated_node:
                return False
            kind = (pod.shape, attempt.shape if attempt is not None else None, pod.pinned)
            kinds.setdefault(kind, []).append(_Member(pod, attempt))
        self._kinds = list(kinds.values())
        return True

    def _shares_claims(self) -> bool:
        """Whether two members use one claim that is not allocated yet."""
        names = Counter(
            claim["metadata"]["uid"]
            for kind in self._kinds
            for member in kind
            if member.attempt is not None
            for claim in member.attempt.unallocated
        )
        return any(count > 1 for count in names.values())

    # -- the search -------------------------------------------------------------------------------------------------

    def _on_one_node(self, wanted: int) -> dict[str, Bind] | str:
        """A claim that several members share is allocated once, for the node on which all of them then are."""
        everybody = [member for kind in self._kinds for member in kind]
        for node in self._nodes:
            if (found := self._on_node(node, everybody)) is not None:
                return found
        return IMPOSSIBLE if wanted >= len(everybody) else NOT_SEARCHED

    def _over_nodes(self, wanted: int) -> dict[str, Bind] | str:
        counts = tuple(map(len, self._kinds))
        #: how many of each kind a node can have if it has no other kind
        limits = [(node, tuple(self._limit(node, kind) for kind in self._kinds)) for node in self._nodes]
        limits = sorted(
            ((node, most) for node, most in limits if any(most)),
            key=lambda pair: (sum(pair[1]), pair[0].name),
        )
        left = [tuple(0 for _ in counts)]
        for _, most in reversed(limits):
            left.append(tuple(map(sum, zip(most, left[-1], strict=True))))
        left.reverse()
        dead: set[tuple[int, tuple[int, ...]]] = set()

        def search(
            at: int, missing: tuple[int, ...], needed: int
        ) -> list[tuple[NodeInfo, tuple[int, ...]]] | None:
            if needed <= 0:
                return []
            if at == len(limits) or sum(map(min, missing, left[at])) < needed or (at, missing) in dead:
                return None
            node, most = limits[at]
            for mixture in _mixtures(tuple(map(min, missing, most))):
                if any(mixture) and self._on_node(node, self._chosen(missing, mixture)) is None:
                    continue
                rest = tuple(m - n for m, n in zip(missing, mixture, strict=True))
                deeper = search(at + 1, rest, needed - sum(mixture))
                if deeper is not None:
                    return [(node, mixture), *deeper]
            dead.add((at, missing))
            return None

        found = search(0, counts, wanted)
        return IMPOSSIBLE if found is None else self._binds(counts, found)

    def _binds(
        self, counts: tuple[int, ...], found: Sequence[tuple[NodeInfo, tuple[int, ...]]]
    ) -> dict[str, Bind] | str:
        """Node by node: devices that several nodes can use may be taken on one of them only."""
        binds: dict[str, Bind] = {}
        assumed: list[str] = []
        missing = counts
        try:
            for node, mixture in found:
                if any(mixture):
                    on_node = self._on_node(node, self._chosen(missing, mixture))
                    if on_node is None:
                        return NOT_SEARCHED
                    binds |= on_node
                    assumed += self._assume(on_node.values())
                missing = tuple(m - n for m, n in zip(missing, mixture, strict=True))
        finally:
            for uid in assumed:
                self._claim_cache.forget(uid)
        return binds

    def _assume(self, binds: Iterable[Bind]) -> Iterator[str]:
        for bind in binds:
            if isinstance(bind.reservation, DeviceReservation):
                plan = bind.reservation.plan
                for claim, allocation in zip(plan.claims, plan.results, strict=True):
                    self._claim_cache.assume(claim, allocation)
                    yield claim["metadata"]["uid"]

    def _chosen(self, missing: tuple[int, ...], mixture: tuple[int, ...]) -> list[_Member]:
        """The next members of each kind."""
        return [
            member
            for kind, open_, count in zip(self._kinds, missing, mixture, strict=True)
            for member in kind[len(kind) - open_ : len(kind) - open_ + count]
        ]

    def _limit(self, node: NodeInfo, kind: list[_Member]) -> int:
        """How many members of one kind a node can have."""
        low, high = 0, len(kind)
        while low < high:
            middle = (low + high + 1) // 2
            if self._on_node(node, kind[:middle]) is not None:
                low = middle
            elif middle > 1 and low == 0:
                high = 1 if self._on_node(node, kind[:1]) is not None else 0
                if high == 0:
                    return 0
                low, high = 1, middle - 1
            else:
                high = middle - 1
        return low

    # -- one node ---------------------------------------------------------------------------------------------------

    def _on_node(self, node: NodeInfo, members: Sequence[_Member]) -> dict[str, Bind] | None:
        """What the members get on the node if it can have all of them."""
        self._trials -= 1
        if self._trials < 0 or self._monotonic() > self._deadline:
            raise _Exhausted
        placement = self._framework.placement
        trial = node.without(frozenset())
        for member in members:
            if member.pod.pinned is not None and node.name not in member.pod.pinned:
                return None
            if placement.run_filters(member.pod, trial) is not None:
                return None
            trial.add_pod(member.pod)
        attempts = [member.attempt for member in members if member.attempt is not None]
        if not attempts:
            return {member.pod.uid: Bind(node.name) for member in members}
        try:
            plans = attempts[0].filter_together(node, attempts)
        except (AllocationError, FilterTimeout):
            return None
        if isinstance(plans, Rejection):
            return None
        given = iter(plans)
        return {
            member.pod.uid: Bind(node.name)
            if member.attempt is None
            else member.attempt.reserve(node.name, next(given))
            for member in members
        }


def _mixtures(most: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
    """All mixtures within these limits, the largest first."""
    if math.prod(limit + 1 for limit in most) > _MIXTURES:
        raise _Exhausted
    everything: list[tuple[int, ...]] = [()]
    for limit in most:
        everything = [(*mixture, n) for mixture in everything for n in range(limit, -1, -1)]
    return iter(sorted(everything, key=lambda mixture: -sum(mixture)))

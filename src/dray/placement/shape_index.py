"""``ShapeIndex``: what filters and scores say of every node about pods of one shape, kept between attempts.

After a pod is placed only the nodes that have changed are filtered and scored again, so the cost of placing a pod does
not grow with the cluster. Nodes in the same state are filtered and scored once. A new index knows groups of such nodes:
only the first node of each group is in its heap, and the next one follows when that one has changed or is rejected.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from dray.placement.plugins.dynamic_resources import TOO_FEW_DEVICES
from dray.placement.status import Diagnosis, Rejection, ScheduleResult

if TYPE_CHECKING:
    from dray.placement.cache.nodes import NodeInfo
    from dray.placement.cache.pods import PodInfo
    from dray.placement.claims import ClaimAttempt
    from dray.placement.placement import Member, Placement
    from dray.placement.policies.model import NodeState

#: -score, tie-break, generation, node, and the number of the cursor that the node is from; -1: from none
_Entry = tuple[float, int, int, str, int]
_STATES_KEPT = 20_000
#: how many nodes are drawn before every candidate is looked at
_DRAWS = 32
#: entries are pushed onto a heap that is so many times as long; otherwise the heap is made anew
_PUSHED_BELOW = 4


class _Cursor:
    """A group of nodes that were in the same state, and how far it has been used."""

    __slots__ = ("_members", "_position")

    def __init__(self, members: Sequence[Member]) -> None:
        self._members = members
        self._position = -1

    def next(self, nodes: Mapping[str, NodeInfo]) -> Member | None:
        """The next node that has not changed since."""
        for position in range(self._position + 1, len(self._members)):
            self._position = position
            member = self._members[position]
            node = nodes.get(member[2])
            if node is not None and node.generation == member[1] and node.document is not None:
                return member
        self._position = len(self._members)
        return None


class ShapeIndex:
    """For pods of one shape: a heap of the nodes that fit, and the rejections of those that do not."""

    def __init__(self, placement: Placement) -> None:
        self._placement = placement
        self._position = -1
        self._generation = 0  # the highest one of a node so far
        self._version = 0  # of the scores
        self._heap: list[_Entry] = []
        self._cursors: list[_Cursor] = []
        self._candidates: set[str] = set()  # instead of the heap, where nodes are drawn
        self._rejections: dict[str, Rejection] = {}
        self._full: set[str] = set()  # nodes that are rejected for as long as they only get fuller
        self._plugins: Counter[str] = Counter()  # how many nodes each plugin rejects
        self._verdicts: dict[NodeState, float | Rejection] = {}  # what is known of nodes in a state

    def find(self, pod: PodInfo, attempt: ClaimAttempt | None) -> ScheduleResult | Diagnosis:
        self._catch_up(pod, attempt)
        scorer = self._placement.scorer
        if scorer is not None and scorer.policy.draws_node:
            return self._draw(pod, attempt)
        nodes, heap, pop = self._placement.cluster.by_name, self._heap, heapq.heappop
        while heap:
            _, _, generation, name, cursor = heap[0]
            node = nodes.get(name)
            if node is None or node.generation != generation or node.document is None:
                if cursor < 0:
                    pop(heap)
                else:
                    self._follow(cursor)
                continue
            if attempt is None:
                return ScheduleResult(name)
            plan = attempt.filter(node)
            if not isinstance(plan, Rejection):
                return ScheduleResult(name, plan)
            self._reject(name, plan)
            self._follow(cursor)
        return self._diagnosis()

    def _follow(self, cursor: int) -> None:
        """The best node of the heap is of no use: the next one of its group takes its place."""
        heap = self._heap
        following = self._cursors[cursor].next(self._placement.cluster.by_name) if cursor >= 0 else None
        if following is None:
            heapq.heappop(heap)
        else:
            heapq.heapreplace(heap, (heap[0][0], *following, cursor))

    def _draw(self, pod: PodInfo, attempt: ClaimAttempt | None) -> ScheduleResult | Diagnosis:
        """Any node that fits, all with the same chance; which one depends on the pod and on what fits alone."""
        placement, candidates = self._placement, self._candidates
        if candidates:
            for number in range(_DRAWS):
                node = placement.drawn(pod, number)
                if node.name in candidates and (found := self._try(node, attempt)) is not None:
                    return found
        nodes = [one for name in candidates if (one := placement.cluster.get(name)) is not None]
        for node in sorted(nodes, key=lambda one: placement.draw(pod, one)):
            if (found := self._try(node, attempt)) is not None:
                return found
        return self._diagnosis()

    def _try(self, node: NodeInfo, attempt: ClaimAttempt | None) -> ScheduleResult | None:
        if attempt is None:
            return ScheduleResult(node.name)
        plan = attempt.filter(node)
        if not isinstance(plan, Rejection):
            return ScheduleResult(node.name, plan)
        self._reject(node.name, plan)
        return None

    def _diagnosis(self) -> Diagnosis:
        return Diagnosis(len(self._placement.cluster), self._rejections, frozenset(+self._plugins))

    def _reject(self, name: str, rejection: Rejection) -> None:
        self._rejections[name] = rejection
        self._plugins[rejection.plugin] += 1
        self._candidates.discard(name)

    def _catch_up(self, pod: PodInfo, attempt: ClaimAttempt | None) -> None:
        placement = self._placement
        cluster, scorer = placement.cluster, placement.scorer
        changed = cluster.changed_since(self._position)
        version = scorer.version if scorer is not None else 0
        if version != self._version:
            changed = None
        verdict_on: Callable[[NodeInfo, NodeState | None], float | Rejection] | None = None
        shared = scorer is not None and pod.ignores_identity_of_nodes
        draws = scorer is not None and scorer.policy.draws_node
        if changed is None:
            self._forget()
            if shared and not draws and not placement.nominator.nominated:
                verdict_on = placement.verdicts_for(pod, attempt)
                changed = self._learn_groups(verdict_on)
            else:
                changed = {node.name for node in cluster}
        nominated, nodes = placement.nominator.nominated, cluster.by_name
        standings = placement.standings
        verdicts, rejections, plugins = self._verdicts, self._rejections, self._plugins
        fresh: list[_Entry] = []
        seen, full = self._generation, self._full
        if cluster.loosened_at <= self._position:
            changed -= full
        for name in changed:
            node = nodes.get(name)
            known = rejections.get(name)
            if known is not None:
                if node is not None and node.loosened <= seen and name in full:
                    continue  # what was too little has not become more
                del rejections[name]
                full.discard(name)
                plugins[known.plugin] -= 1
            if node is None or node.document is None:
                self._candidates.discard(name)
                continue
            generation = node.generation
            standing = standings.get(name)
            if standing is None or standing[0] != generation:
                standing = placement.standing(node)
            state = standing[1]
            shares = shared and not (nominated and name in nominated)
            verdict = verdicts.get(state) if shares and state is not None else None
            if verdict is None:
                if verdict_on is None:
                    verdict_on = placement.verdicts_for(pod, attempt)
                verdict = verdict_on(node, state)
                if shares and state is not None:
                    verdicts[state] = verdict
            if isinstance(verdict, Rejection):
                rejections[name] = verdict
                if _lasts(verdict):
                    full.add(name)
                plugins[verdict.plugin] += 1
                self._candidates.discard(name)
            elif draws:
                self._candidates.add(name)
            else:
                fresh.append((-verdict, standing[2], generation, name, -1))
        self._position, self._generation, self._version = cluster.position, cluster.generation, version
        if len(verdicts) > _STATES_KEPT:
            verdicts.clear()
        heap = self._heap
        if len(fresh) * _PUSHED_BELOW > len(heap) or len(heap) > 4 * len(cluster) + 64:
            self._forget_stale(fresh)
        else:
            for entry in fresh:
                heapq.heappush(heap, entry)

    def _forget(self) -> None:
        for known in (
            self._heap,
            self._cursors,
            self._candidates,
            self._rejections,
            self._full,
            self._plugins,
            self._verdicts,
        ):
            known.clear()
        self._generation = 0

    def _learn_groups(
        self, verdict_on: Callable[[NodeInfo, NodeState | None], float | Rejection]
    ) -> set[str]:
        """Begin with groups of nodes as they were a while ago; returns the nodes that have changed since then."""
        cluster = self._placement.cluster
        grouping = self._placement.grouping()
        for state, members in grouping.groups:
            cursor = _Cursor(members)
            first = cursor.next(cluster.by_name)
            if first is None:
                continue
            verdict = self._verdicts[state] = verdict_on(cluster.by_name[first[2]], state)
            if isinstance(verdict, Rejection):
                names = [name for _, _, name in members]
                self._rejections.update(dict.fromkeys(names, verdict))
                if _lasts(verdict):
                    self._full.update(names)
                self._plugins[verdict.plugin] += len(members)
            else:
                self._heap.append((-verdict, *first, len(self._cursors)))
                self._cursors.append(cursor)
        heapq.heapify(self._heap)
        self._generation, self._position = grouping.generation, grouping.position
        return cluster.changed_since(grouping.position) or set()

    def _forget_stale(self, fresh: list[_Entry]) -> None:
        """Make the heap anew, with these entries beside those of nodes that have not changed."""
        nodes = self._placement.cluster.by_name
        for entry in self._heap:
            node = nodes.get(entry[3])
            if node is not None and node.generation == entry[2]:
                fresh.append(entry)
            elif entry[4] >= 0 and (following := self._cursors[entry[4]].next(nodes)) is not None:
                fresh.append((entry[0], *following, entry[4]))
        heapq.heapify(fresh)
        self._heap = fresh


def _lasts(rejection: Rejection) -> bool:
    """Whether the node stays rejected as long as it only gets fuller."""
    return rejection is TOO_FEW_DEVICES or rejection.plugin == "NodeResourcesFit"

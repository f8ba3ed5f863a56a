"""``ShapeIndex``: what filters and scores say of every node about pods of one shape, kept between attempts.

After a pod is placed only the nodes that have changed are filtered and scored again, so the cost of placing a pod does
not grow with the cluster.
"""

from __future__ import annotations

import heapq
import random
from typing import TYPE_CHECKING

from dray.placement.status import Diagnosis, Rejection, ScheduleResult

if TYPE_CHECKING:
    from dray.placement.cache.nodes import NodeInfo
    from dray.placement.cache.pods import PodInfo
    from dray.placement.claims import ClaimAttempt
    from dray.placement.placement import Placement


class ShapeIndex:
    """For pods of one shape: a heap of the nodes that fit, and the rejections of those that do not."""

    def __init__(self, placement: Placement, rng: random.Random) -> None:
        self._placement = placement
        self._rng = rng
        self._position = -1
        self._heap: list[tuple[float, float, int, str]] = []  # (-score, tie-break, generation, node)
        self._rejections: dict[str, Rejection] = {}

    def find(self, pod: PodInfo, attempt: ClaimAttempt | None) -> ScheduleResult | Diagnosis:
        self._catch_up(pod, attempt)
        cluster, heap = self._placement.cluster, self._heap
        while heap:
            _, _, generation, name = heap[0]
            node = cluster.get(name)
            if node is None or node.generation != generation:
                heapq.heappop(heap)
                continue
            if attempt is None:
                return ScheduleResult(name)
            plan = attempt.filter(node)
            if not isinstance(plan, Rejection):
                return ScheduleResult(name, plan)
            self._rejections[name] = plan
            heapq.heappop(heap)
        return Diagnosis(len(cluster), self._rejections)

    def _catch_up(self, pod: PodInfo, attempt: ClaimAttempt | None) -> None:
        cluster = self._placement.cluster
        changed = cluster.changed_since(self._position)
        if changed is None:
            self._heap.clear()
            self._rejections.clear()
            changed = {node.name for node in cluster}
        for name in changed:
            self._rejections.pop(name, None)
            node = cluster.get(name)
            if node is not None:
                self._learn(pod, node, attempt)
        if len(self._heap) > 4 * len(cluster) + 64:
            self._forget_stale()
        self._position = cluster.position

    def _learn(self, pod: PodInfo, node: NodeInfo, attempt: ClaimAttempt | None) -> None:
        rejection = self._placement.run_filters(pod, node)
        if rejection is not None:
            self._rejections[node.name] = rejection
            return
        score = self._placement.score_of(pod, node, attempt)
        heapq.heappush(self._heap, (-score, self._rng.random(), node.generation, node.name))

    def _forget_stale(self) -> None:
        cluster = self._placement.cluster
        self._heap = [e for e in self._heap if (n := cluster.get(e[3])) is not None and n.generation == e[2]]
        heapq.heapify(self._heap)

"""The taint eviction controller: it deletes pods that do not tolerate a NoExecute taint of their node, or not for ever."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Final

from dray.api.errors import NotFound
from dray.api.nodeaffinity import tolerates
from dray.api.times import from_epoch, to_epoch
from dray.client.client import PatchType
from dray.client.resources import NODES, PODS, ObjectKey, key_of
from dray.controllers.controller import Controller, ControllerContext
from dray.controllers.nodelifecycle import by_node
from dray.controllers.pod_status import disruption_target_patch

if TYPE_CHECKING:
    from dray.api.types.core import Node, Pod, Taint, Toleration


REASON: Final = "DeletionByTaintManager"
MESSAGE: Final = "Taint manager: deleting due to NoExecute taint"


def no_execute_taints(node: Node) -> list[Taint]:
    """The taints that evict pods from a node."""
    return [t for t in (node.get("spec") or {}).get("taints") or () if t["effect"] == "NoExecute"]


def min_toleration_seconds(taints: Iterable[Taint], tolerations: Sequence[Toleration]) -> float | None:
    """For how many seconds a pod tolerates the taints; None if for ever. The first toleration that fits counts."""
    seconds: list[float] = []
    for taint in taints:
        fitting = next((t for t in tolerations if tolerates(t, taint)), None)
        if fitting is None:
            return 0.0
        if fitting.get("tolerationSeconds") is not None:
            seconds.append(max(float(fitting["tolerationSeconds"]), 0.0))
    return min(seconds, default=None)


def tainted_since(taints: Iterable[Taint], pod: Pod, *, seen: float) -> float:
    """From when on a pod has been bearing its node's taints: known from them, else when they were first seen."""
    times = [taint.get("timeAdded") for taint in taints]
    if any(moment is None for moment in times):
        return seen
    created = pod["metadata"].get("creationTimestamp")
    return max(to_epoch(moment) for moment in (*times, created) if moment is not None)


class TaintEvictionController(Controller[ObjectKey]):
    """Keys are pods."""

    name = "taint-eviction-controller"

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._waiting: dict[
            ObjectKey, float
        ] = {}  # pods that will be evicted, and since when they tolerate the taint
        self._nodes = context.informers.get(NODES)
        self._pods = context.informers.get(PODS, indexers={"node": by_node})
        self._nodes.add_handler(on_add=self._node_changed, on_update=lambda o, n: self._node_changed(n, o))
        self._pods.add_handler(
            on_add=self._pod_added, on_update=self._pod_changed, on_delete=lambda o: self._cancel(key_of(o))
        )

    def _node_changed(self, node: Node, old: Node | None = None) -> None:
        if no_execute_taints(node) != (no_execute_taints(old) if old is not None else []):
            for pod in self._pods.by_index("node", node["metadata"]["name"]):
                self.enqueue(key_of(pod))

    def _pod_changed(self, old: Pod, new: Pod) -> None:
        before, after = old["spec"], new["spec"]
        if before.get("nodeName") != after.get("nodeName") or before.get("tolerations") != after.get(
            "tolerations"
        ):
            self._pod_added(new)

    def _pod_added(self, pod: Pod) -> None:
        name = pod["spec"].get("nodeName")
        node = self._nodes.get("", name) if name else None
        if node is not None and no_execute_taints(node):
            self.enqueue(ObjectKey(pod["metadata"]["namespace"], pod["metadata"]["name"]))

    def _cancel(self, key: ObjectKey) -> None:
        if self._waiting.pop(key, None) is not None:
            self._record_event(key, f"Cancelling deletion of Pod {key}")

    async def sync(self, key: ObjectKey) -> float | None:
        pod = self._pods.get(*key)
        if pod is None:
            return None
        node = self._nodes.get("", pod["spec"].get("nodeName") or "")
        taints = no_execute_taints(node) if node is not None else []
        tolerated = min_toleration_seconds(taints, pod["spec"].get("tolerations") or ())
        if not tolerated:
            self._cancel(key)  # what was to happen later does not, or happens now
        if tolerated is None:
            return None
        now = self.context.clock()
        if tolerated:
            start = self._waiting.setdefault(key, tainted_since(taints, pod, seen=now))
            if start + tolerated > now:
                return start + tolerated - now
        await self._evict(key, pod)
        return None

    async def _evict(self, key: ObjectKey, pod: Pod) -> None:
        self._record_event(key, f"Marking for deletion Pod {key}")
        now, generation = from_epoch(self.context.clock()), pod["metadata"].get("generation")
        patch = disruption_target_patch(pod, reason=REASON, message=MESSAGE, now=now, generation=generation)
        client = self.context.client
        with contextlib.suppress(NotFound):
            if patch is not None:
                await client.patch_status(PODS, key.namespace, key.name, patch, type=PatchType.STRATEGIC)
            await client.delete(PODS, key.namespace, key.name, uid=pod["metadata"]["uid"])
        self._waiting.pop(key, None)

    def _record_event(self, key: ObjectKey, message: str) -> None:
        about: Pod = {"metadata": {"namespace": key.namespace, "name": key.name}}
        self.context.recorder.event(PODS, about, "Normal", "TaintManagerEviction", message)

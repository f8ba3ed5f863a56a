"""The pod garbage collector. It ends and deletes pods that no kubelet would end: pods of nodes that do not exist, pods that
were deleted before they got a node, and terminating pods on nodes out of service. It also deletes terminated pods beyond
a threshold.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from dray.api.errors import NotFound
from dray.api.times import from_epoch
from dray.client.client import PatchType
from dray.client.resources import NODES, PODS
from dray.controllers.controller import Controller, ControllerContext, for_each
from dray.controllers.pod_status import failed_phase_patch

if TYPE_CHECKING:
    from dray.api.types.core import Node, Pod, PodCondition


#: How often things are looked over, and so how long a stuck pod may wait.
CHECK_SECONDS: Final = 20.0
#: How long a node may be missing before its pods are given up.
QUARANTINE_SECONDS: Final = 40.0
TERMINATED_POD_THRESHOLD: Final = 12500
OUT_OF_SERVICE: Final = "node.kubernetes.io/out-of-service"


class GarbageKind(NamedTuple):
    """A kind of pods that the collector deletes; the queue's keys."""

    name: str  # "orphans", "terminating" or "terminated"


ORPHANS: Final = GarbageKind("orphans")
TERMINATING: Final = GarbageKind("terminating")
TERMINATED: Final = GarbageKind("terminated")


# -- decisions ------------------------------------------------------------------------------------------------------


def is_terminated(pod: Pod) -> bool:
    phase = (pod.get("status") or {}).get("phase") or "Pending"
    return phase not in ("Pending", "Running", "Unknown")


def excess_terminated(pods: Iterable[Pod], *, threshold: int) -> list[Pod]:
    """Finished pods beyond the threshold: evicted ones first, then the oldest."""
    finished = [pod for pod in pods if is_terminated(pod)]
    count = len(finished) - threshold
    return sorted(finished, key=_age)[:count] if threshold > 0 and count > 0 else []


def _age(pod: Pod) -> tuple[bool, str, str]:
    status, metadata = pod.get("status") or {}, pod["metadata"]
    evicted = status.get("phase") == "Failed" and status.get("reason") == "Evicted"
    return not evicted, metadata.get("creationTimestamp", ""), metadata["name"]


def is_stuck_terminating(pod: Pod, node: Node | None) -> bool:
    """Whether a pod is being deleted and no kubelet is there that could finish that."""
    if "deletionTimestamp" not in pod["metadata"]:
        return False
    if not pod["spec"].get("nodeName"):
        return True
    return node is not None and _out_of_service(node)


def _out_of_service(node: Node) -> bool:
    ready = any(
        c["type"] == "Ready" and c["status"] == "True"
        for c in (node.get("status") or {}).get("conditions") or ()
    )
    return not ready and any(t["key"] == OUT_OF_SERVICE for t in node["spec"].get("taints") or ())


# -- the controller -------------------------------------------------------------------------------------------------


class PodGCController(Controller[GarbageKind]):
    name = "pod-garbage-collector-controller"
    workers = 1

    def __init__(
        self,
        context: ControllerContext,
        *,
        terminated_pods: int = TERMINATED_POD_THRESHOLD,
        check_seconds: float = CHECK_SECONDS,
        quarantine_seconds: float = QUARANTINE_SECONDS,
    ) -> None:
        super().__init__(context)
        self._threshold = terminated_pods
        self._check = check_seconds
        self._quarantine = quarantine_seconds
        self._missing: dict[str, float] = {}  # nodes that pods name, and since when we miss them
        self._stuck: dict[tuple[str, str], None] = {}  # pods that may be stuck
        self._terminated: dict[tuple[str, str], None] = {}
        self._nodes = context.informers.get(NODES)
        self._pods = context.informers.get(PODS)
        self._nodes.add_handler(on_update=self._node_changed, on_delete=self._node_deleted)
        self._pods.add_handler(on_set=self._pod_set, on_delete=self._pod_deleted)

    # -- what happens

    def _pod_set(self, pod: Pod) -> None:
        metadata = pod["metadata"]
        node = pod["spec"].get("nodeName")
        if node and self._nodes.get("", node) is None:
            self._miss(node)
        if "deletionTimestamp" in metadata:
            self._stuck[(metadata["namespace"], metadata["name"])] = None
            if not node or (found := self._nodes.get("", node)) is None or _out_of_service(found):
                self.queue.add_after(TERMINATING, self._check)
        if is_terminated(pod):
            self._terminated[(metadata["namespace"], metadata["name"])] = None
            if 0 < self._threshold < len(self._terminated):
                self.queue.add_after(TERMINATED, self._check)

    def _pod_deleted(self, pod: Pod) -> None:
        key = (pod["metadata"]["namespace"], pod["metadata"]["name"])
        self._stuck.pop(key, None)
        self._terminated.pop(key, None)

    def _node_changed(self, old: Node, new: Node) -> None:
        if self._stuck and _out_of_service(new):
            self.queue.add_after(TERMINATING, self._check)

    def _node_deleted(self, node: Node) -> None:
        self._miss(node["metadata"]["name"])

    def _miss(self, node: str) -> None:
        if node not in self._missing:
            self._missing[node] = self.context.clock()
            self.queue.add_after(ORPHANS, self._quarantine)

    # -- looking things over

    async def sync(self, key: GarbageKind) -> float | None:
        match key:
            case GarbageKind("orphans"):
                return await self._end_orphans()
            case GarbageKind("terminating"):
                found = [self._pods.get(*k) for k in self._stuck]
                await self._end(
                    [p for p in found if p is not None and is_stuck_terminating(p, self._node_of(p))]
                )
            case GarbageKind("terminated"):
                finished = (self._pods.get(*k) for k in self._terminated)
                await self._end(
                    excess_terminated((p for p in finished if p is not None), threshold=self._threshold)
                )
        return None

    def _node_of(self, pod: Pod) -> Node | None:
        return self._nodes.get("", pod["spec"].get("nodeName") or "")

    async def _end_orphans(self) -> float | None:
        """Give up the pods of nodes that have been missing for long and really are not there."""
        now = self.context.clock()
        gone: dict[str, float] = {}
        for node, since in list(self._missing.items()):
            if self._nodes.get("", node) is not None:
                del self._missing[node]
            elif now - since >= self._quarantine:
                if not await self._exists(node):
                    gone[node] = since
                del self._missing[node]
        if gone:
            condition: PodCondition = {
                "type": "DisruptionTarget", "status": "True",
                "reason": "DeletionByPodGC", "message": "PodGC: node no longer exists",
            }  # fmt: skip
            orphans = [p for p in self._pods.items() if p["spec"].get("nodeName") in gone]
            try:
                await self._end(orphans, condition)
            except BaseException:
                self._missing = gone | self._missing  # for another try
                raise
        if not self._missing:
            return None
        return max(min(self._missing.values()) + self._quarantine - now, 1.0)

    async def _exists(self, node: str) -> bool:
        try:
            await self.context.client.get(NODES, "", node)
        except NotFound:
            return False
        return True

    async def _end(self, pods: Sequence[Pod], condition: PodCondition | None = None) -> None:
        client, now = self.context.client, from_epoch(self.context.clock())

        async def end(pod: Pod) -> None:
            metadata = pod["metadata"]
            namespace, name = metadata["namespace"], metadata["name"]
            patch = failed_phase_patch(pod, condition=condition, now=now)
            with contextlib.suppress(NotFound):
                if patch is not None:
                    await client.patch_status(PODS, namespace, name, patch, type=PatchType.STRATEGIC)
                await client.delete(PODS, namespace, name, uid=metadata["uid"], grace_seconds=0)

        await for_each(pods, end)

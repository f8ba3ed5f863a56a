"""The ReplicaSet controller: it creates and deletes pods until there are as many as the ReplicaSet asks for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, TypeVar

from dray.api.errors import StatusError
from dray.api.objects import controller_of
from dray.api.pods import is_active, is_ready
from dray.api.times import from_epoch
from dray.client.resources import REPLICASETS, ObjectKey
from dray.controllers.controller import ControllerContext, for_each
from dray.controllers.workloads import controller_ref, owned_pods
from dray.controllers.workloads.pod_control import PodOwnerController

if TYPE_CHECKING:
    from dray.api.types.apps import ReplicaSet, ReplicaSetCondition, ReplicaSetStatus
    from dray.api.types.core import Pod, ReplicationController


_BURST: Final = 500  # pods that are made or deleted before a set is looked at again
REPLICA_FAILURE: Final = "ReplicaFailure"


def status_of(
    rs: ReplicaSet | ReplicationController,
    active: Sequence[Pod],
    now: float,
    *,
    failure: ReplicaSetCondition | None = None,
    terminating: int | None = None,
) -> ReplicaSetStatus:
    """What a ReplicaSet says about its pods, and about its failure to make or delete them.

    ``terminating`` pods are those on their way out; None where a release does not count them.
    """
    spec = rs["spec"]
    wanted = ((spec.get("template") or {}).get("metadata") or {}).get("labels") or {}
    ready = [p for p in active if is_ready(p)]
    available = [p for p in ready if owned_pods.is_available(p, spec.get("minReadySeconds") or 0, now)]
    full = [p for p in active if wanted.items() <= (p["metadata"].get("labels") or {}).items()]
    status: ReplicaSetStatus = {
        "replicas": len(active),
        "observedGeneration": rs["metadata"].get("generation", 0),
    }
    if full:
        status["fullyLabeledReplicas"] = len(full)
    if ready:
        status["readyReplicas"] = len(ready)
    if available:
        status["availableReplicas"] = len(available)
    if terminating is not None:
        status["terminatingReplicas"] = terminating
    known = (rs.get("status") or {}).get("conditions") or ()
    conditions = [c for c in known if c["type"] != REPLICA_FAILURE]
    if failure is not None:
        # The condition of the first failure stays until creation or deletion succeeds.
        conditions.append(next((c for c in known if c["type"] == REPLICA_FAILURE), failure))
    return {**status, "conditions": conditions} if conditions else status


Replicas = TypeVar("Replicas", "ReplicaSet", "ReplicationController")


class ReplicaController(PodOwnerController[Replicas, ObjectKey]):
    """A controller of objects that want a number of pods alike."""

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._owners.add_index("owner", controller_ref.by_owner)
        self._counts_terminating = context.quirks.counts_terminating_replicas

    async def sync(self, key: ObjectKey) -> float | None:
        rs = self._owners.get(*key)
        if rs is None:
            return None
        own = self._owned_pods(rs)
        selected = controller_ref.matches(self.selector(rs))
        # Pods that have finished are neither adopted nor released.
        active = await self._claim(
            rs,
            [p for p in own if is_active(p)],
            lambda pod: is_active(pod) and selected(pod),
        )
        problem: StatusError | None = None
        missing = 0
        if "deletionTimestamp" not in rs["metadata"] and self._expected.satisfied(key, own):
            missing = rs["spec"].get("replicas", 1) - len(active)
            try:
                await self._manage(key, rs, active, missing)
            except StatusError as failed:
                problem = failed
        terminating = sum(1 for p in own if owned_pods.is_terminating(p) and selected(p))
        status = status_of(
            rs,
            active,
            self.context.clock(),
            failure=self._failure(missing, problem) if problem is not None else None,
            terminating=terminating if self._counts_terminating else None,
        )
        await self._update_status(key, rs, status)
        if problem is not None:
            raise problem
        waiting = rs["spec"].get("minReadySeconds")
        if waiting and status.get("readyReplicas", 0) > status.get("availableReplicas", 0):
            return float(waiting)
        return None

    def _failure(self, missing: int, problem: StatusError) -> ReplicaSetCondition:
        return {
            "type": REPLICA_FAILURE,
            "status": "True",
            "reason": "FailedCreate" if missing > 0 else "FailedDelete",
            "message": str(problem) if missing > 0 else f"unable to delete pods: {problem}",
            "lastTransitionTime": from_epoch(self.context.clock()),
        }

    async def _manage(self, key: ObjectKey, rs: Replicas, active: list[Pod], missing: int) -> None:
        if missing > 0:
            template = rs["spec"]["template"]
            await owned_pods.slow_start_batch(
                min(missing, _BURST),
                lambda: self._create_pod(key, rs, owned_pods.pod_from_template(template, self.resource, rs)),
            )
        elif missing < 0:
            surplus = owned_pods.ranked_for_deletion(active, self._pods_per_node(rs))[: min(-missing, _BURST)]
            await for_each(surplus, lambda pod: self._delete_pod(key, rs, pod))

    def _pods_per_node(self, rs: Replicas) -> Counter[str]:
        """How many pods of the same deployment, whatever their template, are on each node."""
        above = controller_of(rs)
        sets = self._owners.by_index("owner", above["uid"]) if above is not None else ()
        return Counter(
            pod["spec"].get("nodeName", "") for one in sets for pod in self._owned_pods(one) if is_active(pod)
        )


class ReplicaSetController(ReplicaController["ReplicaSet"]):
    name = "replicaset-controller"
    resource = REPLICASETS

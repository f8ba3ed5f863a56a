"""ReplicaSets: as many pods as were asked for, no more, no fewer."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Final

from dray.api.claims import controller_of
from dray.api.errors import StatusError
from dray.api.kinds import Object
from dray.client.resources import REPLICASETS, ObjectKey
from dray.controllers.framework import Kit, for_each
from dray.controllers.workloads import owning
from dray.controllers.workloads.keeping import PodKeeper

Document = Mapping[str, Any]
_BURST: Final = 500  # pods that are made or deleted before a set is looked at again
FAILURE: Final = "ReplicaFailure"


def status_of(
    rs: Document,
    active: Sequence[Document],
    now: float,
    *,
    failure: Object | None = None,
    terminating: int | None = None,
) -> Object:
    """What a ReplicaSet says about its pods, and about its failure to make or delete them.

    ``terminating`` pods are those on their way out; None where a release does not count them.
    """
    spec = rs["spec"]
    wanted = ((spec.get("template") or {}).get("metadata") or {}).get("labels") or {}
    ready = [p for p in active if owning.is_ready(p)]
    available = [p for p in ready if owning.is_available(p, spec.get("minReadySeconds") or 0, now)]
    full = [p for p in active if wanted.items() <= (p["metadata"].get("labels") or {}).items()]
    status: Object = {"replicas": len(active), "observedGeneration": rs["metadata"].get("generation", 0)}
    for name, count in (
        ("fullyLabeledReplicas", len(full)),
        ("readyReplicas", len(ready)),
        ("availableReplicas", len(available)),
    ):
        if count:
            status[name] = count
    if terminating is not None:
        status["terminatingReplicas"] = terminating
    known = (rs.get("status") or {}).get("conditions") or ()
    conditions = [c for c in known if c["type"] != FAILURE]
    if failure is not None:
        # Told once: the first failure's words stay until it is over.
        conditions.append(next((c for c in known if c["type"] == FAILURE), failure))
    return {**status, "conditions": conditions} if conditions else status


class ReplicaSetController(PodKeeper[ObjectKey]):
    name = "replicaset-controller"
    resource = REPLICASETS

    def __init__(self, kit: Kit) -> None:
        super().__init__(kit)
        self._owners.add_index("owner", owning.by_owner)
        self._counts_terminating = "DeploymentReplicaSetTerminatingReplicas" in kit.gates

    async def sync(self, key: ObjectKey) -> float | None:
        rs = self._owners.get(*key)
        if rs is None:
            return None
        own = self._own(rs)
        selected = owning.matches(rs["spec"]["selector"])
        # Pods that have ended are left alone: they are neither adopted nor let go.
        active = await self._claim(
            rs,
            [p for p in own if owning.is_active(p)],
            lambda pod: owning.is_active(pod) and selected(pod),
        )
        problem: StatusError | None = None
        missing = 0
        if "deletionTimestamp" not in rs["metadata"] and self._expected.met(key, own):
            missing = rs["spec"].get("replicas", 1) - len(active)
            try:
                await self._manage(key, rs, active, missing)
            except StatusError as failed:
                problem = failed
        terminating = sum(1 for p in own if owning.is_terminating(p) and selected(p))
        status = status_of(
            rs,
            active,
            self.kit.clock(),
            failure=self._failure(missing, problem) if problem is not None else None,
            terminating=terminating if self._counts_terminating else None,
        )
        await self._write(key, rs, status)
        if problem is not None:
            raise problem
        waiting = rs["spec"].get("minReadySeconds")
        if waiting and status.get("readyReplicas", 0) > status.get("availableReplicas", 0):
            return float(waiting)
        return None

    def _failure(self, missing: int, problem: StatusError) -> Object:
        return {
            "type": FAILURE,
            "status": "True",
            "reason": "FailedCreate" if missing > 0 else "FailedDelete",
            "message": str(problem) if missing > 0 else f"unable to delete pods: {problem}",
            "lastTransitionTime": owning.timestamp(self.kit.clock()),
        }

    async def _manage(self, key: ObjectKey, rs: Document, active: list[Document], missing: int) -> None:
        if missing > 0:
            template = rs["spec"]["template"]
            await owning.slow_start(
                min(missing, _BURST),
                lambda: self._make(key, rs, owning.pod_from(template, REPLICASETS, rs)),
            )
        elif missing < 0:
            surplus = owning.cheapest_first(active, self._crowd(rs))[: min(-missing, _BURST)]
            await for_each(surplus, lambda pod: self._delete(key, rs, pod))

    def _crowd(self, rs: Document) -> Counter[str]:
        """How many pods of the same deployment, whatever their template, are on each node."""
        above = controller_of(rs)
        sets = self._owners.by_index("owner", above["uid"]) if above is not None else ()
        return Counter(
            pod["spec"].get("nodeName", "") for one in sets for pod in self._own(one) if owning.is_active(pod)
        )

"""ReplicaSets: as many pods as were asked for, no more, no fewer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from dray.api.claims import controller_of
from dray.api.errors import StatusError
from dray.api.kinds import Object
from dray.client.resources import REPLICASETS, ObjectKey, key_of
from dray.controllers.framework import for_each
from dray.controllers.workloads import owning
from dray.controllers.workloads.keeping import PodKeeper, Words

Document = Mapping[str, Any]
_BURST: Final = 500  # pods that are made or deleted before a set is looked at again
FAILURE: Final = "ReplicaFailure"


def status_of(rs: Document, pods: Sequence[Document], now: float, *, failure: Object | None = None) -> Object:
    """What a ReplicaSet says about its pods, and about its failure to make or delete them."""
    spec = rs["spec"]
    active = [p for p in pods if owning.is_active(p)]
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
    known = (rs.get("status") or {}).get("conditions") or ()
    conditions = [c for c in known if c["type"] != FAILURE]
    if failure is not None:
        # Told once: the first failure's words stay until it is over.
        conditions.append(next((c for c in known if c["type"] == FAILURE), failure))
    return {**status, "conditions": conditions} if conditions else status


class ReplicaSetController(PodKeeper[ObjectKey]):
    name = "replicaset-controller"
    resource = REPLICASETS
    words = Words(not_deleted="Error deleting: {problem}")

    def owner_kinds(self) -> tuple[str | None, ...]:
        return (self.resource.kind, None)

    def _pod_changed(self, pod: Document, old: Document | None = None) -> None:
        for one in (pod, old):
            owner = controller_of(one) if one is not None else None
            if owner is not None:
                if owner["kind"] == "ReplicaSet":
                    key = ObjectKey(pod["metadata"]["namespace"], owner["name"])
                    self._expected.there(key, pod)
                    self.enqueue(key)
                return
        for rs in self._owners.items():
            if rs["metadata"]["namespace"] == pod["metadata"]["namespace"] and owning.matches(
                rs["spec"]["selector"]
            )(pod):
                self.enqueue(key_of(rs))

    async def sync(self, key: ObjectKey) -> float | None:
        rs = self._owners.get(*key)
        if rs is None:
            return None
        own = self._own(rs)
        pods = await self._claim(rs, own)
        problem: StatusError | None = None
        missing = 0
        if "deletionTimestamp" not in rs["metadata"] and self._expected.met(key, own):
            active = [p for p in pods if owning.is_active(p)]
            missing = rs["spec"].get("replicas", 1) - len(active)
            try:
                await self._manage(key, rs, active, missing)
            except StatusError as failed:
                problem = failed
        failure = self._failure(missing, problem) if problem is not None else None
        status = status_of(rs, pods, self.kit.clock(), failure=failure)
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
            "message": str(problem),
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
            surplus = owning.cheapest_first(active)[: min(-missing, _BURST)]
            await for_each(surplus, lambda pod: self._delete(key, rs, pod))

"""ReplicaSets: as many pods as were asked for, no more, no fewer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal

from dray.api.claims import controller_of
from dray.api.errors import NotFound, StatusError
from dray.api.kinds import Object
from dray.client.resources import PODS, REPLICASETS, ObjectKey, key_of
from dray.controllers.framework import Controller, Kit, for_each
from dray.controllers.workloads import owning
from dray.controllers.workloads.expecting import Expectations

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


class ReplicaSetController(Controller[ObjectKey]):
    name = "replicaset-controller"

    def __init__(self, kit: Kit) -> None:
        super().__init__(kit)
        self._sets = kit.informers.get(REPLICASETS)
        self._pods = kit.informers.get(PODS, indexers={"owner": owning.by_owner})
        self._expected = Expectations(kit.clock)
        self._sets.add_handler(
            on_add=lambda n: self.enqueue(key_of(n)),
            on_update=lambda o, n: self.enqueue(key_of(n)),
            on_delete=lambda o: self._expected.forget(key_of(o)),
        )
        self._pods.add_handler(
            on_add=self._pod_changed, on_update=lambda o, n: self._pod_changed(n, o), on_delete=self._pod_gone
        )

    def _pod_changed(self, pod: Document, old: Document | None = None) -> None:
        for one in (pod, old):
            owner = controller_of(one) if one is not None else None
            if owner is not None:
                if owner["kind"] == "ReplicaSet":
                    key = ObjectKey(pod["metadata"]["namespace"], owner["name"])
                    self._expected.there(key, pod)
                    self.enqueue(key)
                return
        for rs in self._sets.items():
            if rs["metadata"]["namespace"] == pod["metadata"]["namespace"] and owning.matches(
                rs["spec"]["selector"]
            )(pod):
                self.enqueue(key_of(rs))

    def _pod_gone(self, pod: Document) -> None:
        owner = controller_of(pod)
        if owner is not None and owner["kind"] == "ReplicaSet":
            key = ObjectKey(pod["metadata"]["namespace"], owner["name"])
            self._expected.gone(key, pod["metadata"]["uid"])
            self.enqueue(key)

    async def sync(self, key: ObjectKey) -> float | None:
        rs = self._sets.get(*key)
        if rs is None:
            return None
        own = self._pods.by_index("owner", rs["metadata"]["uid"])
        known = [*own, *self._pods.by_index("owner", owning.strays(key.namespace))]
        test = owning.matches(rs["spec"]["selector"])
        pods = await owning.claim_pods(self.kit.client, REPLICASETS, rs, known, test)
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
        if not owning.same(status, rs.get("status") or {}):
            await self.kit.client.update_status(REPLICASETS, key.namespace, {**rs, "status": status})
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
            await owning.slow_start(min(missing, _BURST), lambda: self._make(key, rs))
        elif missing < 0:
            surplus = owning.cheapest_first(active)[: min(-missing, _BURST)]
            await for_each(surplus, lambda pod: self._delete(key, rs, pod))

    async def _make(self, key: ObjectKey, rs: Document) -> None:
        wanted = owning.pod_from(rs["spec"]["template"], REPLICASETS, rs)
        try:
            pod = await self.kit.client.create(PODS, key.namespace, wanted)
        except StatusError as problem:
            self._say(rs, "Warning", "FailedCreate", f"Error creating: {problem}")
            raise
        self._expected.made(key, pod["metadata"]["uid"])
        self._say(rs, "Normal", "SuccessfulCreate", f"Created pod: {pod['metadata']['name']}")

    async def _delete(self, key: ObjectKey, rs: Document, pod: Document) -> None:
        metadata = pod["metadata"]
        self._expected.deleted(key, metadata["uid"])
        try:
            await self.kit.client.delete(PODS, key.namespace, metadata["name"], uid=metadata["uid"])
        except NotFound:
            self._expected.gone(key, metadata["uid"])
            return
        except StatusError as problem:
            self._expected.gone(key, metadata["uid"])
            self._say(rs, "Warning", "FailedDelete", f"Error deleting: {problem}")
            raise
        self._say(rs, "Normal", "SuccessfulDelete", f"Deleted pod: {metadata['name']}")

    def _say(self, rs: Document, kind: Literal["Normal", "Warning"], reason: str, message: str) -> None:
        self.kit.recorder.event(REPLICASETS, dict(rs), kind, reason, message)

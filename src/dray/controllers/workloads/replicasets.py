"""ReplicaSets: as many pods as were asked for, no more, no fewer."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from dray.api.claims import controller_of
from dray.api.errors import NotFound, StatusError
from dray.api.kinds import Object
from dray.client.resources import PODS, REPLICASETS, ObjectKey, key_of
from dray.controllers.framework import Controller, Kit
from dray.controllers.workloads import owning

Document = Mapping[str, Any]
_BURST = 500


def status_of(rs: Document, pods: list[Document], now: float) -> Object:
    """What a ReplicaSet says about its pods."""
    spec = rs["spec"]
    active = [p for p in pods if owning.is_active(p)]
    wanted = ((spec.get("template") or {}).get("metadata") or {}).get("labels") or {}
    ready = [p for p in active if owning.is_ready(p)]
    available = [p for p in ready if owning.is_available(p, spec.get("minReadySeconds") or 0, now)]
    full = [
        p for p in active if all((p["metadata"].get("labels") or {}).get(k) == v for k, v in wanted.items())
    ]
    status: Object = {"replicas": len(active), "observedGeneration": rs["metadata"].get("generation", 0)}
    for name, count in (
        ("fullyLabeledReplicas", len(full)),
        ("readyReplicas", len(ready)),
        ("availableReplicas", len(available)),
    ):
        if count:
            status[name] = count
    return status


class ReplicaSetController(Controller[ObjectKey]):
    name = "replicaset-controller"

    def __init__(self, kit: Kit) -> None:
        super().__init__(kit)
        self._sets = kit.informers.get(REPLICASETS)
        self._pods = kit.informers.get(PODS, indexers={"owner": owning.by_owner})
        self._expected = owning.Expectations(kit.clock)
        self._sets.add_handler(
            on_add=lambda n: self.enqueue(key_of(n)),
            on_update=lambda o, n: self.enqueue(key_of(n)),
            on_delete=lambda o: self._gone(key_of(o)),
        )
        self._pods.add_handler(
            on_add=self._pod_changed,
            on_update=lambda o, n: self._pod_changed(n, o),
            on_delete=self._pod_changed,
        )

    def _gone(self, key: ObjectKey) -> None:
        self._expected.forget(key)

    def _pod_changed(self, pod: Document, old: Document | None = None) -> None:
        for one in (pod, old):
            owner = controller_of(one) if one is not None else None
            if owner is not None:
                if owner["kind"] == "ReplicaSet":
                    self.enqueue(ObjectKey(pod["metadata"]["namespace"], owner["name"]))
                return
        for rs in self._sets.items():
            if rs["metadata"]["namespace"] == pod["metadata"]["namespace"] and owning.matches(
                rs["spec"]["selector"]
            )(pod):
                self.enqueue(key_of(rs))

    async def sync(self, key: ObjectKey) -> float | None:
        rs = self._sets.get(*key)
        if rs is None:
            return None
        uid = rs["metadata"]["uid"]
        known = [*self._pods.by_index("owner", uid), *self._pods.by_index("owner", f"stray:{key.namespace}")]
        pods = await owning.claim_pods(
            self.kit.client, REPLICASETS, rs, known, owning.matches(rs["spec"]["selector"])
        )
        if "deletionTimestamp" not in rs["metadata"] and self._expected.met(
            key, self._pods.by_index("owner", uid)
        ):
            await self._manage(key, rs, [p for p in pods if owning.is_active(p)])
        status = status_of(rs, pods, self.kit.clock())
        current = rs.get("status") or {}
        if conditions := current.get("conditions"):
            status["conditions"] = conditions
        if not owning.same(status, {k: v for k, v in current.items() if k != "terminatingReplicas"}):
            await self.kit.client.update_status(REPLICASETS, key.namespace, {**rs, "status": status})
        waiting = rs["spec"].get("minReadySeconds")
        if waiting and status.get("readyReplicas", 0) > status.get("availableReplicas", 0):
            return float(waiting)
        return None

    async def _manage(self, key: ObjectKey, rs: Document, active: list[Document]) -> None:
        missing = rs["spec"].get("replicas", 1) - len(active)
        if missing > 0:
            await asyncio.gather(*(self._make(key, rs) for _ in range(min(missing, _BURST))))
        elif missing < 0:
            await asyncio.gather(
                *(self._delete(key, rs, p) for p in owning.cheapest_first(active)[:-missing])
            )

    async def _make(self, key: ObjectKey, rs: Document) -> None:
        try:
            pod = await self.kit.client.create(
                PODS, key.namespace, owning.pod_from(rs["spec"]["template"], REPLICASETS, rs)
            )
        except StatusError as problem:
            self.kit.recorder.event(
                REPLICASETS, dict(rs), "Warning", "FailedCreate", f"Error creating: {problem}"
            )
            raise
        self._expected.made(key, pod["metadata"]["uid"])
        self.kit.recorder.event(
            REPLICASETS, dict(rs), "Normal", "SuccessfulCreate", f"Created pod: {pod['metadata']['name']}"
        )

    async def _delete(self, key: ObjectKey, rs: Document, pod: Document) -> None:
        metadata = pod["metadata"]
        self._expected.deleted(key, metadata["uid"])
        try:
            await self.kit.client.delete(PODS, key.namespace, metadata["name"], uid=metadata["uid"])
        except NotFound:
            self._expected.seen(key, metadata["uid"])
            return
        except StatusError as problem:
            self._expected.seen(key, metadata["uid"])
            self.kit.recorder.event(
                REPLICASETS, dict(rs), "Warning", "FailedDelete", f"Error deleting: {problem}"
            )
            raise
        self.kit.recorder.event(
            REPLICASETS, dict(rs), "Normal", "SuccessfulDelete", f"Deleted pod: {metadata['name']}"
        )

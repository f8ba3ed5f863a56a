"""DaemonSets: one pod on every node that can have it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dray.client.resources import CONTROLLER_REVISIONS, DAEMONSETS, NODES, ObjectKey, key_of
from dray.controllers.framework import CONFLICT_SECONDS, Kit, for_each
from dray.controllers.workloads import owning, placing, revisions
from dray.controllers.workloads.keeping import PodKeeper

Document = Mapping[str, Any]


class DaemonSetController(PodKeeper[ObjectKey]):
    name = "daemonset-controller"
    resource = DAEMONSETS

    def __init__(self, kit: Kit) -> None:
        super().__init__(kit)
        self._nodes = kit.informers.get(NODES)
        self._revisions = kit.informers.get(CONTROLLER_REVISIONS, indexers={"owner": owning.by_owner})
        self._nodes.add_handler(on_add=self._all, on_update=self._node_changed, on_delete=self._all)

    def _node_changed(self, old: Document, new: Document) -> None:
        same_labels = old["metadata"].get("labels") == new["metadata"].get("labels")
        if not same_labels or old.get("spec") != new.get("spec"):
            self._all(new)

    def _all(self, node: Document) -> None:
        for daemons in self._owners.items():
            self.enqueue(key_of(daemons))

    async def sync(self, key: ObjectKey) -> float | None:
        daemons = self._owners.get(*key)
        if daemons is None or "deletionTimestamp" in daemons["metadata"]:
            return None
        own = self._own(daemons)
        pods = await self._claim(daemons, own)
        kept = self._revisions.by_index("owner", daemons["metadata"]["uid"])
        try:
            current = await revisions.record(self.kit.client, DAEMONSETS, key, daemons, kept)
        except revisions.Collision:
            return await self._collided(key, daemons)
        digest = current["metadata"]["labels"][revisions.HASH_LABEL]
        now = self.kit.clock()
        situation = placing.Situation.of(daemons, digest, self._nodes.items(), pods, now=now)
        if self._expected.met(key, own):
            await self._manage(key, daemons, placing.plan(situation), digest)
            await self._forget_revisions(daemons, kept, pods, current)
        status = placing.status_of(situation)
        await self._write(key, daemons, status)
        waiting = daemons["spec"].get("minReadySeconds")
        return (
            float(waiting) if waiting and status["numberReady"] > status.get("numberAvailable", 0) else None
        )

    async def _collided(self, key: ObjectKey, daemons: Document) -> float:
        known = daemons.get("status") or {}
        zero = {
            "currentNumberScheduled": 0, "numberMisscheduled": 0, "desiredNumberScheduled": 0, "numberReady": 0,
        }  # fmt: skip
        status = {**zero, **known, "collisionCount": (known.get("collisionCount") or 0) + 1}
        await self.kit.client.update_status(DAEMONSETS, key.namespace, {**daemons, "status": status})
        return CONFLICT_SECONDS

    async def _forget_revisions(
        self, daemons: Document, kept: list[Any], pods: list[Document], current: Document
    ) -> None:
        used = {(p["metadata"].get("labels") or {}).get(revisions.HASH_LABEL) for p in pods}
        in_use = {
            r["metadata"]["name"] for r in kept if r["metadata"]["labels"].get(revisions.HASH_LABEL) in used
        }
        limit = daemons["spec"].get("revisionHistoryLimit", 10)
        names = {*in_use, current["metadata"]["name"]}
        await revisions.discard(self.kit.client, revisions.expendable(kept, in_use=names, limit=limit))

    async def _manage(self, key: ObjectKey, daemons: Document, plan: placing.Plan, digest: str) -> None:
        for pod in plan.failed:
            name = pod["metadata"]["name"]
            message = f"Found failed daemon pod {key.namespace}/{name} on node {placing.node_of(pod)}, will try to kill it"
            self._say(daemons, "Warning", "FailedDaemonPod", message)
        await for_each(
            plan.start, lambda node: self._make(key, daemons, placing.pod_for(daemons, node, digest))
        )
        await for_each(plan.stop, lambda pod: self._delete(key, daemons, pod))

"""The DaemonSet controller: it keeps one pod on every node that should run it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from dray.api.errors import StatusError
from dray.api.pods import phase
from dray.client.resources import CONTROLLER_REVISIONS, DAEMONSETS, NODES, ObjectKey, key_of
from dray.controllers.controller import CONFLICT_SECONDS, ControllerContext, for_each
from dray.controllers.workloads import controller_ref, history, owned_pods
from dray.controllers.workloads.daemon import pod_plan, pods
from dray.controllers.workloads.pod_control import PodOwnerController

if TYPE_CHECKING:
    from dray.api.types.apps import ControllerRevision, DaemonSet, DaemonSetStatus
    from dray.api.types.core import Node, Pod


_BURST: Final = 250  # pods that are made or deleted before a set is looked at again
_FIRST_PAUSE: Final = 1.0
_LONGEST_PAUSE: Final = 900.0


class DaemonSetController(PodOwnerController["DaemonSet", ObjectKey]):
    name = "daemonset-controller"
    resource = DAEMONSETS

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._nodes = context.informers.get(NODES)
        self._digest_of = history.hash_of_template(context.quirks.pod_template_schema)
        #: When a pod last failed, and for how long the next has to wait, by set, its generation, and node.
        self._failures: dict[tuple[str, int, str], tuple[float, float]] = {}
        self._revisions = context.informers.get(
            CONTROLLER_REVISIONS, indexers={"owner": controller_ref.by_owner}
        )
        self._nodes.add_handler(on_add=self._all, on_update=self._node_changed, on_delete=self._all)

    def _node_changed(self, old: Node, new: Node) -> None:
        same_labels = old["metadata"].get("labels") == new["metadata"].get("labels")
        if not same_labels or old.get("spec") != new.get("spec"):
            self._all(new)

    def _all(self, node: Node) -> None:
        for daemons in self._owners.items():
            self.enqueue(key_of(daemons))

    async def sync(self, key: ObjectKey) -> float | None:
        daemons = self._owners.get(*key)
        if daemons is None or "deletionTimestamp" in daemons["metadata"]:
            return None
        own = self._owned_pods(daemons)
        pods = await self._claim(daemons, own)
        kept = await history.claim_revisions(self.context.client, DAEMONSETS, daemons, self._revisions)
        try:
            current = await history.ensure_revision(
                self.context.client, DAEMONSETS, key, daemons, kept, digest_of=self._digest_of
            )
        except history.Collision:
            return await self._collided(key, daemons)
        digest = current["metadata"]["labels"][history.REVISION_HASH_LABEL]
        now = self.context.clock()
        state = pod_plan.DaemonSetState.of(daemons, digest, self._nodes.items(), pods, now=now)
        problem: StatusError | None = None
        wait: float | None = None
        is_observed = self._expected.satisfied(key, own)
        if is_observed:
            held, wait = self._in_backoff(state)
            try:
                await self._manage(key, daemons, pod_plan.plan(state, held=held), digest)
                await self._forget_revisions(daemons, kept, pods, current)
            except StatusError as failed:
                problem = failed
        status = pod_plan.status_of(state, is_observed=is_observed)
        await self._update_status(key, daemons, status)
        if problem is not None:
            raise problem
        waiting = daemons["spec"].get("minReadySeconds")
        if waiting and status["numberReady"] > status.get("numberAvailable", 0):
            return min(float(waiting), wait) if wait is not None else float(waiting)
        return wait

    def _in_backoff(self, state: pod_plan.DaemonSetState) -> tuple[set[str], float | None]:
        """Nodes on which pods fail again and again are given ever more time; and when the first has had enough."""
        daemons, now = state.daemons, state.now
        version = daemons["metadata"]["uid"], (daemons.get("status") or {}).get("observedGeneration", 0)
        held: dict[str, float] = {}
        self._failures = {k: v for k, v in self._failures.items() if now - v[0] <= 2 * _LONGEST_PAUSE}
        for node in pod_plan.failed_pods_by_node(state):
            since, pause = self._failures.get((*version, node), (now, 0.0))
            if now - since < pause:
                held[node] = pause
            else:
                self._failures[*version, node] = now, min(2 * pause, _LONGEST_PAUSE) or _FIRST_PAUSE
        return set(held), min(held.values(), default=None)

    async def _collided(self, key: ObjectKey, daemons: DaemonSet) -> float:
        known = daemons.get("status") or {}
        zero: DaemonSetStatus = {
            "currentNumberScheduled": 0, "numberMisscheduled": 0, "desiredNumberScheduled": 0, "numberReady": 0,
        }  # fmt: skip
        status: DaemonSetStatus = {
            **zero,
            **known,
            "collisionCount": (known.get("collisionCount") or 0) + 1,
        }
        await self.context.client.update_status(DAEMONSETS, key.namespace, {**daemons, "status": status})
        return CONFLICT_SECONDS

    async def _forget_revisions(
        self, daemons: DaemonSet, kept: list[ControllerRevision], pods: list[Pod], current: ControllerRevision
    ) -> None:
        """Old revisions beyond the limit go, the oldest first, unless pods are made of them."""
        used = {(p["metadata"].get("labels") or {}).get(history.REVISION_HASH_LABEL) for p in pods}
        old = [r for r in kept if r["metadata"]["name"] != current["metadata"]["name"]]
        idle = [r for r in old if r["metadata"]["labels"].get(history.REVISION_HASH_LABEL) not in used]
        surplus = max(0, len(old) - daemons["spec"].get("revisionHistoryLimit", 10))
        await history.delete_revisions(self.context.client, sorted(idle, key=history.number)[:surplus])

    async def _manage(self, key: ObjectKey, daemons: DaemonSet, plan: pod_plan.Plan, digest: str) -> None:
        for pod in plan.ended:
            where = f"daemon pod {key.namespace}/{pod['metadata']['name']} on node {pods.node_of(pod)}"
            if phase(pod) == "Failed":
                self._record_event(
                    daemons, "Warning", "FailedDaemonPod", f"Found failed {where}, will try to kill it"
                )
            else:
                message = f"Found succeeded {where}, will try to delete it"
                self._record_event(daemons, "Normal", "SucceededDaemonPod", message)
        nodes = iter(plan.start[:_BURST])
        problem: StatusError | None = None
        try:
            await owned_pods.slow_start_batch(
                min(len(plan.start), _BURST),
                lambda: self._create_pod(key, daemons, pods.pod_for(daemons, next(nodes), digest)),
            )
        except StatusError as failed:
            problem = failed
        await for_each(plan.stop[:_BURST], lambda pod: self._delete_pod(key, daemons, pod))
        if problem is not None:
            raise problem

"""The StatefulSet controller: it keeps pods with stable names, and creates, updates and deletes them in order."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dray.api.errors import Conflict, StatusError
from dray.client.resources import CONTROLLER_REVISIONS, PODS, STATEFULSETS, ObjectKey
from dray.controllers.controller import CONFLICT_SECONDS, ControllerContext, for_each
from dray.controllers.workloads import controller_ref, history, owned_pods
from dray.controllers.workloads.pod_control import EventMessages, PodOwnerController
from dray.controllers.workloads.statefulset import volume_claims
from dray.controllers.workloads.statefulset.plan import (
    NAME_LABEL,
    StatefulSetState,
    identity_labels,
    max_unavailable_replicas,
    ordinal,
    plan,
    pod_for,
    revision_of,
    status_of,
)

if TYPE_CHECKING:
    from dray.api.types.apps import ControllerRevision, StatefulSet, StatefulSetStatus
    from dray.api.types.core import Pod


# -- the controller -------------------------------------------------------------------------------------------------


class StatefulSetController(PodOwnerController["StatefulSet", ObjectKey]):
    name = "statefulset-controller"
    resource = STATEFULSETS

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._revisions = context.informers.get(
            CONTROLLER_REVISIONS, indexers={"owner": controller_ref.by_owner}
        )
        self._volumes = volume_claims.VolumeClaims(context, self._record_event, self._verb)
        create, delete = self._verb("create"), self._verb("delete")
        self.messages = EventMessages(
            created=f"{create} Pod {{pod}} in StatefulSet {{owner}} successful",
            not_created=f"{create} Pod {{pod}} in StatefulSet {{owner}} failed error: {{problem}}",
            deleted=f"{delete} Pod {{pod}} in StatefulSet {{owner}} successful",
            not_deleted=f"{delete} Pod {{pod}} in StatefulSet {{owner}} failed error: {{problem}}",
        )

    def _verb(self, word: str) -> str:
        return word.capitalize() if self.context.quirks.capitalizes_statefulset_events else word

    async def sync(self, key: ObjectKey) -> float | None:
        stateful = self._owners.get(*key)
        if stateful is None:
            return None
        own = self._owned_pods(stateful)
        labelled = controller_ref.matches(stateful["spec"]["selector"])
        pods = await self._claim(
            stateful, own, lambda pod: labelled(pod) and ordinal(stateful, pod) is not None
        )
        by_number = {number: pod for pod in pods if (number := ordinal(stateful, pod)) is not None}
        known = stateful.get("status") or {}
        if "deletionTimestamp" in stateful["metadata"]:
            # Only the status is still written: the garbage collector deletes the pods.
            current, update = known.get("currentRevision", ""), known.get("updateRevision", "")
            await self._update_status(
                key,
                stateful,
                status_of(StatefulSetState(stateful, by_number, current, update, self.context.clock())),
            )
            return None
        kept = await history.claim_revisions(self.context.client, STATEFULSETS, stateful, self._revisions)
        try:
            latest = await history.ensure_revision(
                self.context.client,
                STATEFULSETS,
                key,
                stateful,
                kept,
                digest_of=history.hash_of_data,
                label=history.STATEFUL_HASH_LABEL,
            )
        except history.Collision:
            return await self._collided(key, stateful)
        update = latest["metadata"]["name"]
        current = known.get("currentRevision") or ""
        if not any(r["metadata"]["name"] == current for r in kept):
            current = update
        state = StatefulSetState(stateful, by_number, current, update, self.context.clock())
        problem: StatusError | None = None
        if self._expected.satisfied(key, own):
            try:
                await self._manage(key, state, kept)
            except StatusError as failed:
                problem = failed
        status = status_of(state)
        await self._update_status(key, stateful, status)
        await self._forget_revisions(stateful, kept, pods, status)
        if problem is not None:
            raise problem
        waiting = stateful["spec"].get("minReadySeconds")
        return (
            float(waiting)
            if waiting and status.get("readyReplicas", 0) > status["availableReplicas"]
            else None
        )

    async def _collided(self, key: ObjectKey, stateful: StatefulSet) -> float:
        known = stateful.get("status") or {}
        collisions = (known.get("collisionCount") or 0) + 1
        status: StatefulSetStatus = {"replicas": 0, **known, "collisionCount": collisions}
        await self.context.client.update_status(STATEFULSETS, key.namespace, {**stateful, "status": status})
        return CONFLICT_SECONDS

    async def _forget_revisions(
        self,
        stateful: StatefulSet,
        kept: list[ControllerRevision],
        pods: list[Pod],
        status: StatefulSetStatus,
    ) -> None:
        in_use = {*(revision_of(p) for p in pods), status["currentRevision"], status["updateRevision"]}
        limit = stateful["spec"].get("revisionHistoryLimit", 10)
        await history.delete_revisions(
            self.context.client, history.truncation_candidates(kept, in_use=in_use, limit=limit)
        )

    async def _manage(self, key: ObjectKey, state: StatefulSetState, kept: list[ControllerRevision]) -> None:
        stateful = state.stateful
        max_unavailable = (
            max_unavailable_replicas(stateful) if self.context.quirks.honours_max_unavailable else None
        )
        step = plan(state, max_unavailable=max_unavailable)
        claims = bool(volume_claims.templates(stateful))
        for index in step.settled:
            await self._update_identity(key, stateful, index, state.pods[index])
        if claims:
            for index in step.pending:
                pod = state.pods[index]
                await self._volumes.create_missing(key, stateful, index, pod["metadata"]["name"])
                await self._volumes.apply_retention_policy(key, stateful, index, pod, stays=True)
        numbers = iter(step.make)
        await owned_pods.slow_start_batch(
            len(step.make), lambda: self._start(key, state, next(numbers), kept)
        )
        if claims:
            for index in step.surplus:
                await self._volumes.apply_retention_policy(
                    key, stateful, index, state.pods[index], stays=False
                )
        await for_each(step.delete, lambda pod: self._delete_pod(key, stateful, pod))

    async def _start(
        self, key: ObjectKey, state: StatefulSetState, index: int, kept: list[ControllerRevision]
    ) -> None:
        stateful = state.stateful
        revision = state.current if index < state.partition else state.update
        template = stateful["spec"]["template"]
        for known in kept:
            if known["metadata"]["name"] == revision:
                template = history.template_of(known)
        pod = pod_for(stateful, index, revision, template)
        if not volume_claims.templates(stateful):
            await self._create_pod(key, stateful, pod)
            return
        if self._volumes.are_stale(key, stateful, index, pod):
            return
        name = pod["metadata"]["name"]
        try:
            await self._volumes.create_missing(key, stateful, index, name)
        except StatusError as problem:
            message = self.messages.not_created.format(pod=name, owner=key.name, problem=problem)
            self._record_event(stateful, "Warning", "FailedCreate", message)
            raise
        await self._create_pod(key, stateful, pod)
        await self._volumes.apply_retention_policy(key, stateful, index, pod, stays=True)

    async def _update_identity(self, key: ObjectKey, stateful: StatefulSet, index: int, pod: Pod) -> None:
        """A pod that was adopted lacks what others were made with."""
        metadata = pod["metadata"]
        name, labels = metadata["name"], metadata.get("labels") or {}
        is_member = labels.get(NAME_LABEL) == name
        has_volumes = volume_claims.storage_matches(stateful, pod, index)
        if (
            is_member
            and has_volumes
            and self._volumes.match_retention_policy(key, stateful, index, pod, stays=True)
        ):
            return
        changed: Pod = {**pod, "metadata": {**metadata, "labels": {**labels, **identity_labels(name, index)}}}
        if not has_volumes:
            mounted = volume_claims.volumes_for(stateful, index, pod["spec"].get("volumes") or [])
            changed["spec"] = {**pod["spec"], "volumes": mounted}
        what = f"{self._verb('update')} Pod {name} in StatefulSet {key.name}"
        try:
            if not has_volumes:
                await self._volumes.create_missing(key, stateful, index, name)
            await self._volumes.apply_retention_policy(key, stateful, index, pod, stays=True)
            await self.context.client.update(PODS, key.namespace, changed)
        except Conflict:
            raise
        except StatusError as problem:
            self._record_event(stateful, "Warning", "FailedUpdate", f"{what} failed error: {problem}")
            raise
        self._record_event(stateful, "Normal", "SuccessfulUpdate", f"{what} successful")

"""The Deployment controller: it has a ReplicaSet for each template, and rolls from the old ones to the new one."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from dray.api.errors import AlreadyExists, Forbidden, NotFound, StatusError
from dray.api.objects import controller_of
from dray.api.pods import is_terminal
from dray.client.resources import DEPLOYMENTS, PODS, REPLICASETS, ObjectKey, key_of
from dray.controllers.controller import (
    CONFLICT_SECONDS,
    Controller,
    ControllerContext,
    is_namespace_terminating,
)
from dray.controllers.workloads import controller_ref, owned_pods, pod_template_hash
from dray.controllers.workloads.deployment import progress, rollout

if TYPE_CHECKING:
    from dray.api.types.apps import Deployment, DeploymentStatus, ReplicaSet
    from dray.api.types.core import Pod
    from dray.api.types.meta import ObjectMeta


_LONGEST_NAME: Final = 253
#: Annotations of a deployment that its sets do not get.
_SKIPPED_ANNOTATIONS: Final = frozenset(
    {
        "kubectl.kubernetes.io/last-applied-configuration",
        "deprecated.deployment.rollback.to",
        rollout.REVISION,
        rollout.REVISION_HISTORY,
        rollout.DESIRED_REPLICAS,
        rollout.MAX_REPLICAS,
    }
)


class DeploymentController(Controller[ObjectKey]):
    name = "deployment-controller"

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._deployments = context.informers.get(DEPLOYMENTS)
        self._replica_sets = context.informers.get(REPLICASETS, indexers={"owner": controller_ref.by_owner})
        self._pods = context.informers.get(PODS, indexers={"owner": controller_ref.by_owner})
        self._counts_terminating = context.quirks.counts_terminating_replicas
        self._deployments.add_handler(
            on_add=lambda n: self.enqueue(key_of(n)), on_update=lambda o, n: self.enqueue(key_of(n))
        )
        context.informers.owner_events(REPLICASETS).add_handler(
            "Deployment",
            on_change=lambda new, old: self._replica_set_changed(new),
            on_delete=self._replica_set_changed,
            on_orphan=self._replica_set_orphaned,
        )
        self._pods.add_handler(on_delete=self._pod_deleted)

    def _replica_set_changed(self, rs: ReplicaSet) -> None:
        owner = controller_of(rs)
        if owner is not None and owner["kind"] == "Deployment":
            self.enqueue(ObjectKey(rs["metadata"]["namespace"], owner["name"]))

    def _replica_set_orphaned(self, rs: ReplicaSet) -> None:
        for deployment in self._deployments.items():
            if deployment["metadata"]["namespace"] == rs["metadata"]["namespace"] and controller_ref.matches(
                deployment["spec"]["selector"]
            )(rs):
                self.enqueue(key_of(deployment))

    def _pod_deleted(self, pod: Pod) -> None:
        """One that recreates its pods waits until the old ones are gone."""
        owner = controller_of(pod)
        if owner is not None and owner["kind"] == "ReplicaSet":
            rs = self._replica_sets.get(pod["metadata"]["namespace"], owner["name"])
            if rs is not None:
                self._replica_set_changed(rs)

    async def sync(self, key: ObjectKey) -> float | None:
        deployment = self._deployments.get(*key)
        if deployment is None:
            return None
        sets = await self._claim(key, deployment)
        new = rollout.new_replica_set(deployment, sets)
        created = False
        leaving, paused = "deletionTimestamp" in deployment["metadata"], deployment["spec"].get("paused")
        rolls = not leaving and not paused and not rollout.is_scaling_event(deployment, sets)
        if rolls and new is None and not self._waits_for_old_pods(deployment, sets):
            try:
                new = await self._create_replica_set(key, deployment, sets)
            except Forbidden as problem:
                if is_namespace_terminating(problem):
                    return None  # nothing can be made there any more
                raise
            if new is None:
                return CONFLICT_SECONDS  # with another name, once the collision is on record
            created, sets = True, [*sets, new]
        marked = await self._set_revision(key, deployment, new, sets) if new is not None else deployment
        if rolls:
            await self._roll(key, marked, new, sets)
        elif not leaving:
            # It does not roll, but has the size it was given.
            sizes, force = rollout.scaled_sizes(marked, new, sets), rollout.is_proportional(marked, new, sets)
            await self._scale(key, marked, sets, sizes, force=force)
            if paused:
                await self._clean_up(key, marked, new, sets)
        now = self.context.clock()
        status = progress.status_of(
            marked, new, sets, now=now, created=created, rolls=rolls, terminating=self._counts_terminating
        )
        if marked is not deployment or not owned_pods.semantic_equal(status, marked.get("status") or {}):
            # The revision is written with the status, which takes annotations too.
            await self.context.client.update_status(DEPLOYMENTS, key.namespace, {**marked, "status": status})
        return progress.seconds_until_timed_out(marked, status, now)

    async def _claim(self, key: ObjectKey, deployment: Deployment) -> list[ReplicaSet]:
        known = [
            *self._replica_sets.by_index("owner", deployment["metadata"]["uid"]),
            *self._replica_sets.by_index("owner", controller_ref.orphans_of(key.namespace)),
        ]
        test = controller_ref.matches(deployment["spec"]["selector"])
        return await controller_ref.claim_objects(
            self.context.client, DEPLOYMENTS, deployment, REPLICASETS, known, test
        )

    # -- sets

    async def _create_replica_set(
        self, key: ObjectKey, deployment: Deployment, sets: list[ReplicaSet]
    ) -> ReplicaSet | None:
        spec, metadata = deployment["spec"], deployment["metadata"]
        collisions = (deployment.get("status") or {}).get("collisionCount")
        template, selector = spec["template"], spec["selector"]
        digest = pod_template_hash.compute_hash(template, collisions, self.context.quirks.pod_template_schema)
        labels = {
            **((template.get("metadata") or {}).get("labels") or {}),
            rollout.POD_TEMPLATE_HASH_LABEL: digest,
        }
        number = rollout.next_revision(None, sets)
        made: ReplicaSet = {
            "metadata": {
                "name": f"{metadata['name'][: _LONGEST_NAME - 1 - len(digest)]}-{digest}",
                "labels": labels,
                "annotations": {
                    **self._inherited(deployment),
                    **rollout.replicas_annotations(deployment),
                    rollout.REVISION: str(number),
                },
                "ownerReferences": [controller_ref.owner_reference(DEPLOYMENTS, deployment)],
            },
            "spec": {
                "replicas": 0,
                "minReadySeconds": spec.get("minReadySeconds", 0),
                "selector": {
                    **selector,
                    "matchLabels": {
                        **(selector.get("matchLabels") or {}),
                        rollout.POD_TEMPLATE_HASH_LABEL: digest,
                    },
                },
                "template": {**template, "metadata": {**(template.get("metadata") or {}), "labels": labels}},
            },
        }
        name = made["metadata"]["name"]
        blank: ReplicaSet = {"metadata": {"name": name, "uid": ""}, "spec": {"replicas": 0}}
        first = rollout.rolling_sizes(deployment, blank, sets).get(name, 0)
        made["spec"]["replicas"] = first
        try:
            created = await self.context.client.create(REPLICASETS, key.namespace, made)
        except AlreadyExists:
            return await self._collided(key, deployment, name, collisions)
        except StatusError as problem:
            if not (isinstance(problem, Forbidden) and is_namespace_terminating(problem)):
                await self._write_failure(
                    key, deployment, f'Failed to create new replica set "{name}": {problem}'
                )
            raise
        if first:
            self._record_scaled_event(deployment, name, 0, first, created=True)
        return created

    async def _write_failure(self, key: ObjectKey, deployment: Deployment, message: str) -> None:
        status = progress.with_failure(deployment, message, now=self.context.clock())
        if not owned_pods.semantic_equal(status, deployment.get("status") or {}):
            with contextlib.suppress(StatusError):  # the failure to create is the bigger problem
                await self.context.client.update_status(
                    DEPLOYMENTS,
                    key.namespace,
                    {**deployment, "status": status},
                )
        self.context.recorder.event(DEPLOYMENTS, deployment, "Warning", progress.CREATE_ERROR, message)

    async def _collided(
        self, key: ObjectKey, deployment: Deployment, name: str, collisions: int | None
    ) -> ReplicaSet | None:
        """A set of that name is there: ours, seen too late, or one with another template."""
        other = await self.context.client.get(REPLICASETS, key.namespace, name)
        owner = controller_of(other)
        ours = owner is not None and owner["uid"] == deployment["metadata"]["uid"]
        if ours and rollout.new_replica_set(deployment, [other]) is not None:
            return other
        status: DeploymentStatus = {
            **(deployment.get("status") or {}),
            "collisionCount": (collisions or 0) + 1,
        }
        await self.context.client.update_status(DEPLOYMENTS, key.namespace, {**deployment, "status": status})
        return None

    def _inherited(self, deployment: Deployment) -> dict[str, str]:
        own = deployment["metadata"].get("annotations") or {}
        return {k: v for k, v in own.items() if k not in _SKIPPED_ANNOTATIONS}

    async def _set_revision(
        self, key: ObjectKey, deployment: Deployment, new: ReplicaSet, sets: list[ReplicaSet]
    ) -> Deployment:
        """Write the revision on the current set; the deployment gets it where it does not have it yet."""
        number = rollout.next_revision(new, sets)
        wanted = {**self._inherited(deployment), **rollout.revision_annotations(new, number)}
        present = new["metadata"].get("annotations") or {}
        changed = {name: value for name, value in wanted.items() if present.get(name) != value}
        ready = deployment["spec"].get("minReadySeconds", 0)
        patch: ReplicaSet = {"metadata": {"annotations": changed}} if changed else {}
        if new["spec"].get("minReadySeconds", 0) != ready:
            patch["spec"] = {"minReadySeconds": ready}
        if patch:
            sets[sets.index(new)] = await self.context.client.patch(
                REPLICASETS, key.namespace, new["metadata"]["name"], patch
            )
        metadata = deployment["metadata"]
        annotations = metadata.get("annotations") or {}
        if annotations.get(rollout.REVISION) == str(number):
            return deployment
        noted: ObjectMeta = {**metadata, "annotations": {**annotations, rollout.REVISION: str(number)}}
        return {**deployment, "metadata": noted}

    # -- sizes

    def _waits_for_old_pods(self, deployment: Deployment, sets: list[ReplicaSet]) -> bool:
        """One that recreates its pods makes no new set before the last old pod is gone."""
        return rollout.is_recreating(deployment) and (
            any(rollout.replicas_of(rs) or rollout.count(rs, "replicas") for rs in sets)
            or self._pods_left(sets)
        )

    async def _roll(
        self, key: ObjectKey, deployment: Deployment, new: ReplicaSet | None, sets: list[ReplicaSet]
    ) -> None:
        old = _old_replica_sets(new, sets)
        if new is None:
            sizes = {rs["metadata"]["name"]: 0 for rs in old if rollout.replicas_of(rs)}
        else:
            current = next(rs for rs in sets if rs not in old)
            waits = self._waits_for_old_pods(deployment, old)
            sizes = rollout.rolling_sizes(deployment, current, old, old_pods_left=waits)
        await self._scale(key, deployment, sets, sizes)
        if not sizes and progress.is_complete(deployment, deployment.get("status") or {}):
            await self._clean_up(key, deployment, new, sets)

    async def _clean_up(
        self, key: ObjectKey, deployment: Deployment, new: ReplicaSet | None, sets: list[ReplicaSet]
    ) -> None:
        for rs in rollout.cleanup_candidates(deployment, _old_replica_sets(new, sets)):
            metadata = rs["metadata"]
            with contextlib.suppress(NotFound):
                await self.context.client.delete(
                    REPLICASETS, key.namespace, metadata["name"], uid=metadata["uid"]
                )

    def _pods_left(self, sets: list[ReplicaSet]) -> bool:
        """Whether pods of these sets still run, or are on their way out."""
        pods = (p for rs in sets for p in self._pods.by_index("owner", rs["metadata"]["uid"]))
        return any(not is_terminal(pod) for pod in pods)

    async def _scale(
        self,
        key: ObjectKey,
        deployment: Deployment,
        sets: list[ReplicaSet],
        sizes: Mapping[str, int],
        *,
        force: bool = False,
    ) -> None:
        """Give sets their sizes; with ``force`` they note the deployment's own even if theirs stays."""
        noted = rollout.replicas_annotations(deployment)
        for rs in sets:
            name, before = rs["metadata"]["name"], rollout.replicas_of(rs)
            if name not in sizes:
                continue
            annotations = rs["metadata"].get("annotations") or {}
            if sizes[name] == before and (not force or noted.items() <= annotations.items()):
                continue
            version = rs["metadata"]["resourceVersion"]
            patch: ReplicaSet = {
                "metadata": {"resourceVersion": version, "annotations": noted},
                "spec": {"replicas": sizes[name]},
            }
            await self.context.client.patch(REPLICASETS, key.namespace, name, patch)
            if sizes[name] != before:
                self._record_scaled_event(deployment, name, before, sizes[name])

    def _record_scaled_event(
        self, deployment: Deployment, name: str, before: int, after: int, *, created: bool = False
    ) -> None:
        what = f"Scaled {'up' if after > before else 'down'} replica set {name}"
        if self.context.quirks.scaling_events_name_old_size_first:
            message = f"{what} from {before} to {after}"
        else:
            message = f"{what} to {after}" + (f" from {before}" if not created else "")
        self.context.recorder.event(DEPLOYMENTS, deployment, "Normal", "ScalingReplicaSet", message)


def _old_replica_sets(new: ReplicaSet | None, sets: list[ReplicaSet]) -> list[ReplicaSet]:
    return [rs for rs in sets if new is None or rs["metadata"]["uid"] != new["metadata"]["uid"]]

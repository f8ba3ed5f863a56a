"""Deployments: a ReplicaSet for each template, and a steady walk from the old ones to the new one."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from typing import Any, Final

from dray.api.claims import controller_of
from dray.api.errors import AlreadyExists, NotFound
from dray.api.kinds import Object
from dray.client.resources import DEPLOYMENTS, PODS, REPLICASETS, ObjectKey, key_of
from dray.controllers.framework import CONFLICT_SECONDS, Controller, Kit
from dray.controllers.workloads import owning, rollout

Document = Mapping[str, Any]
#: Annotations of a deployment that its sets do not get.
_OWN: Final = frozenset(
    {
        "kubectl.kubernetes.io/last-applied-configuration",
        "deprecated.deployment.rollback.to",
        rollout.REVISION,
        rollout.HISTORY,
        rollout.DESIRED,
        rollout.MAX_REPLICAS,
    }
)


class DeploymentController(Controller[ObjectKey]):
    name = "deployment-controller"

    def __init__(self, kit: Kit) -> None:
        super().__init__(kit)
        self._deployments = kit.informers.get(DEPLOYMENTS)
        self._sets = kit.informers.get(REPLICASETS, indexers={"owner": owning.by_owner})
        self._pods = kit.informers.get(PODS, indexers={"owner": owning.by_owner})
        self._deployments.add_handler(
            on_add=lambda n: self.enqueue(key_of(n)), on_update=lambda o, n: self.enqueue(key_of(n))
        )
        self._sets.add_handler(
            on_add=self._set_changed, on_update=lambda o, n: self._set_changed(n), on_delete=self._set_changed
        )
        self._pods.add_handler(on_delete=self._pod_gone)

    def _set_changed(self, rs: Document) -> None:
        namespace = rs["metadata"]["namespace"]
        owner = controller_of(rs)
        if owner is not None:
            if owner["kind"] == "Deployment":
                self.enqueue(ObjectKey(namespace, owner["name"]))
            return
        for deployment in self._deployments.items():
            if deployment["metadata"]["namespace"] == namespace and owning.matches(
                deployment["spec"]["selector"]
            )(rs):
                self.enqueue(key_of(deployment))

    def _pod_gone(self, pod: Document) -> None:
        """One that recreates its pods waits until the old ones are gone."""
        owner = controller_of(pod)
        if owner is not None and owner["kind"] == "ReplicaSet":
            rs = self._sets.get(pod["metadata"]["namespace"], owner["name"])
            if rs is not None:
                self._set_changed(rs)

    async def sync(self, key: ObjectKey) -> float | None:
        deployment = self._deployments.get(*key)
        if deployment is None or "deletionTimestamp" in deployment["metadata"]:
            return None
        sets = await self._claim(key, deployment)
        new = rollout.current_set(deployment, sets)
        created = False
        if deployment["spec"].get("paused") or rollout.is_resized(deployment, sets):
            # It does not roll, but has the size it was given.
            await self._scale(key, deployment, sets, rollout.resized(deployment, new, sets))
        else:
            if new is None:
                new = await self._make_set(key, deployment, sets)
                if new is None:
                    return CONFLICT_SECONDS  # with another name, once the collision is on record
                created, sets = True, [*sets, new]
            deployment = await self._mark(key, deployment, new, sets)
            await self._roll(key, deployment, new, sets)
        now = self.kit.clock()
        status = rollout.status_of(deployment, new, sets, now=now, created=created)
        if not owning.same(status, deployment.get("status") or {}):
            await self.kit.client.update_status(DEPLOYMENTS, key.namespace, {**deployment, "status": status})
        return rollout.stuck_in(deployment, status, now)

    async def _claim(self, key: ObjectKey, deployment: Document) -> list[Document]:
        known = [
            *self._sets.by_index("owner", deployment["metadata"]["uid"]),
            *self._sets.by_index("owner", owning.strays(key.namespace)),
        ]
        test = owning.matches(deployment["spec"]["selector"])
        return await owning.claim(self.kit.client, DEPLOYMENTS, deployment, REPLICASETS, known, test)

    # -- sets

    async def _make_set(self, key: ObjectKey, deployment: Document, sets: list[Document]) -> Document | None:
        spec, metadata = deployment["spec"], deployment["metadata"]
        collisions = (deployment.get("status") or {}).get("collisionCount") or 0
        template, selector = spec["template"], spec["selector"]
        digest = owning.template_hash(template, collisions)
        labels = {**((template.get("metadata") or {}).get("labels") or {}), rollout.HASH_LABEL: digest}
        number = rollout.next_revision(None, sets)
        made: Object = {
            "metadata": {
                "name": f"{metadata['name']}-{digest}",
                "labels": labels,
                "annotations": {**self._inherited(deployment), rollout.REVISION: str(number)},
                "ownerReferences": [owning.owner_reference(DEPLOYMENTS, deployment)],
            },
            "spec": {
                "replicas": 0,
                "minReadySeconds": spec.get("minReadySeconds", 0),
                "selector": {
                    **selector,
                    "matchLabels": {**(selector.get("matchLabels") or {}), rollout.HASH_LABEL: digest},
                },
                "template": {**template, "metadata": {**(template.get("metadata") or {}), "labels": labels}},
            },
        }
        blank = {"metadata": {"name": made["metadata"]["name"], "uid": ""}, "spec": {"replicas": 0}}
        pods_left = self._pods_left(sets)
        first = rollout.rolled(deployment, blank, sets, old_pods_left=pods_left).get(
            made["metadata"]["name"], 0
        )
        made["spec"]["replicas"] = first
        try:
            created = await self.kit.client.create(REPLICASETS, key.namespace, made)
        except AlreadyExists:
            return await self._collided(key, deployment, made["metadata"]["name"], collisions)
        if first:
            self._say_scaled(deployment, created["metadata"]["name"], 0, first)
        return created

    async def _collided(
        self, key: ObjectKey, deployment: Document, name: str, collisions: int
    ) -> Document | None:
        """A set of that name is there: ours, seen too late, or one with another template."""
        other = await self.kit.client.get(REPLICASETS, key.namespace, name)
        owner = controller_of(other)
        ours = owner is not None and owner["uid"] == deployment["metadata"]["uid"]
        if ours and rollout.current_set(deployment, [other]) is not None:
            return other
        status = {**(deployment.get("status") or {}), "collisionCount": collisions + 1}
        await self.kit.client.update_status(DEPLOYMENTS, key.namespace, {**deployment, "status": status})
        return None

    def _inherited(self, deployment: Document) -> dict[str, str]:
        own = deployment["metadata"].get("annotations") or {}
        return {k: v for k, v in own.items() if k not in _OWN} | rollout.annotated(deployment)

    async def _mark(self, key: ObjectKey, deployment: Object, new: Document, sets: list[Document]) -> Object:
        """Write the revision on the current set and on the deployment, where it is not there yet."""
        number = rollout.next_revision(new, sets)
        wanted = {**self._inherited(deployment), **rollout.remembered(new, number)}
        present = new["metadata"].get("annotations") or {}
        changed = {name: value for name, value in wanted.items() if present.get(name) != value}
        ready = deployment["spec"].get("minReadySeconds", 0)
        patch: Object = {"metadata": {"annotations": changed}} if changed else {}
        if new["spec"].get("minReadySeconds", 0) != ready:
            patch["spec"] = {"minReadySeconds": ready}
        if patch:
            sets[sets.index(new)] = await self.kit.client.patch(
                REPLICASETS, key.namespace, new["metadata"]["name"], patch
            )
        metadata = deployment["metadata"]
        annotations = metadata.get("annotations") or {}
        if annotations.get(rollout.REVISION) == str(number):
            return deployment
        # The controller's role lets it update deployments, not patch them.
        noted = {**metadata, "annotations": {**annotations, rollout.REVISION: str(number)}}
        return await self.kit.client.update(DEPLOYMENTS, key.namespace, {**deployment, "metadata": noted})

    # -- sizes

    async def _roll(self, key: ObjectKey, deployment: Document, new: Document, sets: list[Document]) -> None:
        uid = new["metadata"]["uid"]
        old = [rs for rs in sets if rs["metadata"]["uid"] != uid]
        new = next(rs for rs in sets if rs["metadata"]["uid"] == uid)
        sizes = rollout.rolled(deployment, new, old, old_pods_left=self._pods_left(old))
        await self._scale(key, deployment, sets, sizes)
        if rollout.is_complete(deployment, rollout.counts(deployment, new, sets)):
            for rs in rollout.expendable(deployment, old):
                with contextlib.suppress(NotFound):
                    metadata = rs["metadata"]
                    await self.kit.client.delete(
                        REPLICASETS, key.namespace, metadata["name"], uid=metadata["uid"]
                    )

    def _pods_left(self, sets: list[Document]) -> bool:
        """Whether pods of these sets still run, or are on their way out."""
        pods = (p for rs in sets for p in self._pods.by_index("owner", rs["metadata"]["uid"]))
        return any(not owning.is_finished(pod) for pod in pods)

    async def _scale(
        self, key: ObjectKey, deployment: Document, sets: list[Document], sizes: Mapping[str, int]
    ) -> None:
        noted = rollout.annotated(deployment)
        for rs in sets:
            name, before = rs["metadata"]["name"], rollout.size(rs)
            if name not in sizes:
                continue
            annotations = rs["metadata"].get("annotations") or {}
            if sizes[name] == before and noted.items() <= annotations.items():
                continue
            version = rs["metadata"]["resourceVersion"]
            patch = {
                "metadata": {"resourceVersion": version, "annotations": noted},
                "spec": {"replicas": sizes[name]},
            }
            await self.kit.client.patch(REPLICASETS, key.namespace, name, patch)
            if sizes[name] != before:
                self._say_scaled(deployment, name, before, sizes[name])

    def _say_scaled(self, deployment: Document, name: str, before: int, after: int) -> None:
        direction = "up" if after > before else "down"
        message = f"Scaled {direction} replica set {name} from {before} to {after}"
        self.kit.recorder.event(DEPLOYMENTS, dict(deployment), "Normal", "ScalingReplicaSet", message)

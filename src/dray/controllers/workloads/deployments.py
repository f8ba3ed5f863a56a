"""Deployments: a ReplicaSet for each template, and a steady walk from the old ones to the new one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from dray.api.claims import controller_of
from dray.api.errors import AlreadyExists
from dray.api.kinds import Object
from dray.client.resources import DEPLOYMENTS, PODS, REPLICASETS, ObjectKey, key_of
from dray.controllers.framework import Controller, Kit
from dray.controllers.workloads import owning

Document = Mapping[str, Any]
HASH_LABEL = "pod-template-hash"
REVISION = "deployment.kubernetes.io/revision"
DESIRED = "deployment.kubernetes.io/desired-replicas"
MAX_REPLICAS = "deployment.kubernetes.io/max-replicas"


# -- decisions ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Bounds:
    """How many pods a rolling update may have too many and too few."""

    surge: int
    unavailable: int


def bounds(deployment: Document) -> Bounds:
    spec = deployment["spec"]
    strategy = spec.get("strategy") or {}
    if strategy.get("type") == "Recreate":
        return Bounds(0, 0)
    rolling = strategy.get("rollingUpdate") or {}
    replicas = spec.get("replicas", 1)
    surge = _of(rolling.get("maxSurge", "25%"), replicas, up=True)
    unavailable = _of(rolling.get("maxUnavailable", "25%"), replicas, up=False)
    if surge == 0 and unavailable == 0:
        unavailable = 1
    return Bounds(surge, min(unavailable, replicas))


def _of(value: Any, total: int, *, up: bool) -> int:
    if isinstance(value, str) and value.endswith("%"):
        share = int(value[:-1]) * total
        return -(-share // 100) if up else share // 100
    return int(value)


def without_hash(template: Document) -> Document:
    metadata = template.get("metadata") or {}
    labels = {k: v for k, v in (metadata.get("labels") or {}).items() if k != HASH_LABEL}
    return {**template, "metadata": {**metadata, "labels": labels}}


def current_set(deployment: Document, sets: list[Document]) -> Document | None:
    """The ReplicaSet with the deployment's template; of several the oldest."""
    wanted = without_hash(deployment["spec"]["template"])
    for rs in sorted(
        sets, key=lambda r: (r["metadata"].get("creationTimestamp") or "", r["metadata"]["name"])
    ):
        if owning.same(without_hash(rs["spec"]["template"]), wanted):
            return rs
    return None


def revision(rs: Document) -> int:
    try:
        return int((rs["metadata"].get("annotations") or {}).get(REVISION, "0"))
    except ValueError:
        return 0


def next_scales(deployment: Document, new: Document, old: list[Document]) -> dict[str, int]:
    """How many replicas each ReplicaSet should have now, by name; only those that change."""
    wanted: int = deployment["spec"].get("replicas", 1)
    limits = bounds(deployment)
    scale = {rs["metadata"]["name"]: rs["spec"].get("replicas", 0) for rs in (new, *old)}
    before = dict(scale)
    name = new["metadata"]["name"]
    if (deployment["spec"].get("strategy") or {}).get("type") == "Recreate":
        for rs in old:
            scale[rs["metadata"]["name"]] = 0
        if not any((rs.get("status") or {}).get("replicas") or rs["spec"].get("replicas") for rs in old):
            scale[name] = wanted
        return {k: v for k, v in scale.items() if v != before[k]}
    total = sum(scale.values())
    if scale[name] > wanted:
        scale[name] = wanted
    elif scale[name] < wanted:
        room = wanted + limits.surge - total
        scale[name] += max(0, min(room, wanted - scale[name]))
    _shrink(new, old, scale, wanted, limits)
    return {k: v for k, v in scale.items() if v != before[k]}


def _shrink(new: Document, old: list[Document], scale: dict[str, int], wanted: int, limits: Bounds) -> None:
    """Old sets give up pods that do not run first, then as many as availability allows."""
    least = wanted - limits.unavailable
    unready_new = new["spec"].get("replicas", 0) - (new.get("status") or {}).get("availableReplicas", 0)
    can_go = sum(rs["spec"].get("replicas", 0) for rs in (new, *old)) - least - max(unready_new, 0)
    if can_go <= 0:
        return
    oldest = sorted(old, key=lambda r: r["metadata"].get("creationTimestamp") or "")
    for rs in oldest:
        name = rs["metadata"]["name"]
        broken = rs["spec"].get("replicas", 0) - (rs.get("status") or {}).get("availableReplicas", 0)
        drop = max(0, min(broken, can_go, scale[name]))
        scale[name] -= drop
        can_go -= drop
    available = sum((rs.get("status") or {}).get("availableReplicas", 0) for rs in (new, *old))
    can_go = min(can_go, available - least)
    for rs in oldest:
        name = rs["metadata"]["name"]
        drop = max(0, min(scale[name], can_go))
        scale[name] -= drop
        can_go -= drop


def status_of(deployment: Document, new: Document | None, sets: list[Document], now: str) -> Object:
    """Counts and conditions."""

    def total(name: str) -> int:
        return sum((rs.get("status") or {}).get(name, 0) for rs in sets)

    wanted = deployment["spec"].get("replicas", 1)
    current = deployment.get("status") or {}
    status: Object = {"observedGeneration": deployment["metadata"].get("generation", 0)}
    replicas, available, ready = total("replicas"), total("availableReplicas"), total("readyReplicas")
    updated = (new.get("status") or {}).get("replicas", 0) if new is not None else 0
    for name, count in (
        ("replicas", replicas),
        ("updatedReplicas", updated),
        ("readyReplicas", ready),
        ("availableReplicas", available),
        ("unavailableReplicas", max(0, wanted - available)),
    ):
        if count:
            status[name] = count
    if current.get("collisionCount"):
        status["collisionCount"] = current["collisionCount"]
    enough = available >= wanted - bounds(deployment).unavailable
    complete = updated == wanted and replicas == wanted and available >= wanted
    name = new["metadata"]["name"] if new is not None else ""
    progress = (
        ("True", "NewReplicaSetAvailable", f'ReplicaSet "{name}" has successfully progressed.')
        if complete
        else ("True", "ReplicaSetUpdated", f'ReplicaSet "{name}" is progressing.')
    )
    minimum = (
        ("True", "MinimumReplicasAvailable", "Deployment has minimum availability.")
        if enough
        else ("False", "MinimumReplicasUnavailable", "Deployment does not have minimum availability.")
    )
    status["conditions"] = [
        _condition(current, "Available", *minimum, now),
        _condition(current, "Progressing", *progress, now),
    ]
    return status


def _condition(current: Document, kind: str, value: str, reason: str, message: str, now: str) -> Object:
    for known in current.get("conditions") or ():
        if known["type"] == kind:
            if (known["status"], known.get("reason"), known.get("message")) == (value, reason, message):
                return dict(known)
            changed = known["lastTransitionTime"] if known["status"] == value else now
            return {
                "type": kind, "status": value, "lastUpdateTime": now, "lastTransitionTime": changed, "reason": reason,
                "message": message,
            }  # fmt: skip
    return {
        "type": kind, "status": value, "lastUpdateTime": now, "lastTransitionTime": now, "reason": reason,
        "message": message,
    }  # fmt: skip


# -- the controller -------------------------------------------------------------------------------------------------


class DeploymentController(Controller[ObjectKey]):
    name = "deployment-controller"

    def __init__(self, kit: Kit) -> None:
        super().__init__(kit)
        self._deployments = kit.informers.get(DEPLOYMENTS)
        self._sets = kit.informers.get(REPLICASETS, indexers={"owner": owning.by_owner})
        self._deployments.add_handler(
            on_add=lambda n: self.enqueue(key_of(n)), on_update=lambda o, n: self.enqueue(key_of(n))
        )
        for informer in (self._sets, kit.informers.get(PODS)):
            informer.add_handler(on_delete=self._owned_changed)
        self._sets.add_handler(on_add=self._owned_changed, on_update=lambda o, n: self._owned_changed(n))

    def _owned_changed(self, obj: Document) -> None:
        owner = controller_of(obj)
        if owner is not None and owner["kind"] == "ReplicaSet":
            rs = self._sets.get(obj["metadata"]["namespace"], owner["name"])
            owner = controller_of(rs) if rs is not None else None
        if owner is not None and owner["kind"] == "Deployment":
            self.enqueue(ObjectKey(obj["metadata"]["namespace"], owner["name"]))

    async def sync(self, key: ObjectKey) -> float | None:
        deployment: Document | None = self._deployments.get(*key)
        if deployment is None or "deletionTimestamp" in deployment["metadata"]:
            return None
        sets: list[Document] = list(self._sets.by_index("owner", deployment["metadata"]["uid"]))
        new = current_set(deployment, sets)
        if not deployment["spec"].get("paused"):
            if new is None:
                new = await self._make_set(key, deployment, sets)
                if new is None:
                    return 0.1
                sets = [*sets, new]
            else:
                new = await self._mark(key, deployment, new, sets)
            deployment = await self._number(key, deployment, new)
            old = [rs for rs in sets if rs["metadata"]["uid"] != new["metadata"]["uid"]]
            sets = [new, *old]
            for name, replicas in next_scales(deployment, new, old).items():
                await self._scale(
                    key, deployment, next(rs for rs in sets if rs["metadata"]["name"] == name), replicas
                )
            await self._clean_up(key, deployment, old)
        elif new is not None:
            await self._scale_paused(key, deployment, sets)
        now = owning.timestamp(self.kit.clock())
        status = status_of(deployment, new, sets, now)
        current = {k: v for k, v in (deployment.get("status") or {}).items() if k != "terminatingReplicas"}
        if not owning.same(status, current):
            await self.kit.client.update_status(DEPLOYMENTS, key.namespace, {**deployment, "status": status})
        return None

    async def _make_set(self, key: ObjectKey, deployment: Document, sets: list[Document]) -> Document | None:
        spec, metadata = deployment["spec"], deployment["metadata"]
        collisions = (deployment.get("status") or {}).get("collisionCount") or 0
        digest = owning.template_hash(spec["template"], collisions)
        template = spec["template"]
        labels = {**((template.get("metadata") or {}).get("labels") or {}), HASH_LABEL: digest}
        selector = spec["selector"]
        number = str(max((revision(rs) for rs in sets), default=0) + 1)
        wanted = {
            "metadata": {
                "name": f"{metadata['name']}-{digest}",
                "labels": labels,
                "annotations": self._annotations(deployment, number),
                "ownerReferences": [owning.owner_reference(DEPLOYMENTS, deployment)],
            },
            "spec": {
                "replicas": 0 if sets else spec.get("replicas", 1),
                "minReadySeconds": spec.get("minReadySeconds", 0),
                "selector": {
                    **selector,
                    "matchLabels": {**(selector.get("matchLabels") or {}), HASH_LABEL: digest},
                },
                "template": {**template, "metadata": {**(template.get("metadata") or {}), "labels": labels}},
            },
        }
        try:
            made = await self.kit.client.create(REPLICASETS, key.namespace, wanted)
        except AlreadyExists:
            other = await self.kit.client.get(REPLICASETS, key.namespace, wanted["metadata"]["name"])
            owner = controller_of(other)
            if (
                owner is not None
                and owner["uid"] == metadata["uid"]
                and current_set(deployment, [other]) is not None
            ):
                return other
            status = {**(deployment.get("status") or {}), "collisionCount": collisions + 1}
            await self.kit.client.update_status(DEPLOYMENTS, key.namespace, {**deployment, "status": status})
            return None
        size = made["spec"].get("replicas", 0)
        if size:
            self._say_scaled(deployment, "up", made["metadata"]["name"], 0, size)
        return made

    def _annotations(self, deployment: Document, number: str) -> Object:
        own = {
            k: v
            for k, v in (deployment["metadata"].get("annotations") or {}).items()
            if k not in (REVISION, "kubectl.kubernetes.io/last-applied-configuration")
        }
        wanted = deployment["spec"].get("replicas", 1)
        sizes = {DESIRED: str(wanted), MAX_REPLICAS: str(wanted + bounds(deployment).surge)}
        return {**own, REVISION: number, **sizes}

    async def _mark(
        self, key: ObjectKey, deployment: Document, new: Document, sets: list[Document]
    ) -> Document:
        """The current set has the highest revision; a roll-back makes an old one current again."""
        highest = max((revision(rs) for rs in sets if rs is not new), default=0)
        number = revision(new) if revision(new) > highest else highest + 1
        wanted = self._annotations(deployment, str(number))
        current = new["metadata"].get("annotations") or {}
        changed = {k: v for k, v in wanted.items() if current.get(k) != v}
        if changed:
            new = await self.kit.client.patch(
                REPLICASETS, key.namespace, new["metadata"]["name"], {"metadata": {"annotations": changed}}
            )
        return new

    async def _number(self, key: ObjectKey, deployment: Document, new: Document) -> Document:
        """The deployment with the number of its current revision written on it."""
        metadata, number = deployment["metadata"], str(revision(new))
        annotations = metadata.get("annotations") or {}
        if annotations.get(REVISION) == number:
            return deployment
        changed = {**deployment, "metadata": {**metadata, "annotations": {**annotations, REVISION: number}}}
        return await self.kit.client.update(DEPLOYMENTS, key.namespace, changed)

    async def _scale(self, key: ObjectKey, deployment: Document, rs: Document, replicas: int) -> None:
        before = rs["spec"].get("replicas", 0)
        patch = {
            "metadata": {"resourceVersion": rs["metadata"]["resourceVersion"]},
            "spec": {"replicas": replicas},
        }
        await self.kit.client.patch(REPLICASETS, key.namespace, rs["metadata"]["name"], patch)
        direction = "up" if replicas > before else "down"
        self._say_scaled(deployment, direction, rs["metadata"]["name"], before, replicas)

    async def _scale_paused(self, key: ObjectKey, deployment: Document, sets: list[Document]) -> None:
        """A paused deployment does not roll, but it still has the size it was given."""
        active = [rs for rs in sets if rs["spec"].get("replicas")]
        if len(active) == 1 and active[0]["spec"]["replicas"] != deployment["spec"].get("replicas", 1):
            await self._scale(key, deployment, active[0], deployment["spec"].get("replicas", 1))

    def _say_scaled(self, deployment: Document, direction: str, name: str, before: int, after: int) -> None:
        message = f"Scaled {direction} replica set {name} from {before} to {after}"
        self.kit.recorder.event(DEPLOYMENTS, dict(deployment), "Normal", "ScalingReplicaSet", message)

    async def _clean_up(self, key: ObjectKey, deployment: Document, old: list[Document]) -> None:
        limit = deployment["spec"].get("revisionHistoryLimit", 10)
        empty = [
            rs
            for rs in old
            if not rs["spec"].get("replicas")
            and not (rs.get("status") or {}).get("replicas")
            and "deletionTimestamp" not in rs["metadata"]
        ]
        for rs in sorted(empty, key=revision)[: max(0, len(empty) - limit)]:
            await self.kit.client.delete(
                REPLICASETS, key.namespace, rs["metadata"]["name"], uid=rs["metadata"]["uid"]
            )

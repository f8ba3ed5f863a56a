"""StatefulSets: pods with names that last, one after the other."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from dray.api.errors import AlreadyExists
from dray.api.kinds import Object
from dray.client.resources import (
    CONTROLLER_REVISIONS,
    PERSISTENT_VOLUME_CLAIMS,
    STATEFULSETS,
    ObjectKey,
)
from dray.controllers.framework import CONFLICT_SECONDS, Kit, for_each
from dray.controllers.workloads import owning, revisions
from dray.controllers.workloads.keeping import PodKeeper, Words
from dray.controllers.workloads.revisions import HASH_LABEL

Document = Mapping[str, Any]
NAME_LABEL: Final = "statefulset.kubernetes.io/pod-name"
INDEX_LABEL: Final = "apps.kubernetes.io/pod-index"
_NAME: Final = re.compile(r"(.*)-([0-9]+)")


# -- decisions ------------------------------------------------------------------------------------------------------


def ordinal(stateful: Document, pod: Document) -> int | None:
    """The number of one of its pods; None for a pod that is not called like one."""
    found = _NAME.fullmatch(pod["metadata"]["name"])
    if found is None or found[1] != stateful["metadata"]["name"]:
        return None
    return int(found[2])


def pod_for(stateful: Document, index: int, revision: str, template: Document) -> Object:
    name = f"{stateful['metadata']['name']}-{index}"
    labels = {HASH_LABEL: revision, NAME_LABEL: name, INDEX_LABEL: str(index)}
    pod = owning.pod_from(template, STATEFULSETS, stateful, labels=labels)
    metadata = {k: v for k, v in pod["metadata"].items() if k != "generateName"}
    spec = {**pod["spec"], "hostname": name}
    service = stateful["spec"].get("serviceName")
    if service:
        spec["subdomain"] = service
    claims = [c["metadata"]["name"] for c in stateful["spec"].get("volumeClaimTemplates") or ()]
    if claims:
        others = [v for v in spec.get("volumes") or () if v["name"] not in claims]
        named = [{"name": c, "persistentVolumeClaim": {"claimName": f"{c}-{name}"}} for c in claims]
        spec["volumes"] = [*named, *others]
    return {**pod, "metadata": {**metadata, "name": name}, "spec": spec}


def claims_for(stateful: Document, index: int) -> list[Object]:
    """The volume claims of one pod; they outlive it."""
    spec = stateful["spec"]
    name = f"{stateful['metadata']['name']}-{index}"
    selected = (spec.get("selector") or {}).get("matchLabels") or {}
    return [
        {
            "metadata": {
                **{k: v for k, v in template["metadata"].items() if k in ("annotations", "finalizers")},
                "name": f"{template['metadata']['name']}-{name}",
                "labels": {**(template["metadata"].get("labels") or {}), **selected},
            },
            "spec": template["spec"],
        }
        for template in spec.get("volumeClaimTemplates") or ()
    ]


def revision_of(pod: Document) -> str:
    label: str = (pod["metadata"].get("labels") or {}).get(HASH_LABEL) or ""
    return label


def is_leaving(pod: Document) -> bool:
    return "deletionTimestamp" in pod["metadata"]


@dataclass(frozen=True, slots=True)
class Situation:
    """A StatefulSet and its pods at a moment; ``current`` and ``update`` are names of revisions."""

    stateful: Document
    pods: Mapping[int, Document]
    current: str
    update: str
    now: float

    @property
    def wanted(self) -> range:
        spec = self.stateful["spec"]
        first = (spec.get("ordinals") or {}).get("start", 0)
        return range(first, first + spec.get("replicas", 1))

    @property
    def is_parallel(self) -> bool:
        return bool(self.stateful["spec"].get("podManagementPolicy") == "Parallel")

    @property
    def partition(self) -> int:
        """Pods below this number stay at the current revision."""
        strategy = self.stateful["spec"].get("updateStrategy") or {}
        if strategy.get("type") == "OnDelete":
            return 0
        return self.wanted.start + int((strategy.get("rollingUpdate") or {}).get("partition") or 0)

    def is_available(self, pod: Document) -> bool:
        min_ready = self.stateful["spec"].get("minReadySeconds") or 0
        return not is_leaving(pod) and owning.is_available(pod, min_ready, self.now)


@dataclass(frozen=True, slots=True)
class Plan:
    """The numbers of pods to make, and pods to delete."""

    make: Sequence[int] = ()
    delete: Sequence[Document] = ()


def plan(situation: Situation) -> Plan:
    """The next step: what is missing, in order; then what is too much, from the end; then the update, from the end."""
    make: list[int] = []
    delete: list[Document] = []
    in_order = not situation.is_parallel
    for index in situation.wanted:
        pod = situation.pods.get(index)
        if pod is None:
            make.append(index)
        elif owning.is_finished(pod) and not is_leaving(pod):
            delete.append(pod)
        elif not in_order or situation.is_available(pod):
            continue
        if in_order:
            return Plan(make, delete)  # the next one waits for this one
    surplus = [situation.pods[i] for i in sorted(situation.pods, reverse=True) if i not in situation.wanted]
    if surplus:
        staying = [pod for pod in surplus if not is_leaving(pod)]
        delete += staying if not in_order else [] if len(staying) < len(surplus) else staying[:1]
        return Plan(make, delete)
    if make or delete:
        return Plan(make, delete)
    return Plan(delete=_outdated(situation))


def _outdated(situation: Situation) -> list[Document]:
    """The next pod to be made anew from the new template, if all after it are well."""
    strategy = situation.stateful["spec"].get("updateStrategy") or {}
    if strategy.get("type") == "OnDelete":
        return []
    for index in reversed(situation.wanted):
        if index < situation.partition:
            break
        pod = situation.pods[index]
        if revision_of(pod) != situation.update and not is_leaving(pod):
            return [pod]
        if not situation.is_available(pod):
            break
    return []


def status_of(situation: Situation) -> Object:
    stateful, current, update = situation.stateful, situation.current, situation.update
    there = [p for p in situation.pods.values() if not owning.is_finished(p)]
    active = [p for p in there if not is_leaving(p)]
    ready = [p for p in there if owning.is_ready(p)]
    updated = sum(1 for p in active if revision_of(p) == update)
    wanted = len(situation.wanted)
    strategy = (stateful["spec"].get("updateStrategy") or {}).get("type", "RollingUpdate")
    if strategy == "RollingUpdate" and updated == wanted == len(there) == len(ready):
        current = update  # the update is complete
    status: Object = {
        "replicas": len(there),
        "observedGeneration": stateful["metadata"].get("generation", 0),
        "availableReplicas": sum(1 for p in ready if situation.is_available(p)),
    }
    for name, count in (
        ("readyReplicas", len(ready)),
        ("currentReplicas", sum(1 for p in active if revision_of(p) == current)),
        ("updatedReplicas", updated),
    ):
        if count:
            status[name] = count
    status |= {"currentRevision": current, "updateRevision": update}
    status["collisionCount"] = (stateful.get("status") or {}).get("collisionCount", 0)
    return status


# -- the controller -------------------------------------------------------------------------------------------------


class StatefulSetController(PodKeeper[ObjectKey]):
    name = "statefulset-controller"
    resource = STATEFULSETS
    words = Words(
        created="create Pod {pod} in StatefulSet {owner} successful",
        not_created="create Pod {pod} in StatefulSet {owner} failed error: {problem}",
        deleted="delete Pod {pod} in StatefulSet {owner} successful",
    )

    def __init__(self, kit: Kit) -> None:
        super().__init__(kit)
        self._revisions = kit.informers.get(CONTROLLER_REVISIONS, indexers={"owner": owning.by_owner})

    async def sync(self, key: ObjectKey) -> float | None:
        stateful = self._owners.get(*key)
        if stateful is None or "deletionTimestamp" in stateful["metadata"]:
            return None
        own = self._own(stateful)
        labelled = owning.matches(stateful["spec"]["selector"])
        pods = await self._claim(
            stateful, own, lambda pod: labelled(pod) and ordinal(stateful, pod) is not None
        )
        kept = self._revisions.by_index("owner", stateful["metadata"]["uid"])
        try:
            update = (await revisions.record(self.kit.client, STATEFULSETS, key, stateful, kept))["metadata"][
                "name"
            ]
        except revisions.Collision:
            return await self._collided(key, stateful)
        current = (stateful.get("status") or {}).get("currentRevision") or update
        by_number = {number: pod for pod in pods if (number := ordinal(stateful, pod)) is not None}
        situation = Situation(stateful, by_number, current, update, self.kit.clock())
        if self._expected.met(key, own):
            await self._manage(key, situation, kept)
        status = status_of(situation)
        await self._write(key, stateful, status)
        await self._forget_revisions(stateful, kept, pods, status)
        waiting = stateful["spec"].get("minReadySeconds")
        return (
            float(waiting)
            if waiting and status.get("readyReplicas", 0) > status["availableReplicas"]
            else None
        )

    async def _collided(self, key: ObjectKey, stateful: Document) -> float:
        known = stateful.get("status") or {}
        collisions = (known.get("collisionCount") or 0) + 1
        status = {"replicas": 0, **known, "collisionCount": collisions}
        await self.kit.client.update_status(STATEFULSETS, key.namespace, {**stateful, "status": status})
        return CONFLICT_SECONDS

    async def _forget_revisions(
        self, stateful: Document, kept: list[Any], pods: list[Document], status: Document
    ) -> None:
        in_use = {*(revision_of(p) for p in pods), status["currentRevision"], status["updateRevision"]}
        limit = stateful["spec"].get("revisionHistoryLimit", 10)
        await revisions.discard(self.kit.client, revisions.expendable(kept, in_use=in_use, limit=limit))

    async def _manage(self, key: ObjectKey, situation: Situation, kept: list[Any]) -> None:
        step = plan(situation)
        stateful = situation.stateful

        async def make(index: int) -> None:
            revision = situation.current if index < situation.partition else situation.update
            template = stateful["spec"]["template"]
            for known in kept:
                if known["metadata"]["name"] == revision:
                    template = revisions.template_in(known)
            await self._make_claims(key, stateful, index)
            await self._make(key, stateful, pod_for(stateful, index, revision, template))

        await for_each(step.make, make)
        await for_each(step.delete, lambda pod: self._delete(key, stateful, pod))

    async def _make_claims(self, key: ObjectKey, stateful: Document, index: int) -> None:
        for claim in claims_for(stateful, index):
            with contextlib.suppress(AlreadyExists):
                await self.kit.client.create(PERSISTENT_VOLUME_CLAIMS, key.namespace, claim)

"""StatefulSets: pods with names that last, one after the other."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from dray.api.errors import Conflict, StatusError
from dray.client.resources import CONTROLLER_REVISIONS, PODS, STATEFULSETS, ObjectKey
from dray.controllers.framework import CONFLICT_SECONDS, Kit, for_each
from dray.controllers.workloads import owning, revisions, volumes
from dray.controllers.workloads.keeping import PodKeeper, Words
from dray.controllers.workloads.revisions import HASH_LABEL
from dray.controllers.workloads.rollout import share

Object = Any  # documents have no types here yet

Document = Any  # documents have no types here yet
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
    labels = {HASH_LABEL: revision, **identity(name, index)}
    pod = owning.pod_from(template, STATEFULSETS, stateful, labels=labels)
    spec = {**pod["spec"], "hostname": name}
    service = stateful["spec"].get("serviceName")
    if service:
        spec["subdomain"] = service
    if volumes.templates(stateful):
        spec["volumes"] = volumes.volumes_for(stateful, index, spec.get("volumes") or [])
    return {**pod, "metadata": {**pod["metadata"], "name": name}, "spec": spec}


def identity(name: str, index: int) -> dict[str, str]:
    """The labels that say which of its set a pod is."""
    return {NAME_LABEL: name, INDEX_LABEL: str(index)}


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
        return owning.is_available(pod, self.stateful["spec"].get("minReadySeconds") or 0, self.now)

    def is_well(self, pod: Document) -> bool:
        return not is_leaving(pod) and self.is_available(pod)


@dataclass(frozen=True, slots=True)
class Plan:
    """The numbers of pods to make, and pods to delete; and what is tended before."""

    make: Sequence[int] = ()
    delete: Sequence[Document] = ()
    pending: Sequence[int] = ()  # whose claims may be missing
    settled: Sequence[int] = ()  # which should have all that makes them members of the set
    surplus: Sequence[int] = ()


def plan(situation: Situation, *, most_away: int | None = None) -> Plan:
    """The next step: what is missing, in order; then what is too much, from the end; then the update, from the end.

    ``most_away`` pods may be away during an update; None where a release knows but one.
    """
    make: list[int] = []
    delete: list[Document] = []
    pending: list[int] = []
    settled: list[int] = []
    in_order = not situation.is_parallel
    for index in situation.wanted:
        pod = situation.pods.get(index)
        if pod is None:
            make.append(index)
        elif owning.is_finished(pod):
            if not is_leaving(pod):
                delete.append(pod)
        else:
            if owning.phase(pod) == "Pending":
                pending.append(index)
            if not in_order or (is_running(pod) and situation.is_well(pod)):
                settled.append(index)
                continue
        if in_order:
            return Plan(make, delete, pending, settled)  # the next one waits for this one
    surplus = [i for i in sorted(situation.pods, reverse=True) if i not in situation.wanted]
    delete += _condemned(situation, surplus)
    if surplus or make or delete:
        return Plan(make, delete, pending, settled, surplus)
    return Plan(delete=_outdated(situation, most_away), pending=pending, settled=settled)


def _condemned(situation: Situation, surplus: Sequence[int]) -> list[Document]:
    """Pods beyond the wanted ones: the last goes first, and where order matters the others wait until it is gone.

    One that is not well is given up only if none before it ails.
    """
    staying = [situation.pods[i] for i in surplus if not is_leaving(situation.pods[i])]
    if situation.is_parallel:
        return staying
    if not surplus or is_leaving(situation.pods[surplus[0]]):
        return []
    last = situation.pods[surplus[0]]
    well = is_running(last) and situation.is_well(last)
    ailing = min((i for i, pod in situation.pods.items() if not situation.is_well(pod)), default=None)
    return [last] if well or ailing == surplus[0] else []


def _outdated(situation: Situation, most_away: int | None) -> list[Document]:
    """The next pods to be made anew from the new template, if all after them are well."""
    strategy = situation.stateful["spec"].get("updateStrategy") or {}
    if strategy.get("type") == "OnDelete":
        return []
    candidates = [situation.pods[i] for i in reversed(situation.wanted) if i >= situation.partition]
    if most_away is not None:
        away = sum(1 for pod in situation.pods.values() if not situation.is_well(pod))
        old = [p for p in candidates if revision_of(p) != situation.update and not is_leaving(p)]
        return old[: max(0, most_away - away)]
    for pod in candidates:
        if revision_of(pod) != situation.update and not is_leaving(pod):
            return [pod]
        if not situation.is_well(pod):
            break
    return []


def most_unavailable(stateful: Document) -> int:
    rolling = (stateful["spec"].get("updateStrategy") or {}).get("rollingUpdate") or {}
    return max(1, share(rolling.get("maxUnavailable") or 1, stateful["spec"].get("replicas", 1), up=False))


def is_running(pod: Document) -> bool:
    return owning.phase(pod) == "Running" and owning.is_ready(pod)


def status_of(situation: Situation) -> Object:
    stateful, current, update = situation.stateful, situation.current, situation.update
    there = list(situation.pods.values())
    staying = [p for p in there if not is_leaving(p)]
    ready = [p for p in there if is_running(p)]
    updated = sum(1 for p in staying if revision_of(p) == update)
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
        ("currentReplicas", sum(1 for p in staying if revision_of(p) == current)),
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

    def __init__(self, kit: Kit) -> None:
        super().__init__(kit)
        self._revisions = kit.informers.get(CONTROLLER_REVISIONS, indexers={"owner": owning.by_owner})
        self._volumes = volumes.Volumes(kit, self._say, self._verb)
        create, delete = self._verb("create"), self._verb("delete")
        self.words = Words(
            created=f"{create} Pod {{pod}} in StatefulSet {{owner}} successful",
            not_created=f"{create} Pod {{pod}} in StatefulSet {{owner}} failed error: {{problem}}",
            deleted=f"{delete} Pod {{pod}} in StatefulSet {{owner}} successful",
            not_deleted=f"{delete} Pod {{pod}} in StatefulSet {{owner}} failed error: {{problem}}",
        )

    def _verb(self, word: str) -> str:
        """Events begin with a capital letter since 1.35."""
        return word.capitalize() if self.kit.gates.release >= (1, 35) else word

    async def sync(self, key: ObjectKey) -> float | None:
        stateful = self._owners.get(*key)
        if stateful is None:
            return None
        own = self._own(stateful)
        labelled = owning.matches(stateful["spec"]["selector"])
        pods = await self._claim(
            stateful, own, lambda pod: labelled(pod) and ordinal(stateful, pod) is not None
        )
        by_number = {number: pod for pod in pods if (number := ordinal(stateful, pod)) is not None}
        known = stateful.get("status") or {}
        if "deletionTimestamp" in stateful["metadata"]:
            # Only told about, any more: the garbage collector takes its pods.
            current, update = known.get("currentRevision", ""), known.get("updateRevision", "")
            await self._write(
                key,
                stateful,
                status_of(Situation(stateful, by_number, current, update, self.kit.clock())),
            )
            return None
        kept = await revisions.claimed(self.kit.client, STATEFULSETS, stateful, self._revisions)
        try:
            latest = await revisions.record(
                self.kit.client,
                STATEFULSETS,
                key,
                stateful,
                kept,
                digest_of=revisions.hash_of_data,
                label=revisions.STATEFUL_HASH_LABEL,
            )
        except revisions.Collision:
            return await self._collided(key, stateful)
        update = latest["metadata"]["name"]
        current = known.get("currentRevision")
        if not any(r["metadata"]["name"] == current for r in kept):
            current = update
        situation = Situation(stateful, by_number, current, update, self.kit.clock())
        problem: StatusError | None = None
        if self._expected.met(key, own):
            try:
                await self._manage(key, situation, kept)
            except StatusError as failed:
                problem = failed
        status = status_of(situation)
        await self._write(key, stateful, status)
        await self._forget_revisions(stateful, kept, pods, status)
        if problem is not None:
            raise problem
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
        await self.kit.client.update_status(STATEFULSETS, key.namespace, {**stateful, "status": status})  # type: ignore[typeddict-item]
        return CONFLICT_SECONDS

    async def _forget_revisions(
        self, stateful: Document, kept: list[Document], pods: list[Document], status: Document
    ) -> None:
        in_use = {*(revision_of(p) for p in pods), status["currentRevision"], status["updateRevision"]}
        limit = stateful["spec"].get("revisionHistoryLimit", 10)
        await revisions.discard(self.kit.client, revisions.expendable(kept, in_use=in_use, limit=limit))

    async def _manage(self, key: ObjectKey, situation: Situation, kept: list[Document]) -> None:
        stateful = situation.stateful
        most_away = most_unavailable(stateful) if "MaxUnavailableStatefulSet" in self.kit.gates else None
        step = plan(situation, most_away=most_away)
        claims = bool(volumes.templates(stateful))
        for index in step.settled:
            await self._settle(key, stateful, index, situation.pods[index])
        if claims:
            for index in step.pending:
                pod = situation.pods[index]
                await self._volumes.make(key, stateful, index, pod["metadata"]["name"])
                await self._volumes.settle(key, stateful, index, pod, stays=True)
        numbers = iter(step.make)
        await owning.slow_start(len(step.make), lambda: self._start(key, situation, next(numbers), kept))
        if claims:
            for index in step.surplus:
                await self._volumes.settle(key, stateful, index, situation.pods[index], stays=False)
        await for_each(step.delete, lambda pod: self._delete(key, stateful, pod))

    async def _start(self, key: ObjectKey, situation: Situation, index: int, kept: list[Document]) -> None:
        stateful = situation.stateful
        revision = situation.current if index < situation.partition else situation.update
        template = stateful["spec"]["template"]
        for known in kept:
            if known["metadata"]["name"] == revision:
                template = revisions.template_in(known)
        pod = pod_for(stateful, index, revision, template)
        if not volumes.templates(stateful):
            await self._make(key, stateful, pod)
            return
        if self._volumes.block(key, stateful, index, pod):
            return
        name = pod["metadata"]["name"]
        try:
            await self._volumes.make(key, stateful, index, name)
        except StatusError as problem:
            message = self.words.not_created.format(pod=name, owner=key.name, problem=problem)
            self._say(stateful, "Warning", "FailedCreate", message)
            raise
        await self._make(key, stateful, pod)
        await self._volumes.settle(key, stateful, index, pod, stays=True)

    async def _settle(self, key: ObjectKey, stateful: Document, index: int, pod: Document) -> None:
        """A pod that was adopted lacks what others were made with."""
        metadata = pod["metadata"]
        name, labels = metadata["name"], metadata.get("labels") or {}
        is_member = labels.get(NAME_LABEL) == name
        has_volumes = volumes.has_volumes(stateful, pod, index)
        if is_member and has_volumes and self._volumes.are_settled(key, stateful, index, pod, stays=True):
            return
        changed = {**pod, "metadata": {**metadata, "labels": {**labels, **identity(name, index)}}}
        if not has_volumes:
            mounted = volumes.volumes_for(stateful, index, pod["spec"].get("volumes") or [])
            changed["spec"] = {**pod["spec"], "volumes": mounted}
        what = f"{self._verb('update')} Pod {name} in StatefulSet {key.name}"
        try:
            if not has_volumes:
                await self._volumes.make(key, stateful, index, name)
            await self._volumes.settle(key, stateful, index, pod, stays=True)
            await self.kit.client.update(PODS, key.namespace, changed)  # type: ignore[arg-type]
        except Conflict:
            raise
        except StatusError as problem:
            self._say(stateful, "Warning", "FailedUpdate", f"{what} failed error: {problem}")
            raise
        self._say(stateful, "Normal", "SuccessfulUpdate", f"{what} successful")

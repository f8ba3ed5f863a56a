"""StatefulSets: pods with names that last, one after the other."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from dray.api.errors import Conflict, StatusError
from dray.client.resources import CONTROLLER_REVISIONS, PODS, STATEFULSETS, ObjectKey
from dray.controllers.controller import CONFLICT_SECONDS, ControllerContext, for_each
from dray.controllers.pod_status import is_ready
from dray.controllers.workloads import history, owned_pods
from dray.controllers.workloads.deployment.rollout import scaled_value
from dray.controllers.workloads.history import REVISION_HASH_LABEL
from dray.controllers.workloads.pod_control import EventMessages, PodOwnerController
from dray.controllers.workloads.statefulset import volume_claims

if TYPE_CHECKING:
    from dray.api.types.apps import ControllerRevision, StatefulSet, StatefulSetStatus
    from dray.api.types.core import Pod, PodSpec, PodTemplateSpec


NAME_LABEL: Final = "statefulset.kubernetes.io/pod-name"
INDEX_LABEL: Final = "apps.kubernetes.io/pod-index"
_NAME: Final = re.compile(r"(.*)-([0-9]+)")


# -- decisions ------------------------------------------------------------------------------------------------------


def ordinal(stateful: StatefulSet, pod: Pod) -> int | None:
    """The number of one of its pods; None for a pod that is not called like one."""
    found = _NAME.fullmatch(pod["metadata"]["name"])
    if found is None or found[1] != stateful["metadata"]["name"]:
        return None
    return int(found[2])


def pod_for(stateful: StatefulSet, index: int, revision: str, template: PodTemplateSpec) -> Pod:
    name = f"{stateful['metadata']['name']}-{index}"
    labels = {REVISION_HASH_LABEL: revision, **identity_labels(name, index)}
    pod = owned_pods.pod_from_template(template, STATEFULSETS, stateful, labels=labels)
    spec: PodSpec = {**pod["spec"], "hostname": name}
    service = stateful["spec"].get("serviceName")
    if service:
        spec["subdomain"] = service
    if volume_claims.templates(stateful):
        spec["volumes"] = volume_claims.volumes_for(stateful, index, spec.get("volumes") or [])
    return {**pod, "metadata": {**pod["metadata"], "name": name}, "spec": spec}


def identity_labels(name: str, index: int) -> dict[str, str]:
    """The labels that say which of its set a pod is."""
    return {NAME_LABEL: name, INDEX_LABEL: str(index)}


def revision_of(pod: Pod) -> str:
    return (pod["metadata"].get("labels") or {}).get(REVISION_HASH_LABEL) or ""


def is_terminating(pod: Pod) -> bool:
    return "deletionTimestamp" in pod["metadata"]


@dataclass(frozen=True, slots=True)
class StatefulSetState:
    """A StatefulSet and its pods at a moment; ``current`` and ``update`` are names of revisions."""

    stateful: StatefulSet
    pods: Mapping[int, Pod]
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

    def is_available(self, pod: Pod) -> bool:
        return owned_pods.is_available(pod, self.stateful["spec"].get("minReadySeconds") or 0, self.now)

    def is_healthy(self, pod: Pod) -> bool:
        return not is_terminating(pod) and self.is_available(pod)


@dataclass(frozen=True, slots=True)
class Plan:
    """The numbers of pods to make, and pods to delete; and what is tended before."""

    make: Sequence[int] = ()
    delete: Sequence[Pod] = ()
    pending: Sequence[int] = ()  # whose claims may be missing
    settled: Sequence[int] = ()  # which should have all that makes them members of the set
    surplus: Sequence[int] = ()


def plan(state: StatefulSetState, *, max_unavailable: int | None = None) -> Plan:
    """The next step: what is missing, in order; then what is too much, from the end; then the update, from the end.

    ``most_away`` pods may be away during an update; None where a release knows but one.
    """
    make: list[int] = []
    delete: list[Pod] = []
    pending: list[int] = []
    settled: list[int] = []
    in_order = not state.is_parallel
    for index in state.wanted:
        pod = state.pods.get(index)
        if pod is None:
            make.append(index)
        elif owned_pods.is_finished(pod):
            if not is_terminating(pod):
                delete.append(pod)
        else:
            if owned_pods.phase(pod) == "Pending":
                pending.append(index)
            if not in_order or (is_running(pod) and state.is_healthy(pod)):
                settled.append(index)
                continue
        if in_order:
            return Plan(make, delete, pending, settled)  # the next one waits for this one
    surplus = [i for i in sorted(state.pods, reverse=True) if i not in state.wanted]
    delete += _condemned_pods(state, surplus)
    if surplus or make or delete:
        return Plan(make, delete, pending, settled, surplus)
    return Plan(delete=_outdated_pods(state, max_unavailable), pending=pending, settled=settled)


def _condemned_pods(state: StatefulSetState, surplus: Sequence[int]) -> list[Pod]:
    """Pods beyond the wanted ones: the last goes first, and where order matters the others wait until it is gone.

    One that is not well is given up only if none before it ails.
    """
    staying = [state.pods[i] for i in surplus if not is_terminating(state.pods[i])]
    if state.is_parallel:
        return staying
    if not surplus or is_terminating(state.pods[surplus[0]]):
        return []
    last = state.pods[surplus[0]]
    well = is_running(last) and state.is_healthy(last)
    ailing = min((i for i, pod in state.pods.items() if not state.is_healthy(pod)), default=None)
    return [last] if well or ailing == surplus[0] else []


def _outdated_pods(state: StatefulSetState, max_unavailable: int | None) -> list[Pod]:
    """The next pods to be made anew from the new template, if all after them are well."""
    strategy = state.stateful["spec"].get("updateStrategy") or {}
    if strategy.get("type") == "OnDelete":
        return []
    candidates = [state.pods[i] for i in reversed(state.wanted) if i >= state.partition]
    if max_unavailable is not None:
        away = sum(1 for pod in state.pods.values() if not state.is_healthy(pod))
        old = [p for p in candidates if revision_of(p) != state.update and not is_terminating(p)]
        return old[: max(0, max_unavailable - away)]
    for pod in candidates:
        if revision_of(pod) != state.update and not is_terminating(pod):
            return [pod]
        if not state.is_healthy(pod):
            break
    return []


def max_unavailable_replicas(stateful: StatefulSet) -> int:
    rolling = (stateful["spec"].get("updateStrategy") or {}).get("rollingUpdate") or {}
    return max(
        1, scaled_value(rolling.get("maxUnavailable") or 1, stateful["spec"].get("replicas", 1), up=False)
    )


def is_running(pod: Pod) -> bool:
    return owned_pods.phase(pod) == "Running" and is_ready(pod)


def status_of(state: StatefulSetState) -> StatefulSetStatus:
    stateful, current, update = state.stateful, state.current, state.update
    there = list(state.pods.values())
    staying = [p for p in there if not is_terminating(p)]
    ready = [p for p in there if is_running(p)]
    updated = sum(1 for p in staying if revision_of(p) == update)
    wanted = len(state.wanted)
    strategy = (stateful["spec"].get("updateStrategy") or {}).get("type", "RollingUpdate")
    if strategy == "RollingUpdate" and updated == wanted == len(there) == len(ready):
        current = update  # the update is complete
    status: StatefulSetStatus = {
        "replicas": len(there),
        "observedGeneration": stateful["metadata"].get("generation", 0),
        "availableReplicas": sum(1 for p in ready if state.is_available(p)),
    }
    if ready:
        status["readyReplicas"] = len(ready)
    if at_current := sum(1 for p in staying if revision_of(p) == current):
        status["currentReplicas"] = at_current
    if updated:
        status["updatedReplicas"] = updated
    status["currentRevision"], status["updateRevision"] = current, update
    status["collisionCount"] = (stateful.get("status") or {}).get("collisionCount", 0)
    return status


# -- the controller -------------------------------------------------------------------------------------------------


class StatefulSetController(PodOwnerController["StatefulSet", ObjectKey]):
    name = "statefulset-controller"
    resource = STATEFULSETS

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._revisions = context.informers.get(CONTROLLER_REVISIONS, indexers={"owner": owned_pods.by_owner})
        self._volumes = volume_claims.VolumeClaims(context, self._record_event, self._verb)
        create, delete = self._verb("create"), self._verb("delete")
        self.words = EventMessages(
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
        labelled = owned_pods.matches(stateful["spec"]["selector"])
        pods = await self._claim(
            stateful, own, lambda pod: labelled(pod) and ordinal(stateful, pod) is not None
        )
        by_number = {number: pod for pod in pods if (number := ordinal(stateful, pod)) is not None}
        known = stateful.get("status") or {}
        if "deletionTimestamp" in stateful["metadata"]:
            # Only told about, any more: the garbage collector takes its pods.
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
        if self._expected.met(key, own):
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
                await self._volumes.make(key, stateful, index, pod["metadata"]["name"])
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
        if self._volumes.block(key, stateful, index, pod):
            return
        name = pod["metadata"]["name"]
        try:
            await self._volumes.make(key, stateful, index, name)
        except StatusError as problem:
            message = self.words.not_created.format(pod=name, owner=key.name, problem=problem)
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
                await self._volumes.make(key, stateful, index, name)
            await self._volumes.apply_retention_policy(key, stateful, index, pod, stays=True)
            await self.context.client.update(PODS, key.namespace, changed)
        except Conflict:
            raise
        except StatusError as problem:
            self._record_event(stateful, "Warning", "FailedUpdate", f"{what} failed error: {problem}")
            raise
        self._record_event(stateful, "Normal", "SuccessfulUpdate", f"{what} successful")

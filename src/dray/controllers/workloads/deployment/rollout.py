"""How a Deployment gets from old ReplicaSets to a new one: sizes, proportions, and what its status tells. Pure."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal

from dray.controllers.workloads import owned_pods

if TYPE_CHECKING:
    from dray.api.types.apps import (
        Deployment,
        DeploymentCondition,
        DeploymentStatus,
        ReplicaSet,
        ReplicaSetCondition,
    )
    from dray.api.types.core import PodTemplateSpec


POD_TEMPLATE_HASH_LABEL: Final = "pod-template-hash"
REVISION: Final = "deployment.kubernetes.io/revision"
REVISION_HISTORY: Final = "deployment.kubernetes.io/revision-history"
DESIRED_REPLICAS: Final = "deployment.kubernetes.io/desired-replicas"
MAX_REPLICAS: Final = "deployment.kubernetes.io/max-replicas"
_LONGEST_HISTORY: Final = 2000
CREATE_ERROR: Final = "ReplicaSetCreateError"
#: A deployment that sets no deadline never fails.
_NO_DEADLINE: Final = 2147483647


#: A number in the status of a ReplicaSet.
Count = Literal["availableReplicas", "observedGeneration", "readyReplicas", "replicas"]


# -- numbers --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class RollingLimits:
    """How many pods a rolling update may have too many and too few."""

    surge: int
    unavailable: int


def wanted_replicas(deployment: Deployment) -> int:
    return deployment["spec"].get("replicas", 1)


def replicas_of(rs: ReplicaSet) -> int:
    return rs["spec"].get("replicas", 0)


def count(rs: ReplicaSet, name: Count) -> int:
    return (rs.get("status") or {}).get(name, 0)


def is_recreating(deployment: Deployment) -> bool:
    return bool((deployment["spec"].get("strategy") or {}).get("type") == "Recreate")


def bounds(deployment: Deployment) -> RollingLimits:
    if is_recreating(deployment):
        return RollingLimits(0, 0)
    rolling = (deployment["spec"].get("strategy") or {}).get("rollingUpdate") or {}
    replicas = wanted_replicas(deployment)
    surge = scaled_value(rolling.get("maxSurge", "25%"), replicas, up=True)
    unavailable = scaled_value(rolling.get("maxUnavailable", "25%"), replicas, up=False)
    if surge == 0 and unavailable == 0:
        unavailable = 1
    return RollingLimits(surge, min(unavailable, replicas))


def scaled_value(value: Any, total: int, *, up: bool) -> int:
    """A number, or a percentage of the total, rounded up or down."""
    if isinstance(value, str) and value.endswith("%"):
        part = int(value[:-1]) * total
        return -(-part // 100) if up else part // 100
    return int(value)


def replicas_annotations(deployment: Deployment) -> dict[str, str]:
    """What its ReplicaSets remember of a deployment's size, so that a change of it is noticed."""
    most = wanted_replicas(deployment) + bounds(deployment).surge
    return {DESIRED_REPLICAS: str(wanted_replicas(deployment)), MAX_REPLICAS: str(most)}


# -- sets -----------------------------------------------------------------------------------------------------------


def without_hash(template: PodTemplateSpec) -> PodTemplateSpec:
    metadata = template.get("metadata") or {}
    labels = {k: v for k, v in (metadata.get("labels") or {}).items() if k != POD_TEMPLATE_HASH_LABEL}
    return {**template, "metadata": {**metadata, "labels": labels}}


def new_replica_set(deployment: Deployment, sets: Collection[ReplicaSet]) -> ReplicaSet | None:
    """The ReplicaSet with the deployment's template; of several the oldest."""
    template = without_hash(deployment["spec"]["template"])
    for rs in sorted(sets, key=_age):
        if owned_pods.semantic_equal(without_hash(rs["spec"]["template"]), template):
            return rs
    return None


def _age(rs: ReplicaSet) -> tuple[str, str]:
    return rs["metadata"].get("creationTimestamp") or "", rs["metadata"]["name"]


def revision(rs: ReplicaSet) -> int:
    try:
        return int((rs["metadata"].get("annotations") or {}).get(REVISION, "0"))
    except ValueError:
        return 0


def next_revision(new: ReplicaSet | None, sets: Collection[ReplicaSet]) -> int:
    """The current set has the highest number; a roll-back makes an old one current again."""
    uid = new["metadata"]["uid"] if new is not None else ""
    highest = max((revision(rs) for rs in sets if rs["metadata"]["uid"] != uid), default=0)
    return revision(new) if new is not None and revision(new) > highest else highest + 1


def revision_annotations(rs: ReplicaSet, number: int) -> dict[str, str]:
    """The set's revision, and the ones it had before."""
    annotations = rs["metadata"].get("annotations") or {}
    before = annotations.get(REVISION)
    if before is None or before == str(number):
        return {REVISION: str(number)}
    history = [*(h for h in (annotations.get(REVISION_HISTORY) or "").split(",") if h), before]
    while len(",".join(history)) > _LONGEST_HISTORY:
        del history[0]
    return {REVISION: str(number), REVISION_HISTORY: ",".join(history)}


def cleanup_candidates(deployment: Deployment, old: Collection[ReplicaSet]) -> list[ReplicaSet]:
    """The oldest sets without pods beyond the number that is kept."""
    alive = [rs for rs in old if "deletionTimestamp" not in rs["metadata"]]
    alive.sort(key=lambda rs: (revision(rs), _age(rs)))
    surplus = alive[: max(0, len(alive) - deployment["spec"].get("revisionHistoryLimit", 10))]
    return [rs for rs in surplus if not replicas_of(rs) and not count(rs, "replicas") and _is_observed(rs)]


def _is_observed(rs: ReplicaSet) -> bool:
    return bool(count(rs, "observedGeneration") >= rs["metadata"].get("generation", 0))


# -- sizes ----------------------------------------------------------------------------------------------------------

Sizes = dict[str, int]  # how many replicas a set should have, by its name


def rolling_sizes(
    deployment: Deployment, new: ReplicaSet, old: Sequence[ReplicaSet], *, old_pods_left: bool = False
) -> Sizes:
    """How many replicas each ReplicaSet should have now; only those that change."""
    sizes = {rs["metadata"]["name"]: replicas_of(rs) for rs in (new, *old)}
    before = dict(sizes)
    name, replicas = new["metadata"]["name"], wanted_replicas(deployment)
    if is_recreating(deployment):
        for rs in old:
            sizes[rs["metadata"]["name"]] = 0
        if not old_pods_left and not any(replicas_of(rs) for rs in old):
            sizes[name] = replicas
    elif sizes[name] > replicas:
        sizes[name] = replicas
    else:
        limits = bounds(deployment)
        room = replicas + limits.surge - sum(sizes.values())
        sizes[name] += max(0, min(room, replicas - sizes[name]))
        if sizes == before:
            # One thing at a time: old sets shrink when the new one need not grow, or cannot.
            _scale_down_old(new, old, sizes, replicas - limits.unavailable)
    return {k: v for k, v in sizes.items() if v != before[k]}


def _scale_down_old(new: ReplicaSet, old: Sequence[ReplicaSet], sizes: Sizes, least: int) -> None:
    """Old sets give up pods that do not run first, then as many as availability allows."""
    unready_new = replicas_of(new) - count(new, "availableReplicas")
    can_go = sum(replicas_of(rs) for rs in (new, *old)) - least - unready_new
    if can_go <= 0:
        return
    oldest = sorted(old, key=_age)
    for rs in oldest:
        name = rs["metadata"]["name"]
        drop = max(0, min(replicas_of(rs) - count(rs, "availableReplicas"), can_go))
        sizes[name] -= drop
        can_go -= drop
    # A set that shrinks still counts pods as available that it has given up: never more than sizes allow.
    spare = min(sum(count(rs, "availableReplicas") for rs in (new, *old)) - least, can_go)
    for rs in oldest:
        name = rs["metadata"]["name"]
        drop = max(0, min(sizes[name], spare))
        sizes[name] -= drop
        spare -= drop


def is_scaling_event(deployment: Deployment, sets: Collection[ReplicaSet]) -> bool:
    """Whether the deployment's size has changed since its sets were last given theirs."""
    replicas = str(wanted_replicas(deployment))
    for rs in sets:
        known = (rs["metadata"].get("annotations") or {}).get(DESIRED_REPLICAS)
        if replicas_of(rs) and known is not None and known != replicas:
            return True
    return False


def scaled_sizes(deployment: Deployment, new: ReplicaSet | None, sets: Sequence[ReplicaSet]) -> Sizes:
    """The sizes for a new size of the whole: in the middle of a rollout each set gets its proportion."""
    active = [rs for rs in sets if replicas_of(rs)]
    replicas = wanted_replicas(deployment)
    only = active[0] if len(active) == 1 else None
    if not active and sets:
        only = new if new is not None else max(sets, key=_age)
    if only is not None:
        return {only["metadata"]["name"]: replicas}
    if new is not None and _is_saturated(deployment, new):
        return {rs["metadata"]["name"]: 0 for rs in active if rs["metadata"]["uid"] != new["metadata"]["uid"]}
    if is_recreating(deployment) or not active:
        return {}
    most = replicas + bounds(deployment).surge if replicas else 0
    change = most - sum(replicas_of(rs) for rs in active)
    # The largest first; of equal ones the newer grow and the older shrink first.
    ordered = sorted(active, key=_age, reverse=change > 0)
    ordered.sort(key=replicas_of, reverse=True)
    sizes: Sizes = {}
    left = change
    for rs in ordered:
        part = _proportion(deployment, rs, most, replicas)
        part = min(part, left) if change > 0 else max(part, left)
        sizes[rs["metadata"]["name"]] = replicas_of(rs) + (part if change else 0)
        left -= part if change else 0
    first = ordered[0]["metadata"]["name"]
    sizes[first] = max(0, sizes[first] + left)
    return sizes


def is_proportional(deployment: Deployment, new: ReplicaSet | None, sets: Collection[ReplicaSet]) -> bool:
    """Whether several sets have to share a change of size."""
    several = sum(1 for rs in sets if replicas_of(rs)) > 1
    return several and not (new is not None and _is_saturated(deployment, new))


def _is_saturated(deployment: Deployment, new: ReplicaSet) -> bool:
    """Whether the new set has all the pods there should be."""
    replicas = wanted_replicas(deployment)
    known = (new["metadata"].get("annotations") or {}).get(DESIRED_REPLICAS)
    return (
        replicas_of(new) == replicas
        and known == str(replicas)
        and count(new, "availableReplicas") == replicas
    )


def _proportion(deployment: Deployment, rs: ReplicaSet, most: int, replicas: int) -> int:
    """By how much a set grows or shrinks if all do alike."""
    if not replicas:
        return -replicas_of(rs)
    try:
        before = int((rs["metadata"].get("annotations") or {}).get(MAX_REPLICAS, "0"))
    except ValueError:
        before = 0
    before = before or (deployment.get("status") or {}).get("replicas", 0)
    if not before:
        return 0
    # Halves are rounded away from zero.
    return (2 * replicas_of(rs) * most + before) // (2 * before) - replicas_of(rs)


# -- status ---------------------------------------------------------------------------------------------------------


def replica_counts(
    deployment: Deployment, new: ReplicaSet | None, sets: Collection[ReplicaSet], *, terminating: bool = False
) -> DeploymentStatus:
    """The numbers; those of ``terminating`` pods only where a release has them."""

    def total(name: Count) -> int:
        return sum(count(rs, name) for rs in sets)

    available = total("availableReplicas")
    status: DeploymentStatus = {"observedGeneration": deployment["metadata"].get("generation", 0)}
    if replicas := total("replicas"):
        status["replicas"] = replicas
    if new is not None and (updated := count(new, "replicas")):
        status["updatedReplicas"] = updated
    if ready := total("readyReplicas"):
        status["readyReplicas"] = ready
    if available:
        status["availableReplicas"] = available
    if (unavailable := sum(replicas_of(rs) for rs in sets) - available) > 0:
        status["unavailableReplicas"] = unavailable
    leaving = _terminating(sets) if terminating else None
    if leaving is not None:
        status["terminatingReplicas"] = leaving
    if "collisionCount" in (deployment.get("status") or {}):
        status["collisionCount"] = deployment["status"]["collisionCount"]
    return status


def _terminating(sets: Collection[ReplicaSet]) -> int | None:
    """How many pods are on their way out; not known while a set that was looked at does not tell."""
    told = [
        (rs.get("status") or {}).get("terminatingReplicas") for rs in sets if count(rs, "observedGeneration")
    ]
    return None if None in told else sum(number for number in told if number is not None)


def is_complete(deployment: Deployment, status: DeploymentStatus) -> bool:
    """Whether all pods there should be are new and available, and there are no others."""
    if status.get("observedGeneration", 0) < deployment["metadata"].get("generation", 0):
        return False
    names = ("updatedReplicas", "replicas", "availableReplicas")
    return all(status.get(name, 0) == wanted_replicas(deployment) for name in names)


def _has_progressed(before: DeploymentStatus, after: DeploymentStatus) -> bool:
    def old(status: DeploymentStatus) -> int:
        return status.get("replicas", 0) - status.get("updatedReplicas", 0)

    grown = any(
        after.get(n, 0) > before.get(n, 0) for n in ("updatedReplicas", "readyReplicas", "availableReplicas")
    )
    return grown or old(after) < old(before)


def deadline(deployment: Deployment) -> int | None:
    """After how many seconds without progress a rollout has failed."""
    found: int | None = deployment["spec"].get("progressDeadlineSeconds", 600)
    return None if found is None or found == _NO_DEADLINE else found


def condition(status: DeploymentStatus, kind: str) -> DeploymentCondition | None:
    return next((c for c in status.get("conditions") or () if c["type"] == kind), None)


def _progress_reason(status: DeploymentStatus) -> str | None:
    progressing = condition(status, "Progressing")
    return None if progressing is None else progressing.get("reason")


def seconds_until_timed_out(deployment: Deployment, status: DeploymentStatus, now: float) -> float | None:
    """In how many seconds a rollout will have failed unless it progresses; None if that cannot happen."""
    limit, progressing = deadline(deployment), condition(status, "Progressing")
    if limit is None or progressing is None or is_complete(deployment, status):
        return None
    if progressing.get("reason") in (
        "NewReplicaSetAvailable",
        "ProgressDeadlineExceeded",
        "DeploymentPaused",
    ):
        return None
    return max(owned_pods.seconds(progressing.get("lastUpdateTime")) + limit - now, 0.0)


def status_of(
    deployment: Deployment,
    new: ReplicaSet | None,
    sets: Collection[ReplicaSet],
    *,
    now: float,
    created: bool = False,
    rolls: bool = True,
    terminating: bool = False,
) -> DeploymentStatus:
    """Counts and conditions.

    ``created`` says that the current set was made just now. A deployment that does not ``rolls`` at present, because it
    is paused, gets another size or is about to go, is not judged by its progress.
    """
    before = deployment.get("status") or {}
    status = replica_counts(deployment, new, sets, terminating=terminating)
    conditions = _Conditions(before, owned_pods.timestamp(now))
    least = wanted_replicas(deployment) - bounds(deployment).unavailable
    if status.get("availableReplicas", 0) >= least:
        message = "Deployment has minimum availability."
        conditions.set("Available", "True", "MinimumReplicasAvailable", message)
    else:
        message = "Deployment does not have minimum availability."
        conditions.set("Available", "False", "MinimumReplicasUnavailable", message)
    if deadline(deployment) is not None:
        _set_paused_condition(deployment, conditions)
        if new is not None:
            _set_replica_set_condition(new["metadata"]["name"], conditions, created=created)
    if not rolls:
        return {**status, "conditions": conditions.all}
    if deadline(deployment) is None:
        conditions.remove("Progressing")
    else:
        _set_progress_condition(deployment, new, status, conditions, now=now, created=created)
    failures = [c for rs in sorted(sets, key=lambda r: r is not new) for c in _failures(rs)]
    if failures:
        conditions.set(
            "ReplicaFailure", "True", failures[0].get("reason", ""), failures[0].get("message", "")
        )
    else:
        conditions.remove("ReplicaFailure")
    return {**status, "conditions": conditions.all} if conditions.all else status


def _failures(rs: ReplicaSet) -> list[ReplicaSetCondition]:
    return [c for c in (rs.get("status") or {}).get("conditions") or () if c["type"] == "ReplicaFailure"]


def with_failure(deployment: Deployment, message: str, *, now: float) -> DeploymentStatus:
    """The status that tells why there is no new set."""
    status = deployment.get("status") or {}
    if deadline(deployment) is None:
        return status
    conditions = _Conditions(status, owned_pods.timestamp(now))
    conditions.set("Progressing", "False", CREATE_ERROR, message)
    return {**status, "conditions": conditions.all}


def _set_paused_condition(deployment: Deployment, conditions: _Conditions) -> None:
    known = _progress_reason(deployment.get("status") or {})
    if deployment["spec"].get("paused"):
        if known not in ("DeploymentPaused", "ProgressDeadlineExceeded"):
            conditions.set("Progressing", "Unknown", "DeploymentPaused", "Deployment is paused")
    elif known == "DeploymentPaused":
        conditions.set("Progressing", "Unknown", "DeploymentResumed", "Deployment is resumed")


def _set_replica_set_condition(name: str, conditions: _Conditions, *, created: bool) -> None:
    if created:
        conditions.set("Progressing", "True", "NewReplicaSetCreated", f'Created new replica set "{name}"')
    elif condition({"conditions": conditions.all}, "Progressing") is None:
        conditions.set("Progressing", "True", "FoundNewReplicaSet", f'Found new replica set "{name}"')


def _set_progress_condition(
    deployment: Deployment,
    new: ReplicaSet | None,
    status: DeploymentStatus,
    conditions: _Conditions,
    *,
    now: float,
    created: bool,
) -> None:
    before = deployment.get("status") or {}
    known = _progress_reason(before)
    subject = f'Deployment "{deployment["metadata"]["name"]}"'
    if new is not None:
        subject = f'ReplicaSet "{new["metadata"]["name"]}"'
    rolling = status.get("replicas", 0) != status.get("updatedReplicas", 0)
    if known == "NewReplicaSetAvailable" and not created and not rolling:
        return  # the rollout is over; what happens to pods now is not its progress
    if is_complete(deployment, status):
        message = f"{subject} has successfully progressed."
        conditions.set("Progressing", "True", "NewReplicaSetAvailable", message)
    elif _has_progressed(before, status):
        conditions.set("Progressing", "True", "ReplicaSetUpdated", f"{subject} is progressing.", renew=True)
    elif seconds_until_timed_out(deployment, {**status, "conditions": conditions.all}, now) == 0.0:
        message = f"{subject} has timed out progressing."
        conditions.set("Progressing", "False", "ProgressDeadlineExceeded", message)


class _Conditions:
    """A deployment's conditions while they are being changed: one that changes goes to the end."""

    def __init__(self, status: DeploymentStatus, now: str) -> None:
        self.all: list[DeploymentCondition] = list(status.get("conditions") or ())
        self._now = now

    def set(self, kind: str, value: str, reason: str, message: str, *, renew: bool = False) -> None:
        known = next((c for c in self.all if c["type"] == kind), None)
        if known is not None and not renew and (known["status"], known.get("reason")) == (value, reason):
            return
        since = known["lastTransitionTime"] if known is not None and known["status"] == value else self._now
        self.remove(kind)
        self.all.append(
            {
                "type": kind,
                "status": value,
                "lastUpdateTime": self._now,
                "lastTransitionTime": since,
                "reason": reason,
                "message": message,
            }
        )

    def remove(self, kind: str) -> None:
        self.all = [c for c in self.all if c["type"] != kind]

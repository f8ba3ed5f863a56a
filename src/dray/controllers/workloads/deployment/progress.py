"""The status of a Deployment: counts, conditions, and whether its rollout progresses. Pure."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Final

from dray.api.times import from_epoch
from dray.controllers.workloads import owned_pods
from dray.controllers.workloads.deployment.rollout import Count, bounds, count, replicas_of, wanted_replicas

if TYPE_CHECKING:
    from dray.api.types.apps import (
        Deployment,
        DeploymentCondition,
        DeploymentStatus,
        ReplicaSet,
        ReplicaSetCondition,
    )


CREATE_ERROR: Final = "ReplicaSetCreateError"


#: A deployment that sets no deadline never fails.
_NO_DEADLINE: Final = 2147483647


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
    """How many pods are terminating; None while a ReplicaSet that was synced does not count them."""
    counts = [
        (rs.get("status") or {}).get("terminatingReplicas") for rs in sets if count(rs, "observedGeneration")
    ]
    return None if None in counts else sum(number for number in counts if number is not None)


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
    conditions = _Conditions(before, from_epoch(now))
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
    """The status when the new ReplicaSet could not be created."""
    status = deployment.get("status") or {}
    if deadline(deployment) is None:
        return status
    conditions = _Conditions(status, from_epoch(now))
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

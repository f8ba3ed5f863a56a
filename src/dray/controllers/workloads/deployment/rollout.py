"""How a Deployment gets from old ReplicaSets to a new one: revisions, and the size of each ReplicaSet. Pure."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

from dray.api.intstr import scaled_value
from dray.controllers.workloads import owned_pods

if TYPE_CHECKING:
    from dray.api.types.apps import (
        Deployment,
        ReplicaSet,
    )
    from dray.api.types.core import PodTemplateSpec


POD_TEMPLATE_HASH_LABEL: Final = "pod-template-hash"
REVISION: Final = "deployment.kubernetes.io/revision"
REVISION_HISTORY: Final = "deployment.kubernetes.io/revision-history"
DESIRED_REPLICAS: Final = "deployment.kubernetes.io/desired-replicas"
MAX_REPLICAS: Final = "deployment.kubernetes.io/max-replicas"
_LONGEST_HISTORY: Final = 2000


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

"""The PersistentVolumeClaims of a StatefulSet: created before their pod, and owned as the retention policy says."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final, Literal

from dray.api.errors import AlreadyExists, StatusError
from dray.client.resources import PERSISTENT_VOLUME_CLAIMS, PODS, STATEFULSETS, ObjectKey
from dray.controllers.controller import ControllerContext
from dray.controllers.workloads import controller_ref

if TYPE_CHECKING:
    from dray.api.types.apps import StatefulSet
    from dray.api.types.core import PersistentVolumeClaim, Pod, Volume
    from dray.api.types.meta import ObjectMeta, OwnerReference


RecordEvent = Callable[["StatefulSet", Literal["Normal", "Warning"], str, str], None]
_DELETE: Final = "Delete"


# -- decisions ------------------------------------------------------------------------------------------------------


def templates(stateful: StatefulSet) -> Sequence[PersistentVolumeClaim]:
    return stateful["spec"].get("volumeClaimTemplates") or ()


def claim_names(stateful: StatefulSet, index: int) -> dict[str, str]:
    """The names of one pod's claims, by the volume they are."""
    pod = f"{stateful['metadata']['name']}-{index}"
    return {t["metadata"]["name"]: f"{t['metadata']['name']}-{pod}" for t in templates(stateful)}


def claims_for(stateful: StatefulSet, index: int) -> list[PersistentVolumeClaim]:
    """The volume claims of one pod; they outlive it."""
    selected = (stateful["spec"].get("selector") or {}).get("matchLabels") or {}
    names = claim_names(stateful, index)
    claims: list[PersistentVolumeClaim] = []
    for template in templates(stateful):
        wanted = template["metadata"]
        metadata: ObjectMeta = {
            "name": names[wanted["name"]],
            "labels": {**(wanted.get("labels") or {}), **selected},
        }
        if "annotations" in wanted:
            metadata["annotations"] = wanted["annotations"]
        if "finalizers" in wanted:
            metadata["finalizers"] = wanted["finalizers"]
        claims.append({"metadata": metadata, "spec": template["spec"]})
    return claims


def volumes_for(stateful: StatefulSet, index: int, volumes: Sequence[Volume]) -> list[Volume]:
    """A pod's volumes: those of its claims, and the others it has."""
    names = claim_names(stateful, index)
    named: list[Volume] = [{"name": v, "persistentVolumeClaim": {"claimName": c}} for v, c in names.items()]
    return [*named, *(volume for volume in volumes if volume["name"] not in names)]


def storage_matches(stateful: StatefulSet, pod: Pod, index: int) -> bool:
    there = {v["name"]: v.get("persistentVolumeClaim") or {} for v in pod["spec"].get("volumes") or ()}
    wanted = claim_names(stateful, index)
    return all(there.get(volume, {}).get("claimName") == claim for volume, claim in wanted.items())


def _retention_policy(stateful: StatefulSet) -> tuple[bool, bool]:
    """Whether claims go when the set shrinks, and when it is deleted."""
    policy = stateful["spec"].get("persistentVolumeClaimRetentionPolicy") or {}
    return policy.get("whenScaled") == _DELETE, policy.get("whenDeleted") == _DELETE


def _refers_to(reference: OwnerReference, api_version: str, kind: str, name: str) -> bool:
    return (reference["apiVersion"], reference["kind"], reference["name"]) == (api_version, kind, name)


def _of_set(reference: OwnerReference, stateful: StatefulSet) -> bool:
    return _refers_to(reference, STATEFULSETS.api_version, "StatefulSet", stateful["metadata"]["name"])


def _of_pod(reference: OwnerReference, pod: Pod) -> bool:
    return _refers_to(reference, "v1", "Pod", pod["metadata"]["name"])


def has_unexpected_controller(claim: PersistentVolumeClaim, stateful: StatefulSet, pod: Pod) -> bool:
    """Whether the controller of a claim is neither the set nor its pod."""
    if not any(_retention_policy(stateful)):
        return False
    for reference in claim["metadata"].get("ownerReferences") or ():
        if _of_set(reference, stateful):
            if reference["uid"] != stateful["metadata"]["uid"]:
                return True
        elif _of_pod(reference, pod):
            if reference["uid"] != pod["metadata"].get("uid", ""):
                return True
        elif reference.get("controller"):
            return True
    return False


def retention_owners(
    claim: PersistentVolumeClaim, stateful: StatefulSet, pod: Pod, *, stays: bool
) -> list[OwnerReference] | None:
    """The owners a claim should have, or None where it has them; a pod that ``stays`` is one the set wants.

    A set that deletes claims owns them; when it shrinks, the claims follow the pods that go.
    """
    references: Sequence[OwnerReference] = claim["metadata"].get("ownerReferences") or []
    uid, its = stateful["metadata"]["uid"], pod["metadata"].get("uid", "")
    if any(_of_set(r, stateful) and r["uid"] != uid for r in references) or has_stale_owner(claim, pod):
        return None  # left behind by a set or a pod before: the garbage collector's business
    others = [r for r in references if not _of_set(r, stateful) and not _of_pod(r, pod)]
    owned = {r["uid"]: bool(r.get("controller")) for r in references if r["uid"] in (uid, its)}
    if has_unexpected_controller(claim, stateful, pod):
        return others if owned else None
    with_pods, with_set = _retention_policy(stateful)
    by_set = with_set and (stays or not with_pods)
    by_pod = with_pods and not stays
    if (uid in owned, its in owned) == (by_set, by_pod) and all(owned.values()):
        return None
    wanted = list(others)
    if by_set:
        wanted.append(controller_ref.owner_reference(STATEFULSETS, stateful))
    if by_pod:
        wanted.append(controller_ref.owner_reference(PODS, pod))
    return wanted


def has_stale_owner(claim: PersistentVolumeClaim, pod: Pod) -> bool:
    """Whether a claim belongs to a pod of that name which was there before."""
    references = claim["metadata"].get("ownerReferences") or ()
    return any(_of_pod(r, pod) and r["uid"] != pod["metadata"].get("uid", "") for r in references)


# -- the claims -----------------------------------------------------------------------------------------------------


class VolumeClaims:
    """Makes and tends the claims of a controller's pods; ``verb`` is how this release spells an event's first word."""

    def __init__(self, context: ControllerContext, say: RecordEvent, verb: Callable[[str], str]) -> None:
        self._context = context
        self._record_event = say
        self._verb = verb
        self._claims = context.informers.get(PERSISTENT_VOLUME_CLAIMS)

    def are_stale(self, key: ObjectKey, stateful: StatefulSet, index: int, pod: Pod) -> bool:
        """Whether a pod must wait until the claims of the one before it are gone."""
        if not _retention_policy(stateful)[0]:
            return False
        known = (self._claims.get(key.namespace, name) for name in claim_names(stateful, index).values())
        return any(claim is not None and has_stale_owner(claim, pod) for claim in known)

    async def create_missing(self, key: ObjectKey, stateful: StatefulSet, index: int, pod: str) -> None:
        """Make what is missing."""
        problems: list[str] = []
        for claim in claims_for(stateful, index):
            name = claim["metadata"]["name"]
            known = self._claims.get(key.namespace, name)
            if known is not None:
                if "deletionTimestamp" in known["metadata"]:
                    problems.append(f"pvc {name} is being deleted")
                continue
            of = f"in StatefulSet {key.name}"
            try:
                await self._context.client.create(PERSISTENT_VOLUME_CLAIMS, key.namespace, claim)
            except AlreadyExists:
                continue  # it is there, and will be seen
            except StatusError as problem:
                problems.append(f"failed to create PVC {name}: {problem}")
                message = f"{self._verb('create')} Claim {name} for Pod {pod} {of} failed error: {problem}"
                self._record_event(stateful, "Warning", "FailedCreate", message)
            else:
                message = f"{self._verb('create')} Claim {name} Pod {pod} {of} success"
                self._record_event(stateful, "Normal", "SuccessfulCreate", message)
        if problems:
            raise StatusError(problems[0] if len(problems) == 1 else f"[{', '.join(problems)}]")

    def match_retention_policy(
        self, key: ObjectKey, stateful: StatefulSet, index: int, pod: Pod, *, stays: bool
    ) -> bool:
        known = (self._claims.get(key.namespace, name) for name in claim_names(stateful, index).values())
        return all(c is None or retention_owners(c, stateful, pod, stays=stays) is None for c in known)

    async def apply_retention_policy(
        self, key: ObjectKey, stateful: StatefulSet, index: int, pod: Pod, *, stays: bool
    ) -> None:
        """Give claims the owners they should have."""
        for name in claim_names(stateful, index).values():
            claim = self._claims.get(key.namespace, name)
            if claim is None:
                continue
            if has_unexpected_controller(claim, stateful, pod):
                message = (
                    f"PersistentVolumeClaim {name} has a conflicting OwnerReference that acts as a manging controller, "
                    "the retention policy is ignored for this claim"
                )
                self._record_event(stateful, "Warning", "ConflictingController", message)
            wanted = retention_owners(claim, stateful, pod, stays=stays)
            if wanted is not None:
                metadata: ObjectMeta = {**claim["metadata"], "ownerReferences": wanted}
                await self._context.client.update(
                    PERSISTENT_VOLUME_CLAIMS, key.namespace, {**claim, "metadata": metadata}
                )

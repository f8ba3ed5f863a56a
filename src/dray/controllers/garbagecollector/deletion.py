"""What is to become of an object, given how its owners are. Pure."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from dray.controllers.garbagecollector.graph import FOREGROUND, ORPHAN

if TYPE_CHECKING:
    from dray.api.types.meta import ObjectMeta


PropagationPolicy = Literal["Orphan", "Foreground", "Background"]


class OwnerState(enum.Enum):
    """How an owner is, by the server's latest word."""

    SOLID = "there"
    ABSENT = "not there"
    WAITING = "being deleted once its dependents are gone"


@dataclass(frozen=True, slots=True)
class Keep:
    """It is nobody's garbage."""


@dataclass(frozen=True, slots=True)
class RemoveOwners:
    """It stays with the owners it still has; references to the others go."""

    owners: tuple[str, ...]  # uids


@dataclass(frozen=True, slots=True)
class Delete:
    """It goes. ``unblock``: first let its owners go ahead, because one that is in turn its dependent waits already."""

    policy: PropagationPolicy
    unblock: bool = False


Decision = Keep | RemoveOwners | Delete


def owner_state(owner: ObjectMeta) -> OwnerState:
    """The state of an owner that exists."""
    waiting = "deletionTimestamp" in owner and FOREGROUND in (owner.get("finalizers") or ())
    return OwnerState.WAITING if waiting else OwnerState.SOLID


def decide(
    metadata: ObjectMeta,
    owners: Sequence[tuple[str, OwnerState]],
    *,
    has_dependents: bool,
    dependent_waits: bool,
) -> Decision:
    """What becomes of an object that is not being deleted.

    ``owners`` are uid and state of each owner reference; ``dependent_waits`` says that one of the object's own
    dependents is being deleted in the foreground.
    """
    if not owners:
        return Keep()
    states = {state for _, state in owners}
    if OwnerState.SOLID in states:
        lost = tuple(uid for uid, state in owners if state is not OwnerState.SOLID)
        return RemoveOwners(lost) if lost else Keep()
    if OwnerState.WAITING in states and has_dependents:
        return Delete("Foreground", unblock=dependent_waits)
    return Delete(_policy(metadata))


def _policy(metadata: ObjectMeta) -> PropagationPolicy:
    """How dependents are to be dealt with: as finalizers on the object already say, else later, in the background."""
    finalizers = metadata.get("finalizers") or ()
    if ORPHAN in finalizers:
        return "Orphan"
    return "Foreground" if FOREGROUND in finalizers else "Background"


# -- patches --------------------------------------------------------------------------------------------------------
# Strategic merge first, which needs no version; kinds that do not know it get the whole list with one.


def without_owners(uid: str, owners: Sequence[str]) -> dict[str, Any]:
    """A strategic merge patch that removes owner references, provided that the object has this ``uid``."""
    return {"metadata": {"ownerReferences": [{"$patch": "delete", "uid": o} for o in owners], "uid": uid}}


def without_owners_merge(metadata: ObjectMeta, owners: Sequence[str]) -> dict[str, Any]:
    """The same as a JSON merge patch for an object at a version."""
    left = [r for r in metadata.get("ownerReferences") or () if r["uid"] not in owners]
    return _conditional(metadata, "ownerReferences", left)


def unblocked(metadata: ObjectMeta) -> dict[str, Any]:
    """A strategic merge patch that lets the owners of an object go without waiting for it."""
    blocking = [r for r in metadata.get("ownerReferences") or () if r.get("blockOwnerDeletion")]
    return {
        "metadata": {
            "ownerReferences": [{**r, "blockOwnerDeletion": False} for r in blocking],
            "uid": metadata["uid"],
        }
    }


def unblocked_merge(metadata: ObjectMeta) -> dict[str, Any]:
    changed = [{**r, "blockOwnerDeletion": False} for r in metadata.get("ownerReferences") or ()]
    return _conditional(metadata, "ownerReferences", changed)


def without_finalizer(metadata: ObjectMeta, finalizer: str) -> dict[str, Any] | None:
    """A JSON merge patch that removes a finalizer; None if it is not there."""
    present = metadata.get("finalizers") or ()
    if finalizer not in present:
        return None
    return _conditional(metadata, "finalizers", [f for f in present if f != finalizer])


def _conditional(metadata: ObjectMeta, name: str, value: Sequence[Any]) -> dict[str, Any]:
    return {"metadata": {"resourceVersion": metadata["resourceVersion"], name: value or None}}

"""What the collector does with an object, given the state of its owners. Pure."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

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
    """The object stays as it is."""


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

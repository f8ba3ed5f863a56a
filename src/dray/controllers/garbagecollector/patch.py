"""Patches of owner references and finalizers. Pure.

The collector tries a strategic merge patch first, which needs no resource version. A kind that does not know such patches
gets a JSON merge patch with the whole list and the version.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dray.api.types import Object
    from dray.api.types.meta import ObjectMeta, OwnerReference


def without_owners(uid: str, owners: Sequence[str]) -> dict[str, Any]:
    """A strategic merge patch that removes owner references, provided that the object has this ``uid``."""
    return {"metadata": {"ownerReferences": [{"$patch": "delete", "uid": o} for o in owners], "uid": uid}}


def without_owners_merge(metadata: ObjectMeta, owners: Sequence[str]) -> dict[str, Any]:
    """The same as a JSON merge patch for an object at a version."""
    removed = frozenset(owners)
    left = [r for r in metadata.get("ownerReferences") or () if r["uid"] not in removed]
    return _conditional(metadata, "ownerReferences", left)


def unblocked(metadata: ObjectMeta) -> Object:
    """A strategic merge patch that lets the owners of an object go without waiting for it."""
    blocking = [r for r in metadata.get("ownerReferences") or () if r.get("blockOwnerDeletion")]
    return {
        "metadata": {
            "ownerReferences": [{**r, "blockOwnerDeletion": False} for r in blocking],
            "uid": metadata["uid"],
        }
    }


def unblocked_merge(metadata: ObjectMeta) -> dict[str, Any]:
    changed: list[OwnerReference] = [
        {**r, "blockOwnerDeletion": False} for r in metadata.get("ownerReferences") or ()
    ]
    return _conditional(metadata, "ownerReferences", changed)


def without_finalizer(metadata: ObjectMeta, finalizer: str) -> dict[str, Any] | None:
    """A JSON merge patch that removes a finalizer; None if it is not there."""
    present = metadata.get("finalizers") or ()
    if finalizer not in present:
        return None
    return _conditional(metadata, "finalizers", [f for f in present if f != finalizer])


def _conditional(metadata: ObjectMeta, name: str, value: Sequence[Any]) -> dict[str, Any]:
    return {"metadata": {"resourceVersion": metadata["resourceVersion"], name: value or None}}

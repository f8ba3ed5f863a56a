"""Patches of owner references and finalizers. Pure.

The collector tries a strategic merge patch first, which needs no resource version. A kind that does not know such patches
gets a JSON merge patch with the whole list and the version.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

from dray.api.fields import Patch

if TYPE_CHECKING:
    from dray.api.types import Object
    from dray.api.types.meta import ObjectMeta, OwnerReference


def without_owners(uid: str, owners: Sequence[str]) -> Patch[Object]:
    """A strategic merge patch that removes owner references, provided that the object has this ``uid``."""
    return Patch(
        {
            "metadata": {
                "ownerReferences": [{"$patch": "delete", "uid": owner} for owner in owners],
                "uid": uid,
            }
        }
    )


def without_owners_merge(metadata: ObjectMeta, owners: Sequence[str]) -> Patch[Object]:
    """The same as a JSON merge patch for an object at a version."""
    removed = frozenset(owners)
    left = [r for r in metadata.get("ownerReferences") or () if r["uid"] not in removed]
    return _conditional(metadata, "ownerReferences", left)


def unblocked(metadata: ObjectMeta) -> Patch[Object]:
    """A strategic merge patch that lets the owners of an object go without waiting for it."""
    blocking = [r for r in metadata.get("ownerReferences") or () if r.get("blockOwnerDeletion")]
    return Patch(
        {
            "metadata": {
                "ownerReferences": [{**r, "blockOwnerDeletion": False} for r in blocking],
                "uid": metadata["uid"],
            }
        }
    )


def unblocked_merge(metadata: ObjectMeta) -> Patch[Object]:
    changed: list[OwnerReference] = [
        {**r, "blockOwnerDeletion": False} for r in metadata.get("ownerReferences") or ()
    ]
    return _conditional(metadata, "ownerReferences", changed)


def without_finalizer(metadata: ObjectMeta, finalizer: str) -> Patch[Object] | None:
    """A JSON merge patch that removes a finalizer; None if it is not there."""
    present = metadata.get("finalizers") or ()
    if finalizer not in present:
        return None
    return _conditional(metadata, "finalizers", [f for f in present if f != finalizer])


def _conditional(
    metadata: ObjectMeta, name: Literal["ownerReferences", "finalizers"], value: Sequence[object]
) -> Patch[Object]:
    return Patch({"metadata": {"resourceVersion": metadata["resourceVersion"], name: value or None}})

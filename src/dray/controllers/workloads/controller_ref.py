"""The objects that an owner controls: found by owner, adopted when its selector matches, released when it does not."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from dray.api.errors import Invalid, NotFound
from dray.api.fields import Patch
from dray.api.objects import controller_of
from dray.api.selectors import label_selector
from dray.client.client import Client, PatchType
from dray.client.resources import Resource, T

if TYPE_CHECKING:
    from dray.api.types import Object
    from dray.api.types.meta import LabelSelector, ObjectMeta, OwnerReference


def matches(selector: LabelSelector | None) -> Callable[[Object], bool]:
    """Whether an object's labels satisfy a workload's selector. An empty one selects nothing."""
    if not selector or not (selector.get("matchLabels") or selector.get("matchExpressions")):
        return lambda obj: False
    test = label_selector(selector)
    return lambda obj: test.matches(obj["metadata"].get("labels") or {})


def owner_reference(resource: Resource[Any], owner: Object) -> OwnerReference:
    metadata = owner["metadata"]
    return {
        "apiVersion": resource.api_version, "kind": resource.kind, "name": metadata["name"], "uid": metadata["uid"],
        "controller": True, "blockOwnerDeletion": True,
    }  # fmt: skip


async def claim_objects(
    client: Client,
    resource: Resource[Any],
    owner: Object,
    of: Resource[T],
    candidates: Iterable[T],
    test: Callable[[T], bool],
    *,
    finalizers: Sequence[str] = (),
) -> list[T]:
    """The owner's objects of a kind: orphans that match are adopted, own objects that no longer match are released.

    ``finalizers`` come and go with the ownership.
    """
    mine: list[T] = []
    uid = owner["metadata"]["uid"]
    leaving = "deletionTimestamp" in owner["metadata"]
    adopts: bool | None = None  # not known before it matters
    for one in candidates:
        controller = controller_of(one)
        if controller is not None:
            if controller["uid"] != uid:
                continue
            if test(one):
                mine.append(one)
            elif not leaving:
                await _release(client, of, one, uid, finalizers)
        elif not leaving and "deletionTimestamp" not in one["metadata"] and test(one):
            if adopts is None:
                adopts = await _can_adopt(client, resource, owner)
            if adopts:
                adopted = await _adopt(client, of, one, owner_reference(resource, owner), finalizers)
                if adopted is not None:
                    mine.append(adopted)
    return mine


async def _can_adopt(client: Client, resource: Resource[Any], owner: Object) -> bool:
    """What is about to go adopts nothing: its orphans, seen before its end is, would be caught in it."""
    metadata = owner["metadata"]
    try:
        now: Object = await client.get(resource, metadata["namespace"], metadata["name"])
    except NotFound:
        return False
    return now["metadata"]["uid"] == metadata["uid"] and "deletionTimestamp" not in now["metadata"]


async def _adopt(
    client: Client, of: Resource[T], one: T, reference: OwnerReference, finalizers: Sequence[str]
) -> T | None:
    metadata = one["metadata"]
    changes: ObjectMeta = {"uid": metadata["uid"], "ownerReferences": [reference]}
    if finalizers:
        changes["finalizers"] = list(finalizers)
    try:
        return await client.patch(
            of, metadata["namespace"], metadata["name"], {"metadata": changes}, type=PatchType.STRATEGIC
        )
    except (NotFound, Invalid):
        return None  # it is gone, or has another owner by now


async def _release(client: Client, of: Resource[T], one: T, owner: str, finalizers: Sequence[str]) -> None:
    metadata = one["metadata"]
    changes: Patch[ObjectMeta] = Patch(
        {"uid": metadata["uid"], "ownerReferences": [{"$patch": "delete", "uid": owner}]}
    )
    if finalizers:
        changes["$deleteFromPrimitiveList/finalizers"] = list(finalizers)
    with contextlib.suppress(NotFound, Invalid):
        await client.patch(
            of, metadata["namespace"], metadata["name"], {"metadata": changes}, type=PatchType.STRATEGIC
        )


def by_owner(obj: Object) -> list[str]:
    """Index: the uid of an object's controller, or its namespace for orphans."""
    controller = controller_of(obj)
    return [controller["uid"] if controller is not None else orphans_of(obj["metadata"]["namespace"])]


def orphans_of(namespace: str) -> str:
    """The index value of a namespace's objects without a controller."""
    return f"orphan:{namespace}"

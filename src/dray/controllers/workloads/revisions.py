"""Revisions: every template a workload has had, kept so that it can be found, compared and gone back to."""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Mapping
from typing import Any, Final

from dray.api.errors import AlreadyExists, NotFound
from dray.api.kinds import Object
from dray.client.client import Client
from dray.client.resources import CONTROLLER_REVISIONS, ObjectKey, Resource
from dray.controllers.workloads import owning

Document = Mapping[str, Any]
HASH_LABEL: Final = "controller-revision-hash"


class Collision(Exception):
    """Another template has the name that this one should get."""


def data_of(owner: Document) -> Object:
    """What a revision remembers: a patch that brings the template back."""
    return {"spec": {"template": {**owner["spec"]["template"], "$patch": "replace"}}}


def template_in(revision: Document) -> Document:
    kept = revision["data"]["spec"]["template"]
    return {name: value for name, value in kept.items() if name != "$patch"}


def number(revision: Document) -> int:
    found: int = revision.get("revision", 0)
    return found


def expendable(known: Collection[Document], *, in_use: Collection[str], limit: int) -> list[Document]:
    """The oldest revisions beyond the limit; those in use stay and do not count."""
    idle = sorted((r for r in known if r["metadata"]["name"] not in in_use), key=number)
    return idle[: max(0, len(idle) - limit)]


async def record(
    client: Client, resource: Resource, key: ObjectKey, owner: Document, known: Collection[Document]
) -> Object:
    """The revision of the owner's present template, which is made, or made the newest, where that is needed."""
    data = data_of(owner)
    following = max((number(r) for r in known), default=0) + 1
    for revision in known:
        if owning.same(revision["data"], data):
            if number(revision) == following - 1:
                return dict(revision)
            return await client.patch(
                CONTROLLER_REVISIONS,
                key.namespace,
                revision["metadata"]["name"],
                {"revision": following},
            )
    collisions = (owner.get("status") or {}).get("collisionCount") or 0
    digest = owning.template_hash(owner["spec"]["template"], collisions)
    labels = (owner["spec"]["template"].get("metadata") or {}).get("labels") or {}
    metadata: Object = {
        "name": f"{key.name}-{digest}",
        "labels": {**labels, HASH_LABEL: digest},
        "ownerReferences": [owning.owner_reference(resource, owner)],
    }
    annotations = owner["metadata"].get("annotations")
    if annotations:
        metadata["annotations"] = annotations
    wanted = {"metadata": metadata, "data": data, "revision": following}
    try:
        return await client.create(CONTROLLER_REVISIONS, key.namespace, wanted)
    except AlreadyExists:
        other = await client.get(CONTROLLER_REVISIONS, key.namespace, metadata["name"])
        if owning.same(other["data"], data):
            return other
        raise Collision(metadata["name"]) from None


async def discard(client: Client, revisions: Collection[Document]) -> None:
    for revision in revisions:
        metadata = revision["metadata"]
        with contextlib.suppress(NotFound):
            await client.delete(
                CONTROLLER_REVISIONS, metadata["namespace"], metadata["name"], uid=metadata["uid"]
            )

"""ControllerRevisions: every template that a DaemonSet or StatefulSet has had, kept for comparison and roll-back."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, Any, Final, cast

from dray.api.errors import AlreadyExists, NotFound
from dray.api.fields import Patch
from dray.api.release import Release
from dray.client.client import Client
from dray.client.informers import Informer
from dray.client.resources import CONTROLLER_REVISIONS, ObjectKey, Resource
from dray.controllers.workloads import controller_ref, owned_pods, pod_template_hash

if TYPE_CHECKING:
    from dray.api.types.apps import ControllerRevision, DaemonSet, StatefulSet
    from dray.api.types.core import PodTemplateSpec
    from dray.api.types.meta import ObjectMeta


#: On pods: the revision they are made from. On the revisions of DaemonSets: the hash in their name.
REVISION_HASH_LABEL: Final = "controller-revision-hash"
#: The same on the revisions of StatefulSets.
STATEFUL_HASH_LABEL: Final = "controller.kubernetes.io/hash"
_LONGEST_PREFIX: Final = 223
#: What Go writes for characters that mean something in HTML, or end a line in JavaScript.
_GO_ESCAPES: Final = str.maketrans({c: f"\\u{ord(c):04x}" for c in "<>&\u2028\u2029"})

#: The short name of a remembered template, given what is remembered, its owner, and how often names have collided.
RevisionHash = Callable[["Patch[StatefulSet]", "DaemonSet | StatefulSet", int | None], str]


class Collision(Exception):
    """Another template has the name that this one should get."""


def revision_data(owner: DaemonSet | StatefulSet) -> Patch[StatefulSet]:
    """What a revision remembers: a patch that brings the template back. That of a DaemonSet looks the same."""
    return Patch({"spec": {"template": {**owner["spec"]["template"], "$patch": "replace"}}})


def hash_of_data(data: Patch[StatefulSet], owner: DaemonSet | StatefulSet, collisions: int | None) -> str:
    """How StatefulSets name their revisions: by the very bytes that are remembered."""
    text = json.dumps(data, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return pod_template_hash.safe_encode(
        pod_template_hash.fnv1(f"{text.translate(_GO_ESCAPES)}{collisions or 0}".encode())
    )


def hash_of_template(release: Release) -> RevisionHash:
    """How DaemonSets do: by the template, as their release knows it."""

    def digest(data: Patch[StatefulSet], owner: DaemonSet | StatefulSet, collisions: int | None) -> str:
        return pod_template_hash.compute_hash(owner["spec"]["template"], collisions, release)

    return digest


def template_of(revision: ControllerRevision) -> PodTemplateSpec:
    owner: StatefulSet = revision["data"]  # as far as it is remembered
    kept = owner["spec"]["template"].items()
    return cast("PodTemplateSpec", {name: value for name, value in kept if name != "$patch"})


def number(revision: ControllerRevision) -> int:
    return revision.get("revision", 0)


def truncation_candidates(
    known: Collection[ControllerRevision], *, in_use: Collection[str], limit: int
) -> list[ControllerRevision]:
    """The oldest revisions beyond the limit; those in use stay and do not count."""
    idle = sorted((r for r in known if r["metadata"]["name"] not in in_use), key=number)
    return idle[: max(0, len(idle) - limit)]


async def claim_revisions(
    client: Client, resource: Resource[Any], owner: DaemonSet | StatefulSet, informer: Informer[Any]
) -> list[ControllerRevision]:
    """The owner's revisions, with those that an owner before it has left behind."""
    metadata = owner["metadata"]
    known = [
        *informer.by_index("owner", metadata["uid"]),
        *informer.by_index("owner", controller_ref.orphans_of(metadata["namespace"])),
    ]
    test = controller_ref.matches(owner["spec"].get("selector"))
    return await controller_ref.claim_objects(client, resource, owner, CONTROLLER_REVISIONS, known, test)


async def ensure_revision(
    client: Client,
    resource: Resource[Any],
    key: ObjectKey,
    owner: DaemonSet | StatefulSet,
    known: Collection[ControllerRevision],
    *,
    digest_of: RevisionHash,
    label: str = REVISION_HASH_LABEL,
) -> ControllerRevision:
    """The revision of the owner's present template, which is made, or made the newest, where that is needed."""
    data = revision_data(owner)
    following = max((number(r) for r in known), default=0) + 1
    for revision in sorted(known, key=number, reverse=True):
        if owned_pods.semantic_equal(revision["data"], data):
            if number(revision) == following - 1:
                return revision
            return await client.patch(
                CONTROLLER_REVISIONS,
                key.namespace,
                revision["metadata"]["name"],
                {"revision": following},
            )
    collisions = (owner.get("status") or {}).get("collisionCount")
    digest = digest_of(data, owner, collisions)
    labels = (owner["spec"]["template"].get("metadata") or {}).get("labels") or {}
    metadata: ObjectMeta = {
        "name": f"{key.name[:_LONGEST_PREFIX]}-{digest}",
        "labels": {**labels, label: digest},
        "ownerReferences": [controller_ref.owner_reference(resource, owner)],
    }
    annotations = owner["metadata"].get("annotations")
    if annotations:
        metadata["annotations"] = annotations
    try:
        return await client.create(
            CONTROLLER_REVISIONS,
            key.namespace,
            {"metadata": metadata, "data": data, "revision": following},
        )
    except AlreadyExists:
        other = await client.get(CONTROLLER_REVISIONS, key.namespace, metadata["name"])
        if owned_pods.semantic_equal(other["data"], data):
            return other
        raise Collision(metadata["name"]) from None


async def delete_revisions(client: Client, revisions: Collection[ControllerRevision]) -> None:
    for revision in revisions:
        metadata = revision["metadata"]
        with contextlib.suppress(NotFound):
            await client.delete(
                CONTROLLER_REVISIONS, metadata["namespace"], metadata["name"], uid=metadata["uid"]
            )

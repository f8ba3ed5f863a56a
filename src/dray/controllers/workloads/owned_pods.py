"""Pods and their owner: finding, adopting, making, ranking and counting them."""

from __future__ import annotations

import contextlib
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import msgspec

from dray.api.errors import Invalid, NotFound
from dray.api.objects import controller_of
from dray.api.selectors import label_selector
from dray.api.times import from_epoch, to_epoch
from dray.client.client import Client, PatchType
from dray.client.resources import Resource, T
from dray.controllers.controller import for_each
from dray.controllers.pod_status import pod_condition

if TYPE_CHECKING:
    from dray.api.types import Object
    from dray.api.types.core import Pod, PodTemplateSpec
    from dray.api.types.meta import LabelSelector, ObjectMeta, OwnerReference


_AT_ONCE: Final = 64
_LONGEST_NAME: Final = 253
_encode = msgspec.json.Encoder(order="deterministic").encode


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


def pod_from_template(
    template: PodTemplateSpec,
    resource: Resource[Any],
    owner: Object,
    *,
    labels: Mapping[str, str] | None = None,
) -> Pod:
    """A pod of the owner's template, named after it."""
    wanted = template.get("metadata") or {}
    metadata: ObjectMeta = {
        "generateName": _prefix(owner["metadata"]["name"]),
        "labels": {**(wanted.get("labels") or {}), **(labels or {})},
        "ownerReferences": [owner_reference(resource, owner)],
    }
    for name in ("annotations", "finalizers"):
        if wanted.get(name):
            metadata[name] = wanted[name]
    return {"metadata": metadata, "spec": template["spec"]}


def _prefix(name: str) -> str:
    """With a dash, unless that makes it too long for a name."""
    return f"{name}-" if len(name) < _LONGEST_NAME else name


def is_active(pod: Pod) -> bool:
    return not is_finished(pod) and "deletionTimestamp" not in pod["metadata"]


def is_terminating(pod: Pod) -> bool:
    """Deleted, and not over yet."""
    return "deletionTimestamp" in pod["metadata"] and not is_finished(pod)


def is_finished(pod: Pod) -> bool:
    return phase(pod) in ("Succeeded", "Failed")


def phase(pod: Pod) -> str:
    return (pod.get("status") or {}).get("phase") or "Pending"


def is_available(pod: Pod, min_ready: int, now: float) -> bool:
    ready = pod_condition(pod, "Ready")
    if ready is None or ready["status"] != "True":
        return False
    return not min_ready or seconds(ready.get("lastTransitionTime")) + min_ready <= now


def seconds(text: str | None) -> float:
    return to_epoch(text) if text else 0.0


def timestamp(moment: float) -> str:
    return from_epoch(moment)


def ranked_for_deletion(pods: Iterable[Pod], pods_per_node: Mapping[str, int] | None = None) -> list[Pod]:
    """Which pods to give up first.

    Those without a node, then those that do not run, are not ready, share their node with many (``crowd``, by node),
    have not been ready for long, restart often; at last the youngest. With a crowd, pods may declare themselves cheap.
    """

    def rank(pod: Pod) -> tuple[Any, ...]:
        ready = pod_condition(pod, "Ready")
        since = seconds(ready.get("lastTransitionTime")) if ready and ready["status"] == "True" else None
        node = pod["spec"].get("nodeName")
        return (
            bool(node),
            {"Pending": 0, "Unknown": 1}.get(phase(pod), 2),
            since is not None,
            _deletion_cost(pod) if pods_per_node is not None else 0,
            -pods_per_node.get(node or "", 0) if pods_per_node else 0,
            -since if since is not None else 0,
            -_restarts(pod),
            -seconds(pod["metadata"].get("creationTimestamp")),
            pod["metadata"]["name"],
        )

    return sorted(pods, key=rank)


def _deletion_cost(pod: Pod) -> int:
    annotations = pod["metadata"].get("annotations") or {}
    try:
        return int(annotations.get("controller.kubernetes.io/pod-deletion-cost", "0"))
    except ValueError:
        return 0


def _restarts(pod: Pod) -> int:
    statuses = (pod.get("status") or {}).get("containerStatuses") or ()
    return max((status.get("restartCount", 0) for status in statuses), default=0)


def semantic_equal(a: object, b: object) -> bool:
    return bool(_encode(a) == _encode(b))


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
    """The owner's objects of a kind: strays that match are adopted, own ones that no longer match are let go.

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
        now = await client.get(resource, metadata["namespace"], metadata["name"])
    except NotFound:
        return False
    return bool(now["metadata"]["uid"] == metadata["uid"] and "deletionTimestamp" not in now["metadata"])


async def _adopt(
    client: Client, of: Resource[T], one: T, reference: OwnerReference, finalizers: Sequence[str]
) -> T | None:
    metadata = one["metadata"]
    changes: dict[str, Any] = {"uid": metadata["uid"], "ownerReferences": [reference]}
    if finalizers:
        changes["finalizers"] = list(finalizers)
    try:
        return await client.patch(
            of, metadata["namespace"], metadata["name"], {"metadata": changes}, type=PatchType.STRATEGIC
        )
    except (NotFound, Invalid):
        return None  # it is gone, or somebody else's by now


async def _release(client: Client, of: Resource[T], one: T, owner: str, finalizers: Sequence[str]) -> None:
    metadata = one["metadata"]
    changes: dict[str, Any] = {
        "uid": metadata["uid"],
        "ownerReferences": [{"$patch": "delete", "uid": owner}],
    }
    if finalizers:
        changes["$deleteFromPrimitiveList/finalizers"] = list(finalizers)
    with contextlib.suppress(NotFound, Invalid):
        await client.patch(
            of, metadata["namespace"], metadata["name"], {"metadata": changes}, type=PatchType.STRATEGIC
        )


def by_owner(obj: Object) -> list[str]:
    """Index: the uid of an object's controller, or its namespace for strays."""
    controller = controller_of(obj)
    return [controller["uid"] if controller is not None else orphans_of(obj["metadata"]["namespace"])]


def orphans_of(namespace: str) -> str:
    """Under what the objects of a namespace that nobody owns are found in the index."""
    return f"stray:{namespace}"


def newer_of(seen: T | None, written: T | None) -> T | None:
    """The later of what was seen and what was written by ourselves; what is gone or new under its name is as seen."""
    if seen is None or written is None or seen["metadata"]["uid"] != written["metadata"]["uid"]:
        return seen
    first, second = (int(x["metadata"]["resourceVersion"]) for x in (seen, written))
    return written if second > first else seen


async def slow_start_batch(count: int, make: Callable[[], Awaitable[None]]) -> None:
    """Make so many, at first few at once: where the first fail, the others are not tried."""
    batch = 1
    while count > 0:
        await for_each([None] * min(batch, count), lambda _: make(), at_once=batch)
        count -= batch
        batch = min(batch * 2, _AT_ONCE)

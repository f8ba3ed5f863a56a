"""The namespace controller: it deletes everything in a namespace that is being deleted, and then removes its finalizer.

Where the release does so, pods are deleted before other content. The namespace's conditions say what is left, in
upstream's words.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from dray.api.errors import Conflict, MethodNotAllowed, NotFound, StatusError
from dray.api.times import from_epoch, to_epoch
from dray.client.resources import NAMESPACES, PODS, Resource
from dray.controllers import metadata
from dray.controllers.controller import Controller, ControllerContext
from dray.controllers.discovery import APIResource, ServerResources, discover

if TYPE_CHECKING:
    from dray.api.types import Object
    from dray.api.types.core import Namespace, NamespaceCondition, NamespaceSpec, NamespaceStatus, Pod


FINALIZER: Final = "kubernetes"
#: How long API servers beside this one may need to see that a namespace is being deleted.
GRACE_SECONDS: Final = 5.0
#: What finalizers are given before anybody looks again.
FINALIZER_SECONDS: Final = 15
#: Mostly finalizers are gone in no time: the first looks come soon after one another.
FIRST_RETRY_SECONDS: Final = 0.1

_CONDITIONS: Final = {
    "NamespaceDeletionDiscoveryFailure": ("ResourcesDiscovered", "All resources successfully discovered"),
    "NamespaceDeletionGroupVersionParsingFailure": (
        "ParsedGroupVersions",
        "All legacy kube types successfully parsed",
    ),
    "NamespaceDeletionContentFailure": (
        "ContentDeleted",
        "All content successfully deleted, may be waiting on finalization",
    ),
    "NamespaceContentRemaining": ("ContentRemoved", "All content successfully removed"),
    "NamespaceFinalizersRemaining": ("ContentHasNoFinalizers", "All content-preserving finalizers finished"),
}


# -- decisions ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class DeletionResult:
    """What became of the objects of one kind."""

    resource: Resource[Any]
    remaining: int = 0
    finalizers: Mapping[str, int] = field(default_factory=dict)
    estimate: int = 0  # seconds after which they should be gone
    problem: str = ""


def remaining_grace_seconds(pods: Iterable[Pod], *, deleted: float, now: float) -> int:
    """The longest grace period among running pods, or 0 when it is over since the namespace was deleted."""
    longest = max(
        (
            pod["spec"].get("terminationGracePeriodSeconds") or 0
            for pod in pods
            if (pod.get("status") or {}).get("phase") not in ("Succeeded", "Failed")
        ),
        default=0,
    )
    return 0 if now - deleted >= longest else longest


def deletion_result(
    resource: Resource[Any], namespace: str, left: Sequence[Object], *, grace: int
) -> DeletionResult:
    """The result when everything of a kind was deleted and the objects in ``left`` still exist."""
    if not left:
        return DeletionResult(resource)
    finalizers: dict[str, int] = {}
    for item in left:
        for name in item["metadata"].get("finalizers") or ():
            finalizers[name] = finalizers.get(name, 0) + 1
    if grace or finalizers:
        return DeletionResult(resource, len(left), finalizers, grace or FINALIZER_SECONDS)
    kind = f"{resource.group}/{resource.version}, Resource={resource.plural}"
    problem = f"unexpected items still remain in namespace: {namespace} for gvr: {kind}"
    return DeletionResult(resource, len(left), problem=problem)


def conditions(
    present: Sequence[NamespaceCondition],
    outcomes: Iterable[DeletionResult],
    discovered: ServerResources,
    *,
    pods_left: bool,
    now: str,
) -> list[NamespaceCondition] | None:
    """The conditions as they should be; None if they are so already.

    While pods remain, only failures are reported: other kinds have not been deleted yet.
    """
    wrong: dict[str, tuple[str, str]] = {}
    if discovered.failed:
        text = f"Discovery failed for some groups, {len(discovered.failed)} failing: {discovered.problem}"
        wrong["NamespaceDeletionDiscoveryFailure"] = ("DiscoveryFailed", text)
    outcomes = list(outcomes)
    if problems := sorted(o.problem for o in outcomes if o.problem):
        text = f"Failed to delete all resource types, {len(problems)} remaining: {', '.join(problems)}"
        wrong["NamespaceDeletionContentFailure"] = ("ContentDeletionFailed", text)
    if not pods_left:
        wrong |= _remaining(outcomes)
    return _merged_conditions(present, wrong, now)


def _remaining(outcomes: Sequence[DeletionResult]) -> dict[str, tuple[str, str]]:
    found = {}
    left = sorted(
        f"{o.resource.plural}.{o.resource.group} has {o.remaining} resource instances"
        for o in outcomes
        if o.remaining
    )
    if left:
        text = f"Some resources are remaining: {', '.join(left)}"
        found["NamespaceContentRemaining"] = ("SomeResourcesRemain", text)
    finalizers: dict[str, int] = {}
    for o in outcomes:
        for name, count in o.finalizers.items():
            finalizers[name] = finalizers.get(name, 0) + count
    if finalizers:
        held = ", ".join(
            sorted(f"{name} in {count} resource instances" for name, count in finalizers.items())
        )
        text = f"Some content in the namespace has finalizers remaining: {held}"
        found["NamespaceFinalizersRemaining"] = ("SomeFinalizersRemain", text)
    return found


def _merged_conditions(
    present: Sequence[NamespaceCondition], wrong: Mapping[str, tuple[str, str]], now: str
) -> list[NamespaceCondition] | None:
    result: dict[str, NamespaceCondition] = {c["type"]: c for c in present}
    changed = False
    for kind, fine in _CONDITIONS.items():
        reason, message = wrong.get(kind, fine)
        status = "True" if kind in wrong else "False"
        old = result.get(kind)
        if old is not None and (old["status"], old.get("reason"), old.get("message")) == (
            status,
            reason,
            message,
        ):
            continue
        since = old["lastTransitionTime"] if old is not None and old["status"] == status else now
        result[kind] = {
            "type": kind, "status": status, "lastTransitionTime": since, "reason": reason, "message": message,
        }  # fmt: skip
        changed = True
    return list(result.values()) if changed else None


# -- the controller -------------------------------------------------------------------------------------------------


class NamespaceController(Controller[str]):
    name = "namespace-controller"
    workers = 10

    def __init__(self, context: ControllerContext, *, grace_seconds: float = GRACE_SECONDS) -> None:
        super().__init__(context)
        self._grace = grace_seconds
        self._ordered = context.quirks.deletes_pods_first
        self._attempts: dict[str, int] = {}  # uid → how often we found something left
        self._namespaces = context.informers.get(NAMESPACES)
        self._namespaces.add_handler(
            on_add=self._set, on_update=lambda old, new: self._set(new), on_delete=self._deleted
        )

    def _set(self, namespace: Namespace) -> None:
        if "deletionTimestamp" in namespace["metadata"]:
            self.queue.add_after(namespace["metadata"]["name"], self._grace)

    def _deleted(self, namespace: Namespace) -> None:
        self._attempts.pop(namespace["metadata"]["uid"], None)

    async def sync(self, key: str) -> float | None:
        try:
            namespace = await self.context.client.get(NAMESPACES, "", key)
            if "deletionTimestamp" not in namespace["metadata"]:
                return None
            namespace = await self._mark_terminating(namespace)
            if not (namespace["spec"].get("finalizers") or ()):
                return None
            estimate = await self._delete_all_content(namespace)
            if estimate:
                return self._pause(namespace["metadata"]["uid"], estimate)
            await self._finalize(namespace)
        except NotFound:
            pass  # it is gone, as it should be
        return None

    def _pause(self, uid: str, estimate: int) -> float:
        looks = self._attempts[uid] = self._attempts.get(uid, 0) + 1
        return min(estimate // 2 + 1, FIRST_RETRY_SECONDS * math.pow(2, min(looks - 1, 16)))

    async def _mark_terminating(self, namespace: Namespace) -> Namespace:
        status = namespace.get("status") or {}
        if status.get("phase") == "Terminating":
            return namespace
        terminating: NamespaceStatus = {**status, "phase": "Terminating"}
        return await self.context.client.update_status(NAMESPACES, "", {**namespace, "status": terminating})

    async def _delete_all_content(self, namespace: Namespace) -> int:
        """Delete everything inside; returns the seconds after which what is left should be gone, or raises."""
        discovered = await discover(self.context.client)
        kinds = [s for s in discovered.resources if s.resource.namespaced and s.allows("delete")]
        first = [s for s in kinds if s.resource == PODS and self._ordered]
        outcomes = [await self._delete_all_of_resource(served, namespace) for served in first]
        pods_left = any(o.remaining for o in outcomes)
        if not pods_left:
            outcomes += [await self._delete_all_of_resource(s, namespace) for s in kinds if s not in first]
        status = namespace.get("status") or {}
        wanted = conditions(
            status.get("conditions") or (),
            outcomes,
            discovered,
            pods_left=pods_left,
            now=from_epoch(self.context.clock()),
        )
        if wanted is not None:
            await self.context.client.update_status(
                NAMESPACES,
                "",
                {**namespace, "status": {**status, "conditions": wanted}},
            )
        problems = [o.problem for o in outcomes if o.problem] + [discovered.problem] * bool(discovered.failed)
        if problems:
            raise StatusError("; ".join(problems))
        return max((o.estimate for o in outcomes), default=0)

    async def _delete_all_of_resource(self, served: APIResource, namespace: Namespace) -> DeletionResult:
        client, resource, name = self.context.client, served.resource, namespace["metadata"]["name"]
        grace = 0
        try:
            if resource == PODS:
                pods = await client.list(PODS, name)
                deleted = to_epoch(namespace["metadata"]["deletionTimestamp"])
                grace = remaining_grace_seconds(pods.items, deleted=deleted, now=self.context.clock())
            if served.allows("deletecollection"):
                await client.delete_collection(resource, name, propagation="Background")
            elif served.allows("list"):
                await self._delete_each(resource, name)
            left = (await metadata.listed(client, resource, name)).items if served.allows("list") else ()
        except (MethodNotAllowed, NotFound):
            return DeletionResult(resource)  # it was removed from the server since we asked
        except StatusError as problem:
            return DeletionResult(resource, estimate=grace, problem=str(problem))
        return deletion_result(resource, name, left, grace=grace)

    async def _delete_each(self, resource: Resource[Any], namespace: str) -> None:
        for item in (await metadata.listed(self.context.client, resource, namespace)).items:
            try:
                await self.context.client.delete(
                    resource, namespace, item["metadata"]["name"], propagation="Background"
                )
            except (NotFound, MethodNotAllowed):
                continue

    async def _finalize(self, namespace: Namespace) -> None:
        """Give up our hold. Other holders' finalizers stay, and so does the namespace, until they give up theirs."""
        name, uid = namespace["metadata"]["name"], namespace["metadata"]["uid"]
        while True:
            latest = await self.context.client.get(NAMESPACES, "", name)
            held = latest["spec"].get("finalizers") or ()
            if latest["metadata"]["uid"] != uid or FINALIZER not in held:
                return
            spec: NamespaceSpec = {**latest["spec"], "finalizers": sorted(set(held) - {FINALIZER})}
            try:
                await self.context.client.update(
                    NAMESPACES,
                    "",
                    {**latest, "spec": spec},
                    subresource="finalize",
                )
                return
            except Conflict:
                continue

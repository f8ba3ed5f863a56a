"""What the controllers of all kinds that own pods share: events, adoption, creation and deletion of pods."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Literal, TypeVar

from dray.api.errors import AlreadyExists, Forbidden, NotFound, StatusError
from dray.api.objects import controller_of
from dray.client.informers import Informer
from dray.client.resources import PODS, ObjectKey, Resource, key_of
from dray.controllers.controller import Controller, ControllerContext, Key, is_namespace_terminating
from dray.controllers.workloads import controller_ref, owned_pods
from dray.controllers.workloads.expectations import Expectations

if TYPE_CHECKING:
    from dray.api.types.apps import DaemonSet, ReplicaSet, StatefulSet
    from dray.api.types.batch import Job
    from dray.api.types.core import Pod, ReplicationController
    from dray.api.types.meta import LabelSelector


#: The kinds whose objects own pods.
Owner = TypeVar("Owner", "DaemonSet", "Job", "ReplicaSet", "ReplicationController", "StatefulSet")


@dataclass(frozen=True, kw_only=True, slots=True)
class EventMessages:
    """What events say of pods; ``{pod}`` and ``{owner}`` are names."""

    created: str = "Created pod: {pod}"
    not_created: str = "Error creating: {problem}"
    deleted: str = "Deleted pod: {pod}"
    not_deleted: str = "Error deleting: {problem}"


class PodOwnerController(Controller[ObjectKey | Key], Generic[Owner, Key]):
    """A controller of objects that own pods. Its keys are the objects', and perhaps others that a subclass adds."""

    resource: Resource[Owner]
    messages: EventMessages = EventMessages()
    #: What else its pods carry while they are its own.
    finalizers: ClassVar[tuple[str, ...]] = ()

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._owners: Informer[Owner] = context.informers.get(self.resource)
        self._pods = context.informers.get(PODS, indexers={"owner": controller_ref.by_owner})
        self._expected = Expectations(context.clock)
        self._owners.add_handler(
            on_set=lambda n: self.enqueue(key_of(n)), on_delete=lambda o: self._forget(key_of(o))
        )
        context.informers.owner_events(PODS).add_handler(
            self.resource.kind,
            on_change=self._pod_changed,
            on_delete=self._pod_deleted,
            on_orphan=self._pod_orphaned,
        )

    # -- events

    def _forget(self, key: ObjectKey) -> None:
        self._expected.forget(key)

    def _pod_changed(self, pod: Pod, old: Pod | None = None) -> None:
        key = self._owner_of(pod)
        if key is not None:
            self._expected.creation_observed(key, pod)
            self.enqueue(key)

    def _pod_deleted(self, pod: Pod) -> None:
        key = self._owner_of(pod)
        if key is not None:
            self._expected.deletion_observed(key, pod["metadata"]["uid"])
            self.enqueue(key)

    def _pod_orphaned(self, pod: Pod) -> None:
        """A pod without a controller: owners that select it may adopt it."""
        for owner in self._owners.items():
            same = owner["metadata"]["namespace"] == pod["metadata"]["namespace"]
            if same and controller_ref.matches(self.selector(owner))(pod):
                self.enqueue(key_of(owner))

    def selector(self, owner: Owner) -> LabelSelector | None:
        """Which pods an owner looks after."""
        found: LabelSelector | None = owner["spec"].get("selector")  # type: ignore[assignment]
        return found

    def _owner_of(self, pod: Pod) -> ObjectKey | None:
        """The key of a pod's owner, where that is one of ours."""
        owner = controller_of(pod)
        if owner is None or owner["kind"] != self.resource.kind:
            return None
        return ObjectKey(pod["metadata"]["namespace"], owner["name"])

    # -- pods

    def _owned_pods(self, owner: Owner) -> list[Pod]:
        return self._pods.by_index("owner", owner["metadata"]["uid"])

    async def _claim(
        self, owner: Owner, own: list[Pod], test: Callable[[Pod], bool] | None = None
    ) -> list[Pod]:
        """The owner's pods: orphans that its selector (or the test) wants are adopted, pods that it does not want released."""
        known = [
            *own,
            *self._pods.by_index("owner", controller_ref.orphans_of(owner["metadata"]["namespace"])),
        ]
        wanted = test or controller_ref.matches(self.selector(owner))
        return await controller_ref.claim_objects(
            self.context.client, self.resource, owner, PODS, known, wanted, finalizers=self.finalizers
        )

    async def _create_pod(self, key: ObjectKey, owner: Owner, wanted: Pod) -> None:
        name = wanted["metadata"].get("name")
        try:
            pod = await self.context.client.create(PODS, key.namespace, wanted)
        except StatusError as problem:
            if isinstance(problem, Forbidden) and is_namespace_terminating(problem):
                return  # the namespace is being deleted, so every attempt would fail
            if name is not None and isinstance(problem, AlreadyExists):
                raise  # another pod has the name: no event, but another attempt
            message = self.messages.not_created.format(pod=name, owner=key.name, problem=problem)
            self._record_event(owner, "Warning", "FailedCreate", message)
            raise
        self._expected.expect_creation(key, pod["metadata"]["uid"])
        message = self.messages.created.format(pod=pod["metadata"]["name"], owner=key.name)
        self._record_event(owner, "Normal", "SuccessfulCreate", message)

    async def _delete_pod(self, key: ObjectKey, owner: Owner, pod: Pod) -> None:
        name, uid = pod["metadata"]["name"], pod["metadata"]["uid"]
        self._expected.expect_deletion(key, uid)
        try:
            await self.context.client.delete(PODS, key.namespace, name, uid=uid)
        except NotFound:
            self._expected.deletion_observed(key, uid)
            return
        except StatusError as problem:
            self._expected.deletion_observed(key, uid)
            message = self.messages.not_deleted.format(pod=name, owner=key.name, problem=problem)
            self._record_event(owner, "Warning", "FailedDelete", message)
            raise
        self._record_event(
            owner, "Normal", "SuccessfulDelete", self.messages.deleted.format(pod=name, owner=key.name)
        )

    # -- the owner

    async def _update_status(self, key: ObjectKey, owner: Owner, status: Any) -> Owner:
        """The owner with its status, which is stored if it says anything new."""
        if owned_pods.semantic_equal(status, owner.get("status") or {}):
            return owner
        return await self.context.client.update_status(
            self.resource, key.namespace, {**owner, "status": status}
        )

    def _record_event(
        self, owner: Owner, kind: Literal["Normal", "Warning"], reason: str, message: str
    ) -> None:
        self.context.recorder.event(self.resource, owner, kind, reason, message)

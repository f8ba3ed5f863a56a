"""The garbage collector: it checks the objects that the graph points out, and deletes them, orphans their dependents or
removes finalizers.

It never deletes an object because of the graph alone. It reads the object and its owners first, and the deletion holds
only for the object as it was read.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from dray.api.errors import Conflict, NotFound, StatusError, UnsupportedMediaType
from dray.client.client import PatchType
from dray.client.resources import Resource
from dray.client.timeslice import WORKERS
from dray.client.workqueue import BASE_DELAY, MAX_DELAY
from dray.controllers import metadata
from dray.controllers.controller import Controller, ControllerContext, for_each
from dray.controllers.discovery import ServerResources, discover
from dray.controllers.garbagecollector import deletion, patch
from dray.controllers.garbagecollector.deletion import Decision, Delete, Keep, OwnerState, RemoveOwners
from dray.controllers.garbagecollector.graph import (
    FOREGROUND,
    ORPHAN,
    AttemptToDelete,
    AttemptToOrphan,
    Effect,
    Graph,
    InvalidOwnerNamespace,
    Node,
    ObjectReference,
    owners_of,
)
from dray.controllers.garbagecollector.monitors import Monitors, monitored_resources

if TYPE_CHECKING:
    from dray.api.fields import Patch
    from dray.api.types import Object
    from dray.api.types.meta import ObjectMeta


_log = logging.getLogger(__name__)

#: How often the server is asked for kinds it did not have before.
DISCOVERY_SECONDS: Final = 30.0
#: What a server is given to serve a kind after its definition has changed.
SETTLING_SECONDS: Final = 1.0


class UnknownKind(Exception):
    """A reference names a kind that the server does not have; perhaps not yet."""


class NamespacedOwnerOfClusterScopedObject(Exception):
    """A cluster-scoped object names an owner that lives in namespaces: no look at it will ever help."""


class GarbageCollector(Controller[AttemptToDelete | AttemptToOrphan]):
    name = "garbage-collector-controller"
    workers = 20

    def __init__(self, context: ControllerContext, *, discovery_seconds: float = DISCOVERY_SECONDS) -> None:
        super().__init__(context)
        self.graph = Graph()
        self._discovery_seconds = discovery_seconds
        self._kinds: Mapping[tuple[str, str], Resource[Any]] = {}
        self._monitors = Monitors(context.client, context.informers, self.graph, self._report)
        self._retries: dict[str, int] = {}  # uid → looks in a row that came to nothing

    async def run(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            try:
                tasks.create_task(self._run_discovery(tasks))
                await super().run()
            finally:
                self._monitors.stop()

    async def _run_discovery(self, tasks: asyncio.TaskGroup) -> None:
        """Watch whatever the server has, also what it has only since today."""
        while True:
            try:
                discovered = await discover(self.context.client)
            except StatusError as problem:
                _log.info("kinds cannot be discovered, trying again: %s", problem)
            else:
                self._sync_monitors(discovered, tasks)
            await self._until_kinds_may_have_changed()

    async def _until_kinds_may_have_changed(self) -> None:
        changed = self._monitors.crds_changed
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._discovery_seconds):
                await changed.wait()
                await asyncio.sleep(SETTLING_SECONDS)
        changed.clear()

    def _sync_monitors(self, discovered: ServerResources, tasks: asyncio.TaskGroup) -> None:
        wanted, kinds = monitored_resources(discovered), dict(discovered.kinds)
        if discovered.failed:
            # Of a group that cannot be seen now, what was known goes on being known.
            lost = {name.rpartition("/")[0] for name in discovered.failed}
            wanted = {k: r for k, r in self._monitors.resources.items() if r.group in lost} | wanted
            kinds = {k: r for k, r in self._kinds.items() if r.group in lost} | kinds
        if not wanted or (kinds == self._kinds and wanted == self._monitors.resources):
            return
        self._kinds = kinds
        self._monitors.sync(wanted, tasks)
        for uid in list(self._retries):
            self.enqueue(AttemptToDelete(uid))  # perhaps it waits for a kind that is there now

    def _report(self, effects: Sequence[Effect]) -> None:
        for effect in effects:
            match effect:
                case InvalidOwnerNamespace(dependent, owner):
                    self._record_invalid_namespace(dependent, owner.within(dependent.namespace))
                case AttemptToDelete(uid, rate_limited=True):
                    self.queue.add_after(AttemptToDelete(uid), self._backoff(uid))
                case _:
                    self.enqueue(effect)

    def _record_invalid_namespace(self, dependent: ObjectReference, owner: ObjectReference) -> None:
        group, _, version = dependent.api_version.rpartition("/")
        about: Object = {
            "metadata": {"namespace": dependent.namespace, "name": dependent.name, "uid": dependent.uid}
        }
        text = f'ownerRef {owner} does not exist in namespace "{dependent.namespace}"'
        resource = Resource(group, version, "", dependent.kind)
        self.context.recorder.event(resource, about, "Warning", "OwnerRefInvalidNamespace", text)

    # -- looking

    async def sync(self, key: AttemptToDelete | AttemptToOrphan) -> float | None:
        node = self.graph.get(key.uid)
        if node is None:
            self._retries.pop(key.uid, None)
        elif isinstance(key, AttemptToOrphan):
            await self._orphan(node)
        elif await self._settled(node):
            self._retries.pop(key.uid, None)
        else:
            return self._backoff(key.uid)
        return None

    def _backoff(self, uid: str) -> float:
        waits = self._retries[uid] = self._retries.get(uid, 0) + 1
        return min(BASE_DELAY * math.pow(2, min(waits - 1, 32)), MAX_DELAY)

    async def _settled(self, node: Node) -> bool:
        """Do what is to be done; False if it has to be looked at again, whatever the watches bring."""
        try:
            await self._attempt_to_delete(node)
        except NamespacedOwnerOfClusterScopedObject:
            return True
        except UnknownKind as problem:
            _log.debug("%s waits: %s", node.identity, problem)
            return False
        # A virtual one that exists, yet was not shown by any watch, may vanish without one, too.
        return not (node.virtual and self.graph.get(node.identity.uid) is node)

    async def _attempt_to_delete(self, node: Node) -> None:
        if node.deleting and not node.deleting_dependents:
            return  # on its way; its dependents get their turn when it is gone
        identity = node.identity
        try:
            latest = await self._read(identity)
        except NotFound:
            latest = None
        if latest is None or latest["uid"] != identity.uid:
            self._report(self.graph.absent(identity))
            return
        if node.deleting_dependents:
            await self._process_deleting_dependents(node)
            return
        decision = await self._decide(node, latest)
        match decision:
            case RemoveOwners(owners):
                await self._patch(
                    identity,
                    patch.without_owners(identity.uid, owners),
                    lambda current: patch.without_owners_merge(current, owners),
                )
            case Delete(policy, unblock):
                if unblock:
                    await self._patch(identity, patch.unblocked(latest), patch.unblocked_merge)
                    latest = await self._read(identity)
                await self._delete(identity, latest, policy)
            case Keep():
                pass

    async def _decide(self, node: Node, latest: ObjectMeta) -> Decision:
        namespace = node.identity.namespace
        states = [(o.uid, await self._owner_state(o.within(namespace))) for o in owners_of(latest)]
        dependents = self.graph.dependents(node)
        return deletion.decide(
            latest,
            states,
            has_dependents=bool(dependents),
            dependent_waits=any(d.deleting_dependents for d in dependents),
        )

    async def _owner_state(self, owner: ObjectReference) -> OwnerState:
        if self.graph.is_absent(owner):
            return OwnerState.ABSENT
        resource, namespace = self._address(owner)
        await WORKERS.pause_if_spent()
        try:
            found = await metadata.get(self.context.client, resource, namespace, owner.name)
        except NotFound:
            found = {}
        if found.get("uid") != owner.uid:
            self.graph.remember_absent(owner._replace(namespace=namespace))
            return OwnerState.ABSENT
        return deletion.owner_state(found)

    async def _process_deleting_dependents(self, node: Node) -> None:
        """An object waits for its dependents: it goes when none of them holds it, else they get a look."""
        blocking = self.graph.blocking(node)
        if not blocking:
            await self._remove_finalizer(node.identity, FOREGROUND)
            return
        for dependent in blocking:
            if not dependent.deleting_dependents:
                self.enqueue(AttemptToDelete(dependent.identity.uid))

    async def _orphan(self, node: Node) -> None:
        """Dependents forget the object, all of them; then it may go."""
        owner = node.identity.uid

        async def forget(dependent: Node) -> None:
            identity = dependent.identity
            with contextlib.suppress(NotFound):
                await self._patch(
                    identity,
                    patch.without_owners(identity.uid, [owner]),
                    lambda current: patch.without_owners_merge(current, [owner]),
                )

        await for_each(self.graph.dependents(node), forget)
        await self._remove_finalizer(node.identity, ORPHAN)

    # -- reading and writing

    def _resource(self, identity: ObjectReference) -> Resource[Any]:
        resource = self._kinds.get((identity.api_version, identity.kind))
        if resource is None:
            raise UnknownKind(f'no matches for kind "{identity.kind}" in version "{identity.api_version}"')
        return resource

    def _address(self, identity: ObjectReference) -> tuple[Resource[Any], str]:
        resource = self._resource(identity)
        if resource.namespaced and not identity.namespace:
            raise NamespacedOwnerOfClusterScopedObject
        return resource, identity.namespace if resource.namespaced else ""

    async def _read(self, identity: ObjectReference) -> ObjectMeta:
        resource, namespace = self._address(identity)
        return await metadata.get(self.context.client, resource, namespace, identity.name)

    async def _patch(
        self,
        identity: ObjectReference,
        strategic: Patch[Object],
        merge: Callable[[ObjectMeta], Patch[Object]],
    ) -> None:
        resource, namespace = self._address(identity)
        client = self.context.client
        try:
            await client.patch(resource, namespace, identity.name, strategic, type=PatchType.STRATEGIC)
        except UnsupportedMediaType:
            current = await metadata.get(client, resource, namespace, identity.name)
            if current["uid"] == identity.uid:
                await client.patch(resource, namespace, identity.name, merge(current))

    async def _delete(
        self, identity: ObjectReference, latest: ObjectMeta, policy: deletion.PropagationPolicy
    ) -> None:
        resource, namespace = self._address(identity)

        async def delete(*, version: str = "") -> None:
            await self.context.client.delete(
                resource,
                namespace,
                identity.name,
                uid=identity.uid,
                propagation=policy,
                resource_version=version,
            )

        try:
            try:
                await delete(version=latest["resourceVersion"])
            except Conflict:
                # Changes that leave the owners alone must not keep an object alive.
                current = await metadata.get(self.context.client, resource, namespace, identity.name)
                if current["uid"] != identity.uid or current.get("ownerReferences") != latest.get(
                    "ownerReferences"
                ):
                    raise
                await delete()
        except NotFound:
            self._report(self.graph.absent(identity))

    async def _remove_finalizer(self, identity: ObjectReference, finalizer: str) -> None:
        resource, namespace = self._address(identity)
        try:
            current = await metadata.get(self.context.client, resource, namespace, identity.name)
            if current["uid"] != identity.uid:
                return
            changes = patch.without_finalizer(current, finalizer)
            if changes is not None:
                await self.context.client.patch(resource, namespace, identity.name, changes)
        except NotFound:
            return

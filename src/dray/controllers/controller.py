"""What all controllers share: a queue of keys that informer handlers fill, and workers that ``sync`` one key at a time."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Final, Generic, TypeVar, cast

from dray.api.errors import Conflict, Forbidden
from dray.client.client import Client
from dray.client.events import EventRecorder
from dray.client.informers import Informer, Informers, Selection
from dray.client.resources import Resource, T
from dray.client.workqueue import WorkQueue
from dray.controllers.discovery import ServerResources
from dray.controllers.metrics import Metrics
from dray.controllers.owner_events import OwnerEvents
from dray.controllers.quirks import Quirks

if TYPE_CHECKING:
    from dray.api.types.meta import StatusDetails

_log = logging.getLogger(__name__)

#: How many seconds after a write that conflicted the key is tried again.
CONFLICT_SECONDS: Final = 0.02

#: Names of queues in upstream's metrics, where they are not those of the controllers.
_WORKQUEUE_NAMES: Final[Mapping[str, str]] = {
    "resourceclaim-controller": "resource_claim",
    "endpointslice-controller": "endpoint_slice",
    "endpoints-controller": "endpoint",
    "garbage-collector-controller": "garbage_collector_attempt_to_delete",
    "node-lifecycle-controller": "node_lifecycle_controller",
    "taint-eviction-controller": "noexec_taint_pod",
    "pod-garbage-collector-controller": "orphaned_pods_nodes",
    "resourcequota-controller": "resourcequota_primary",
    "root-ca-certificate-publisher-controller": "root_ca_cert_publisher",
    "clusterrole-aggregation-controller": "ClusterRoleAggregator",
    "bootstrap-signer-controller": "bootstrap_signer_queue",
    "device-taint-eviction-controller": "device-taint-eviction",
    "validatingadmissionpolicy-status-controller": "validatingadmissionpolicy-status",
}

Key = TypeVar("Key", bound=Hashable)
Item = TypeVar("Item")


class NotServed(Exception):
    """A controller needs a kind that the server does not have: it has no work there."""


class NotConfigured(Exception):
    """A controller needs a setting that it was not given: it cannot work here."""


class SharedInformers(Informers):
    """The informers of all controllers."""

    def __init__(self, client: Client, *, resync: float | None = None, watch_list: bool = False) -> None:
        super().__init__(client, resync=resync, watch_list=watch_list)
        self._owner_events: dict[Resource[Any], OwnerEvents[Any]] = {}

    def owner_events(self, resource: Resource[T]) -> OwnerEvents[T]:
        """The events of a resource's objects, by the kind of their owners."""
        found = self._owner_events.get(resource)
        if found is None:
            found = self._owner_events[resource] = OwnerEvents(self.get(resource))
        return found

    def existing(self, resource: Resource[T]) -> Informer[T] | None:
        """The informer of the whole collection if some controller uses one; none is started."""
        return self._informers.get(Selection(resource))


@dataclass(frozen=True, kw_only=True, slots=True)
class ControllerContext:
    """What a controller works with. ``client`` has the controller's own identity; informers are shared by all."""

    client: Client
    informers: SharedInformers
    recorder: EventRecorder
    quirks: Quirks
    clock: Callable[[], float] = time.time
    metrics: Metrics = field(default_factory=Metrics)
    discovered: ServerResources | None = None  # None: whatever is asked for is taken to be served

    def resource(self, resource: Resource[T], *versions: str) -> Resource[T]:
        """The resource in the first of ``versions`` (else its own) that the server has, or ``NotServed``."""
        if self.discovered is None:
            return resource
        found = self.discovered.first_served(resource, versions or (resource.version,))
        if found is None:
            raise NotServed(str(resource))
        return found


class Controller(Generic[Key]):
    """A queue of keys and workers that sync them.

    A subclass registers informer handlers in ``__init__`` which call ``enqueue``, and implements ``sync``. ``sync``
    returns None, or the seconds after which it wants the key again; when it raises, the key comes back after a pause.
    """

    name: ClassVar[str]
    workers: ClassVar[int] = 5

    def __init__(self, context: ControllerContext) -> None:
        self.context = context
        queue = _WORKQUEUE_NAMES.get(self.name) or self.name.removesuffix("-controller").replace("-", "_")
        self.queue: WorkQueue[Key] = WorkQueue(watch=context.metrics.queues.watch(queue))

    def enqueue(self, key: Key) -> None:
        self.queue.add(key)

    async def sync(self, key: Key) -> float | None:
        raise NotImplementedError

    async def run(self) -> None:
        """Work until cancelled; the informers are synced."""
        await self.queue.run(self._attempt, workers=self.workers)

    async def _attempt(self, key: Key) -> float | None:
        try:
            return await self.sync(key)
        except Conflict as problem:
            # Another writer was faster, which is no failure: the informer will show its change.
            _log.debug("%s has changed meanwhile and is looked at again: %s", key, problem)
            return CONFLICT_SECONDS


def is_namespace_terminating(problem: Forbidden) -> bool:
    """Whether an object could not be created because its namespace is being deleted."""
    details = cast("StatusDetails", problem.details or {})
    return any(cause.get("reason") == "NamespaceTerminating" for cause in details.get("causes") or ())


async def for_each(
    items: Sequence[Item], work: Callable[[Item], Awaitable[None]], *, at_once: int = 32
) -> None:
    """Work on all items, some at once; the first failure is raised when all have had their turn."""
    failures: list[BaseException] = []
    for at in range(0, len(items), at_once):
        done = await asyncio.gather(*map(work, items[at : at + at_once]), return_exceptions=True)
        failures += [result for result in done if result is not None]
    if failures:
        raise failures[0]

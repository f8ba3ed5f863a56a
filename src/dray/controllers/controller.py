"""What a controller is: informers that put keys into a queue, and a ``sync`` that makes one key right."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final, Generic, TypeVar

from dray.api.errors import Conflict
from dray.client.client import Client
from dray.client.events import EventRecorder
from dray.client.informers import Informer, Informers, Selection
from dray.client.resources import Resource, T
from dray.client.workqueue import WorkQueue
from dray.controllers.discovery import ServerResources
from dray.controllers.owner_events import OwnerEvents
from dray.controllers.quirks import Quirks
from dray.metrics.registry import Registry
from dray.metrics.workqueue import QueueMetrics

_log = logging.getLogger(__name__)

#: How soon to try again after a write that was made on old news.
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
        self._owned: dict[Resource[Any], OwnerEvents] = {}

    def owned(self, resource: Resource[Any]) -> OwnerEvents:
        """The news of a resource's objects by the kind of their owners."""
        found = self._owned.get(resource)
        if found is None:
            found = self._owned[resource] = OwnerEvents(self.get(resource))
        return found

    def existing(self, resource: Resource[T]) -> Informer[T] | None:
        """The informer that somebody has of the whole collection; none is made."""
        return self._informers.get(Selection(resource))


class Metrics:
    """What all controllers of a process count."""

    def __init__(self) -> None:
        self.registry = registry = Registry()
        self.queues = QueueMetrics(registry)
        self.claims_created = registry.counter(
            "resourceclaim_controller_creates_total",
            "Number of ResourceClaims creation requests, categorized by creation status and admin access",
            "status", "admin_access",
        )  # fmt: skip
        self.evicted = registry.counter(
            "device_taint_eviction_controller_pod_deletions_total",
            "Total number of Pods deleted by DeviceTaintEvictionController since its start.",
        )
        self.eviction_seconds = registry.histogram(
            "device_taint_eviction_controller_pod_deletion_duration_seconds",
            "Latency, in seconds, between the time when a device taint effect has been activated and a Pod's deletion "
            "via DeviceTaintEvictionController.",
            bounds=(0.005, 0.025, 0.1, 0.5, 1, 2.5, 10, 30, 60, 120, 180, 240),
        )
        self.pools_counted = registry.counter(
            "resourcepoolstatusrequest_controller_requests_processed_total",
            "Total number of ResourcePoolStatusRequests processed",
            "driver_name",
        )


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
        found = self.discovered.newest(resource, versions or (resource.version,))
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
            # Somebody else was faster, which is no failure: the news of it is on its way.
            _log.debug("%s has changed meanwhile and is looked at again: %s", key, problem)
            return CONFLICT_SECONDS


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

"""Events about objects, written in the background: the code that reports one never waits for the API server."""

from __future__ import annotations

import asyncio
import logging
import platform
import random
import re
import time
import uuid
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, Literal

from dray.api.errors import AlreadyExists, NotFound, StatusError
from dray.api.times import from_epoch
from dray.client.client import Client, PatchType
from dray.client.correlation import (
    Correlator,
    CountingCorrelator,
    EventWrite,
    Identity,
    Occurrence,
    SeriesCorrelator,
)
from dray.client.resources import EVENTS, EVENTS_V1, Resource
from dray.client.transport import Unreachable

if TYPE_CHECKING:
    from dray.api.types import Object
    from dray.api.types.core import Event as CoreEvent
    from dray.api.types.core import EventSource, ObjectReference
    from dray.api.types.events import Event
    from dray.api.types.meta import ObjectMeta

_log = logging.getLogger(__name__)

QUEUE_SIZE: Final = 1000
#: Writes under way at once. Events of one object may then overtake each other, which their times make up for.
WRITERS: Final = 8
ATTEMPTS: Final = 12
RETRY_SECONDS: Final = 10.0
FINISH_SECONDS: Final = 360.0
#: Between two lines of the log about events that were dropped.
TELL_SECONDS: Final = 10.0
_SUBDOMAIN: Final = re.compile(r"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?(?:\.[a-z0-9](?:[-a-z0-9]*[a-z0-9])?)*")


class EventRecorder:
    """Events from one component. ``event`` never waits; ``run`` writes them until it is cancelled.

    ``api`` is the group they are written to: "events.k8s.io" as the scheduler does it, "" for core/v1 as kubelets and
    most controllers do. ``patience``: seconds that a report waits before it is written, so that whatever it is about is
    not held up by it; those that have waited longer anyway go at once.
    """

    def __init__(
        self,
        client: Client,
        component: str,
        *,
        host: str = "",
        api: Literal["", "events.k8s.io"] = "",
        delay: float = 0.0,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._client = client
        self._component = component
        self._host = host
        self._instance = f"{component}-{host or platform.node()}"
        self._clock = clock
        # The resource, the correlator and the events are all of the one API or all of the other.
        self._resource: Resource[Any] = EVENTS_V1 if api else EVENTS
        self._correlator: Correlator[Any] = SeriesCorrelator() if api else CountingCorrelator()
        self._delay = delay
        self._queue: asyncio.Queue[tuple[float, EventWrite[Event | CoreEvent]]] = asyncio.Queue(QUEUE_SIZE)
        self._last_nanosecond = 0
        self._dropped = 0  # events, since somebody was told
        self._tell_next = 0.0

    def event(
        self,
        resource: Resource[Any],
        obj: Object,
        type: Literal["Normal", "Warning"],
        reason: str,
        message: str,
        *,
        action: str = "",
        related: tuple[Resource[Any], Object] | None = None,
        annotations: Mapping[str, str] | None = None,
    ) -> None:
        """Report that something happened to ``obj``, which is of ``resource``."""
        moment = self._clock()
        about, identity = _reference(resource, obj)
        related_to, related_identity = (None, ()) if related is None else _reference(*related)
        occurrence = Occurrence(identity, type, reason, message, action, related_identity)
        event = self._event(about, related_to, occurrence, moment)
        if annotations:
            event["metadata"]["annotations"] = dict(annotations)
        written = self._correlator.observe(occurrence, event, now=moment)
        if written is not None:
            self._enqueue(written)

    async def run(self) -> None:
        """Write what is reported. What cannot be written in several tries is given up."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._finish_series_periodically())
            # Most components report hardly anything: a writer comes when it is wanted.
            for _ in range(WRITERS):
                first = await self._queue.get()
                group.create_task(self._write_all(first))

    async def _write_all(self, first: tuple[float, EventWrite[Event | CoreEvent]]) -> None:
        due, written = first
        while True:
            if (pause := due - time.monotonic()) > 0:
                await asyncio.sleep(pause)
            await self._write(written)
            self._queue.task_done()
            due, written = await self._queue.get()

    async def flush(self) -> None:
        """Wait until everything reported so far has been written or given up; ``run`` must be running."""
        await self._queue.join()

    def _enqueue(self, written: EventWrite[Event | CoreEvent]) -> None:
        try:
            self._queue.put_nowait((time.monotonic() + self._delay, written))
        except asyncio.QueueFull:
            self._tell_dropped(written)

    def _tell_dropped(self, written: EventWrite[Event | CoreEvent]) -> None:
        """Say that events are dropped, now and then: they come by the thousand, and a line in a log costs more than one."""
        self._dropped += 1
        now = time.monotonic()
        if now >= self._tell_next:
            _log.warning(
                "too many events wait; dropped %d, now: %s", self._dropped, written.event.get("reason")
            )
            self._dropped, self._tell_next = 0, now + TELL_SECONDS

    async def _finish_series_periodically(self) -> None:
        while True:
            await asyncio.sleep(FINISH_SECONDS)
            for written in self._correlator.finish_series(now=self._clock()):
                self._enqueue(written)

    async def _write(self, written: EventWrite[Event | CoreEvent]) -> None:
        for _ in range(ATTEMPTS):
            try:
                await self._write_once(written)
                return
            except Unreachable as error:
                _log.info("an event cannot be written yet: %s", error)
            except AlreadyExists as error:
                if written.patch is None:
                    _log.debug("an event is there already: %s", error)
                    return
            except StatusError as error:
                _log.info("an event was refused: %s", error)
                return
            await asyncio.sleep(RETRY_SECONDS * random.uniform(1, 1.25))
        _log.warning("an event could not be written: %s", written.event.get("reason"))

    async def _write_once(self, written: EventWrite[Event | CoreEvent]) -> None:
        metadata = written.event["metadata"]
        if written.patch is not None:
            try:
                await self._client.patch(
                    self._resource,
                    metadata["namespace"],
                    metadata["name"],
                    written.patch,
                    type=PatchType.STRATEGIC,
                )
                return
            except NotFound:
                pass  # it has expired: as a new one, with its count
        await self._client.create(self._resource, metadata["namespace"], written.event)

    def _event(
        self, about: ObjectReference, related: ObjectReference | None, occurrence: Occurrence, moment: float
    ) -> Event | CoreEvent:
        metadata: ObjectMeta = {
            "name": self._name(about.get("name", ""), moment),
            "namespace": about.get("namespace", "default"),
        }
        if self._resource is EVENTS_V1:
            event: Event = {
                "metadata": metadata,
                "eventTime": f"{_second(int(moment))}.{int(moment % 1 * 1e6):06}Z",
                "reportingController": self._component,
                "reportingInstance": self._instance,
                "action": occurrence.action,
                "reason": occurrence.reason,
                "regarding": about,
                "note": occurrence.message,
                "type": occurrence.type,
            }
            return event if related is None else {**event, "related": related}
        when = f"{_second(int(moment))}Z"
        source: EventSource = {"component": self._component}
        if self._host:
            source["host"] = self._host
        return {
            "metadata": metadata,
            "involvedObject": about,
            "reason": occurrence.reason,
            "message": occurrence.message,
            "source": source,
            "firstTimestamp": when,
            "lastTimestamp": when,
            "count": 1,
            "type": occurrence.type,
            "reportingComponent": self._component,
            "reportingInstance": self._host,
        }

    def _name(self, about: str, moment: float) -> str:
        # Two events in one nanosecond would have one name, and the second be refused.
        self._last_nanosecond = max(int(moment * 1e9), self._last_nanosecond + 1)
        name = f"{about}.{self._last_nanosecond:x}"
        return name if len(name) <= 253 and _SUBDOMAIN.fullmatch(name) else str(uuid.uuid4())


@lru_cache(maxsize=1)  # thousands may be reported within a second
def _second(seconds: int) -> str:
    """A second as times begin with it."""
    return from_epoch(seconds).removesuffix("Z")


def _reference(resource: Resource[Any], obj: Object) -> tuple[ObjectReference, Identity]:
    """An object as events refer to it, and the same without its version, to be compared."""
    metadata = obj["metadata"]
    api_version, kind = resource.api_version, resource.kind
    namespace, name, uid = metadata.get("namespace"), metadata.get("name"), metadata.get("uid")
    reference: ObjectReference = {"apiVersion": api_version, "kind": kind}
    if namespace:
        reference["namespace"] = namespace
    if name:
        reference["name"] = name
    if uid:
        reference["uid"] = uid
    if version := metadata.get("resourceVersion"):
        reference["resourceVersion"] = version
    return reference, (api_version, kind, namespace or "", name or "", uid or "")

"""Events: what controllers have reported, and what a recorder writes."""

from __future__ import annotations

import asyncio

from dray.api import errors
from dray.client.events import EventRecorder
from dray.client.resources import Resource
from dray.server.admission import CREATE, DELETE, AdmissionChain, Attributes, RequestScope
from tests.support.controlplane import ControlPlane
from tests.support.fake_api import FakeAPIServer

EVENTS = Resource("", "v1", "events", "Event")


async def events_about(at: ControlPlane, kind: str, *, count: int = 1) -> list[tuple[str, str, str]]:
    """Type, reason and message of events about a kind, in order; nothing until there are so many."""
    listed = (await at.client.list(EVENTS, "default")).items
    about = [e for e in listed if e["involvedObject"]["kind"] == kind]
    about.sort(key=lambda e: int(e["metadata"]["resourceVersion"]))
    return [(e["type"], e["reason"], e["message"]) for e in about] if len(about) >= count else []


class DenyKind:
    """Admission that lets nobody create or delete objects of one kind."""

    name = "Refuse"

    def __init__(self, kind: str) -> None:
        self._kind = kind

    def handles(self, place: RequestScope) -> bool:
        return place.kind == self._kind and place.operation in (CREATE, DELETE)

    async def admit(self, attributes: Attributes) -> None:
        raise errors.Forbidden("no")

    @classmethod
    def install(cls, at: ControlPlane, kind: str) -> None:
        at.api.admission = AdmissionChain([cls(kind)])


async def wait_written(recorder: EventRecorder) -> None:
    """Run the recorder until everything that was reported has been written or given up."""
    task = asyncio.create_task(recorder.run())
    await recorder.flush()
    task.cancel()
    await asyncio.wait([task])


def event_writes(server: FakeAPIServer) -> list[tuple[str, object]]:
    """Method and body of every request."""
    return [(request.method, request.body) for request in server.requests]

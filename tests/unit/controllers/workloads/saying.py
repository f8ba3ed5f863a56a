"""What controllers have said in events."""

from __future__ import annotations

from dray.api import errors
from dray.client.resources import Resource
from dray.server.admission import CREATE, DELETE, AdmissionChain, Attributes, Place
from tests.unit.controllers.scene import Scene

EVENTS = Resource("", "v1", "events", "Event")


async def said(at: Scene, kind: str, *, count: int = 1) -> list[tuple[str, str, str]]:
    """Type, reason and message of events about a kind, in order; nothing until there are so many."""
    listed = (await at.client.list(EVENTS, "default")).items
    about = [e for e in listed if e["involvedObject"]["kind"] == kind]
    about.sort(key=lambda e: int(e["metadata"]["resourceVersion"]))
    return [(e["type"], e["reason"], e["message"]) for e in about] if len(about) >= count else []


class Refuse:
    """Admission that lets nobody create or delete objects of one kind."""

    name = "Refuse"

    def __init__(self, kind: str) -> None:
        self._kind = kind

    def concerns(self, place: Place) -> bool:
        return place.kind == self._kind and place.operation in (CREATE, DELETE)

    async def admit(self, attributes: Attributes) -> None:
        raise errors.Forbidden("no")

    @classmethod
    def install(cls, at: Scene, kind: str) -> None:
        at.api.admission = AdmissionChain([cls(kind)])

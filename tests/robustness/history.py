"""What clients did and saw: operations on single objects, lists, and watches, each with the times of call and return."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Literal, NamedTuple

Verb = Literal["create", "update", "delete", "get"]
#: ``unknown``: the answer never came, or says nothing about whether the write took place.
Outcome = Literal["ok", "exists", "conflict", "not found", "unknown"]


class Version(NamedTuple):
    """One state of one object. Values are unique, so a value names the write that made it."""

    value: str
    revision: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Operation:
    """One request for one object. ``called`` and ``returned`` are of one monotonic clock."""

    client: str
    key: str
    verb: Verb
    called: float
    returned: float
    outcome: Outcome
    value: str = ""  # what a write wrote, or what a read gave
    revision: int = 0  # what a write or a read gave; 0 where the answer does not say
    expected: int = 0  # the revision that an update or a delete asked for; 0 for none


@dataclass(frozen=True, kw_only=True, slots=True)
class Listing:
    """One LIST: the objects that it gave, at its revision."""

    client: str
    called: float
    returned: float
    revision: int
    items: dict[str, Version]


class Event(NamedTuple):
    """What one watch delivered at one place of its stream."""

    type: Literal["ADDED", "MODIFIED", "DELETED", "BOOKMARK"]
    revision: int
    key: str = ""
    value: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Watch:
    """One connection of one watcher: everything after ``start`` until the connection ended."""

    client: str
    start: int
    events: list[Event]


@dataclass
class History:
    operations: list[Operation] = field(default_factory=list)
    listings: list[Listing] = field(default_factory=list)
    watches: list[Watch] = field(default_factory=list)


def reference(watches: Iterable[Watch]) -> tuple[list[Event], list[str]]:
    """Every event that any watch saw, once and in order, and where two watches contradict each other."""
    known: dict[tuple[int, str], Event] = {}
    problems: list[str] = []
    for watch in watches:
        for event in watch.events:
            if event.type == "BOOKMARK":
                continue
            other = known.setdefault((event.revision, event.key), event)
            if other != event:
                problems.append(f"two watches differ at revision {event.revision}: {other} and {event}")
    return sorted(known.values(), key=lambda event: event.revision), problems


def with_known_outcomes(operations: Iterable[Operation], events: Iterable[Event]) -> list[Operation]:
    """Operations with what the watches know about them.

    A write without an answer took place if a watch delivered its value, and then at that revision. It did not take place
    if no watch delivered it; it is left out then. A delete without a revision has that of the event only if it is the
    sole one that can be meant, so it keeps its unknown revision otherwise.
    """
    made = {event.value: event.revision for event in events if event.type != "DELETED"}
    kept = []
    for operation in operations:
        if operation.outcome == "unknown" and operation.verb in ("create", "update"):
            if operation.value in made:
                kept.append(
                    replace(operation, outcome="ok", revision=made[operation.value], returned=float("inf"))
                )
        elif operation.outcome != "unknown" or operation.verb == "delete":
            kept.append(operation)
    return kept

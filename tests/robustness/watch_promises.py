"""The six promises of a watch, as etcd's robustness tests define them, checked on what watchers saw.

Ordered, unique, atomic, resumable, reliable and bookmarkable: of all events after the revision that a watch began at, it
delivers every one, once, in the order of revisions, all events of a revision together, and a bookmark only after
everything up to its revision.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from itertools import islice

from .history import Event, Listing, Operation, Version, Watch


def violations(watches: Iterable[Watch], reference: Sequence[Event]) -> list[str]:
    problems: list[str] = []
    for watch in watches:
        where = f"the watch of {watch.client} from {watch.start}"
        problems += [f"{where}: {problem}" for problem in (*_order(watch), *_completeness(watch, reference))]
    return problems


def _order(watch: Watch) -> Iterable[str]:
    """Ordered, unique, atomic."""
    last, seen, revisions = watch.start, set[tuple[int, str]](), set[int]()
    for event in watch.events:
        if event.type == "BOOKMARK":
            if event.revision < last:
                yield f"not ordered: bookmark {event.revision} after {last}"
            last = max(last, event.revision)
            continue
        if (event.revision, event.key) in seen:
            yield f"not unique: {event} came twice"
        elif event.revision < last and event.revision in revisions:
            yield f"not atomic: {event} after {last}"
        elif event.revision < last or event.revision == watch.start:
            yield f"not ordered: {event} after {last}"
        revisions.add(event.revision)
        seen.add((event.revision, event.key))
        last = max(last, event.revision)


def _completeness(watch: Watch, reference: Sequence[Event]) -> Iterable[str]:
    """Atomic, resumable, reliable, bookmarkable: nothing between the start and the last delivered revision is missing."""
    expected = islice(reference, bisect_right(reference, watch.start, key=_revision), None)
    waiting = next(expected, None)
    delivered: set[tuple[int, str]] = set()
    revisions: set[int] = set()  # of which at least a part was delivered
    for event in watch.events:
        bookmark = event.type == "BOOKMARK"
        while waiting is not None and (
            waiting.revision < event.revision or (bookmark and waiting.revision == event.revision)
        ):
            if (waiting.revision, waiting.key) not in delivered:
                if waiting.revision in revisions:
                    promise = "atomic"
                elif bookmark:
                    promise = "bookmarkable"
                else:
                    promise = "reliable" if delivered else "resumable"
                yield f"not {promise}: {waiting} is missing before {event}"
            waiting = next(expected, None)
        delivered.add((event.revision, event.key))
        if not bookmark:
            revisions.add(event.revision)


def _revision(event: Event) -> int:
    return event.revision


def lost_writes(operations: Iterable[Operation], reference: Sequence[Event]) -> list[str]:
    """Acknowledged writes that no watch ever delivered."""
    delivered = {event.value for event in reference if event.type != "DELETED"}
    return [
        f"{o.key}: {o.client} was told that {o.value} is written at {o.revision}, and no watch has it"
        for o in operations
        if o.verb in ("create", "update") and o.outcome == "ok" and o.value not in delivered
    ]


def wrong_listings(listings: Iterable[Listing], reference: Sequence[Event]) -> list[str]:
    """Lists that are not the state at the revision that they name."""
    problems: list[str] = []
    state: dict[str, Version] = {}
    events = iter(reference)
    waiting = next(events, None)
    for listing in sorted(listings, key=lambda listing: listing.revision):
        while waiting is not None and waiting.revision <= listing.revision:
            if waiting.type == "DELETED":
                state.pop(waiting.key, None)
            else:
                state[waiting.key] = Version(waiting.value, waiting.revision)
            waiting = next(events, None)
        for key in sorted(state.keys() | listing.items.keys()):
            if state.get(key) != listing.items.get(key):
                problems.append(
                    f"the list of {listing.client} at {listing.revision} has {listing.items.get(key)} for {key}, "
                    f"and the events say {state.get(key)}"
                )
    return problems


def stale_listings(listings: Iterable[Listing]) -> list[str]:
    """A list that began after another one had ended and is older than it."""
    problems: list[str] = []
    ended = sorted(listings, key=lambda listing: listing.returned)
    newest, position = 0, 0
    for listing in sorted(ended, key=lambda listing: listing.called):
        while position < len(ended) and ended[position].returned < listing.called:
            newest = max(newest, ended[position].revision)
            position += 1
        if listing.revision < newest:
            problems.append(
                f"the list of {listing.client} is of {listing.revision}, and {newest} was seen before it began"
            )
    return problems

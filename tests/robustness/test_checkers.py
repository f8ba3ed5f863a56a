"""The checkers themselves: a history of a right store passes, and every seeded mistake is found."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest

from .bookings import Bookings
from .history import Event, History, Listing, Operation, Version, Watch
from .run import LASTED, Report
from .verdict import violations


class Store:
    """A store in memory whose requests overlap: each takes place at some moment between its call and its return."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.now, self.revision = 0.0, 0
        self.objects: dict[str, Version] = {}
        self.events: list[Event] = []
        self.lists: list[tuple[float, int, dict[str, Version]]] = []

    def write(self, type_: Any, key: str, value: str) -> int:
        self.revision += 1
        return self._record(type_, key, value)

    def _record(self, type_: Any, key: str, value: str) -> int:
        self.events.append(Event(type_, self.revision, key, value))
        if type_ == "DELETED":
            del self.objects[key]
        else:
            self.objects[key] = Version(value, self.revision)
        return self.revision

    def request(self, number: int) -> Operation:
        key, verb = self.rng.choice("abc"), self.rng.choice(("create", "update", "delete", "get"))
        here = self.objects.get(key)
        value, expected = f"v{number}", 0
        if verb == "update" and here is not None:
            expected = here.revision if self.rng.random() < 0.7 else max(here.revision - 1, 1)
        self.now += 1
        called, returned = self.now - self.rng.uniform(0, 3), self.now + self.rng.uniform(0, 3)
        outcome, revision = self._answer(verb, key, value, here, expected)
        if verb == "get" and here is not None:
            value, revision = here
        if outcome == "ok" and verb != "get" and self.rng.random() < 0.1:
            outcome, revision = "unknown", 0
        return Operation(
            client=f"c{number % 4}", key=key, verb=verb, called=called, returned=returned,
            outcome=outcome, value=value, revision=revision, expected=expected,
        )  # fmt: skip

    def transact(self) -> Iterator[Operation]:
        """Every object is written at one revision."""
        self.revision += 1
        self.now += 1
        for key in "abc":
            here = self.objects.get(key)
            yield Operation(
                client=f"t{key}", key=key, verb="create" if here is None else "update",
                called=self.now - 0.5, returned=self.now + 0.5, outcome="ok", value=f"t{key}",
                revision=self._record("ADDED" if here is None else "MODIFIED", key, f"t{key}"),
            )  # fmt: skip

    def _answer(
        self, verb: str, key: str, value: str, here: Version | None, expected: int
    ) -> tuple[str, int]:
        if verb == "create":
            return ("exists", 0) if here is not None else ("ok", self.write("ADDED", key, value))
        if here is None:
            return "not found", 0
        if verb == "get":
            return "ok", here.revision
        if expected not in (0, here.revision):
            return "conflict", 0
        if verb == "delete":
            self.write("DELETED", key, here.value)
            return "ok", 0
        return "ok", self.write("MODIFIED", key, value)


#: After so many requests some objects are written at one revision.
TRANSACTION = 200


def make_history(seed: int, requests: int = 250) -> History:
    store = Store(seed)
    history = History()
    for number in range(requests):
        history.operations.append(store.request(number))
        if number == TRANSACTION:
            history.operations += store.transact()
        if number % 25 == 0:
            history.listings.append(
                Listing(
                    client="lister", called=store.now, returned=store.now,
                    revision=store.revision, items=dict(store.objects),
                )
            )  # fmt: skip
    cut = len(store.events) // 2
    bookmark = Event("BOOKMARK", store.revision)
    history.watches = [
        Watch(client="whole", start=0, events=[*store.events, bookmark]),
        Watch(client="first half", start=0, events=store.events[:cut]),
        Watch(client="resumed", start=store.events[cut - 1].revision, events=[*store.events[cut:], bookmark]),
    ]
    return history


@pytest.mark.parametrize("seed", range(20))
def test_a_right_history_passes(seed: int) -> None:
    assert violations(make_history(seed)) == []


def lose_a_write(history: History) -> None:
    """The store acknowledges a write and forgets it."""
    victim = next(o for o in history.operations[40:] if o.verb == "update" and o.outcome == "ok")
    for watch in history.watches:
        watch.events[:] = [event for event in watch.events if event.value != victim.value]


def read_stale(history: History) -> None:
    """A read gives what an earlier read, long over, had already seen replaced."""
    reads = [o for o in history.operations if o.verb == "get" and o.outcome == "ok" and o.key == "a"]
    old, new = next(
        (old, new)
        for old in reads
        for new in reads
        if new.called > old.returned and new.revision > old.revision
    )
    history.operations[history.operations.index(new)] = replace(new, value=old.value, revision=old.revision)
    history.operations.append(replace(new, called=old.returned + 0.001, returned=old.returned + 0.002))


def overwrite_blindly(history: History) -> None:
    """An update succeeds although its expected revision had been replaced."""
    index, stale = next((i, o) for i, o in enumerate(history.operations) if o.outcome == "conflict")
    history.operations[index] = replace(stale, outcome="ok", revision=10_000)
    for watch in history.watches:
        if watch.client != "first half":
            watch.events.append(Event("MODIFIED", 10_000, stale.key, stale.value))


def deliver_twice(history: History) -> None:
    events = history.watches[0].events
    events.insert(11, events[10])


def skip_an_event(history: History) -> None:
    del history.watches[0].events[10]


def skip_the_first_after_a_resumption(history: History) -> None:
    del history.watches[2].events[0]


def swap_two_events(history: History) -> None:
    events = history.watches[0].events
    events[10], events[11] = events[11], events[10]


def promise_too_much(history: History) -> None:
    """A bookmark comes before an event that it covers."""
    events = history.watches[0].events
    events.insert(10, Event("BOOKMARK", events[12].revision))


def in_one_transaction(events: list[Event]) -> int:
    """The index of the first of the events that are of one revision."""
    return next(index for index, event in enumerate(events) if event.revision == events[index + 1].revision)


def split_a_revision(history: History) -> None:
    """An event of the next revision comes before the last one of a transaction."""
    events = history.watches[0].events
    last = in_one_transaction(events) + 2
    events[last], events[last + 1] = events[last + 1], events[last]


def deliver_half_a_revision(history: History) -> None:
    events = history.watches[0].events
    del events[in_one_transaction(events) + 1]


def contradict(history: History) -> None:
    """Two watches have different content for one revision."""
    events = history.watches[0].events
    events[5] = events[5]._replace(value="another")


def list_a_mixture(history: History) -> None:
    """A list holds an object of a later revision than its own."""
    listing = next(each for each in history.listings if each.items)
    key = next(iter(listing.items))
    listing.items[key] = Version("later", listing.revision + 1)


def list_the_past(history: History) -> None:
    history.listings.append(replace(history.listings[0], called=1e6, returned=1e6 + 1))


SEEDED: list[tuple[Callable[[History], None], str]] = [
    (lose_a_write, "no watch has it"),
    (read_stale, "no order explains"),
    (overwrite_blindly, "no order explains"),
    (deliver_twice, "not unique"),
    (skip_an_event, "not reliable"),
    (skip_the_first_after_a_resumption, "not resumable"),
    (swap_two_events, "not ordered"),
    (split_a_revision, "not atomic"),
    (deliver_half_a_revision, "not atomic"),
    (promise_too_much, "not bookmarkable"),
    (contradict, "two watches differ"),
    (list_a_mixture, "and the events say"),
    (list_the_past, "was seen before it began"),
]


@pytest.mark.parametrize(("mistake", "words"), SEEDED, ids=[mistake.__name__ for mistake, _ in SEEDED])
@pytest.mark.parametrize("seed", range(5))
def test_a_seeded_mistake_is_found(mistake: Callable[[History], None], words: str, seed: int) -> None:
    history = make_history(seed)
    mistake(history)
    assert any(words in problem for problem in violations(history))


@pytest.mark.parametrize(
    ("lasted", "bookmarks", "found"), [(LASTED - 1, 0, 0), (LASTED, 0, 1), (LASTED, 1, 0)]
)
def test_a_run_with_watches_that_lasted_has_bookmarks(lasted: int, bookmarks: int, found: int) -> None:
    events = [Event("BOOKMARK", 1)] * bookmarks
    report = Report(0)
    report.see(History(watches=[Watch(client="w", start=1, events=events)]), lasted)
    assert report.bookmarks == bookmarks
    assert report.violations == ["no watch was sent a bookmark"] * found


SLICE = {
    "spec": {
        "driver": "d", "pool": {"name": "p"},
        "sharedCounters": [{"name": "card", "counters": {"memory": {"value": "40Gi"}}}],
        "devices": [
            {"name": "whole"},
            {"name": "shared", "capacity": {"memory": {"value": "10Gi"}}},
            *(
                {"name": name, "consumesCounters": [
                    {"counterSet": "card", "counters": {"memory": {"value": "25Gi"}}}]}
                for name in ("left", "right")
            ),
        ],
    }
}  # fmt: skip


def claim(name: str, *devices: str, memory: str = "", version: int = 1) -> dict[str, Any]:
    share = {"shareID": name, "consumedCapacity": {"memory": memory}} if memory else {}
    results = [{"driver": "d", "pool": "p", "device": device, "request": "r", **share} for device in devices]
    metadata = {"uid": name, "name": name, "namespace": "default", "resourceVersion": str(version)}
    return {
        "metadata": metadata,
        "status": {"allocation": {"devices": {"results": results}}} if devices else {},
    }


def bookings(*claims: dict[str, Any]) -> Iterator[str]:
    checker = Bookings([SLICE])
    for each in claims:
        checker.record("MODIFIED", each)
    yield from checker.violations


def test_what_is_given_back_can_be_given_again() -> None:
    assert not list(
        bookings(
            claim("a", "whole"), claim("a"), claim("b", "whole"),
            claim("c", "left"), claim("c"), claim("d", "right"),
            claim("e", "shared", memory="6Gi"), claim("e"), claim("f", "shared", memory="6Gi"),
            claim("g", "shared", memory="4Gi"),
        )
    )  # fmt: skip


@pytest.mark.parametrize(
    ("claims", "words"),
    [
        pytest.param([claim("a", "whole"), claim("b", "whole")], "while default/a had it", id="device"),
        pytest.param(
            [claim("a", "shared", memory="6Gi"), claim("b", "shared", memory="5Gi")],
            "d/p/shared/memory was overdrawn by default/b", id="share",
        ),
        pytest.param(
            [claim("a", "left"), claim("b", "right")], "d/p/card/memory was overdrawn by default/b", id="counter",
        ),
        pytest.param(
            [claim("a", "shared", memory="1Gi"), claim("b", "shared")], "given whole while shares", id="whole and share",
        ),
    ],
)  # fmt: skip
def test_a_double_booking_is_found(claims: list[dict[str, Any]], words: str) -> None:
    assert any(words in problem for problem in bookings(*claims))

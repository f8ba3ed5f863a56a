"""Against a model that keeps a full copy of every revision."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dray.store.interface import Compacted, Event, FutureRevision, KeyValue
from dray.store.state import FIRST_REVISION, State

if TYPE_CHECKING:
    from dray.store.disk_keys import DiskKeys

KEYS = ["/r/a/1", "/r/a/2", "/r/a/3", "/r/b/1", "/r/b/2", "/r/c"]
writes = st.lists(st.tuples(st.sampled_from(KEYS), st.binary(max_size=2) | st.none()), max_size=25)


class File:
    """What a file has of each revision; no key stays there."""

    prefix = "/none/"

    def __init__(self) -> None:
        self.rows: dict[int, tuple[int, bytes | None]] = {}

    def written(self, revisions: Iterable[int]) -> Mapping[int, tuple[int, bytes | None]]:
        return {revision: self.rows[revision] for revision in revisions}


def new_state(*, with_file: bool) -> State:
    return State(disk=cast("DiskKeys", File())) if with_file else State()


def play(state: State, sequence: list[tuple[str, bytes | None]]) -> list[dict[str, KeyValue]]:
    """Apply the writes that make sense; the state after each revision, from the first."""
    copies: list[dict[str, KeyValue]] = [{}]
    for key, value in sequence:
        previous = state.get(key)
        if value is None and previous is None:
            continue
        revision = state.revision + 1
        event = Event(revision, key, value, previous)
        if state.disk is not None:
            created = revision if previous is None else previous.create_revision
            cast("File", state.disk).rows[revision] = (created, value)
        state.apply([event])
        after = dict(copies[-1])
        if event.entry is None:
            del after[key]
        else:
            after[key] = event.entry
        copies.append(after)
    return copies


@given(
    writes,
    st.sampled_from(["", "/r/", "/r/a/", "/r/a/2", "/x/"]),
    st.sampled_from(["", *KEYS]),
    st.integers(0, 4),
    st.booleans(),
)
def test_a_range_at_any_revision_is_what_was_there_then(sequence, prefix, start, limit, with_file):
    state = new_state(with_file=with_file)
    copies = play(state, sequence)
    for revision, entries in enumerate(copies, FIRST_REVISION):
        wanted = [entries[key] for key in sorted(entries) if key.startswith(prefix) and key >= start]
        cut = wanted[:limit] if limit else wanted
        page = state.range(prefix, start=start, limit=limit, revision=revision)
        assert (page.entries, page.revision) == (cut, revision)
        assert (page.more, page.remaining) == (len(wanted) > len(cut), len(wanted) - len(cut))
    newest = state.range(prefix, start=start, limit=limit)
    assert newest == state.range(prefix, start=start, limit=limit, revision=state.revision)


@given(writes, st.data(), st.booleans())
def test_compaction_forgets_the_past_and_nothing_else(sequence, data, with_file):
    state = new_state(with_file=with_file)
    copies = play(state, sequence)
    events = state.events("", after=FIRST_REVISION)
    compacted = data.draw(st.integers(FIRST_REVISION, state.revision))
    gone = state.compact(compacted)
    for revision, entries in enumerate(copies, FIRST_REVISION):
        if revision < compacted:
            with pytest.raises(Compacted):
                state.range("", revision=revision)
            with pytest.raises(Compacted):
                state.events("", after=revision)
        else:
            assert state.range("", revision=revision).entries == [entries[key] for key in sorted(entries)]
            assert state.events("", after=revision) == [e for e in events if e.revision > revision]
    still_asked_for = {e.mod_revision for copy in copies[compacted - FIRST_REVISION :] for e in copy.values()}
    assert sorted(gone) == sorted({e.revision for e in events if e.revision <= compacted} - still_asked_for)
    if with_file:
        for revision in gone:  # so that whoever still needed one would not find it
            del cast("File", state.disk).rows[revision]
        assert state.events("", after=compacted) == [e for e in events if e.revision > compacted]


@given(writes, st.booleans())
def test_the_history_knows_what_it_alone_holds(sequence, with_file):
    state = new_state(with_file=with_file)
    play(state, sequence)
    events = state.events("", after=FIRST_REVISION)
    assert state.history.held_bytes >= sum(len(e.previous.value) for e in events if e.previous)
    state.compact(state.revision)
    assert state.history.held_bytes == 0
    assert len(state.history) == 0


def test_the_future_is_refused():
    state = State()
    with pytest.raises(FutureRevision):
        state.range("", revision=FIRST_REVISION + 1)
    with pytest.raises(FutureRevision):
        state.compact(FIRST_REVISION + 1)

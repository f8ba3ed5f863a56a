"""What every store promises, tried on each of them."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from dray.store.interface import (
    Compacted,
    Delete,
    Event,
    FutureRevision,
    KeyExists,
    KeyNotFound,
    KeyValue,
    Put,
    RevisionMismatch,
    Store,
    StoreUnavailable,
    Unchanged,
    Watch,
)


async def take(watch: Watch, count: int) -> list[Event]:
    """The next ``count`` events of a watch, however they are batched."""
    events: list[Event] = []
    async with asyncio.timeout(20):
        while len(events) < count:
            events += await anext(aiter(watch))
    assert len(events) == count
    return events


def summary(events: Sequence[Event]) -> list[tuple[str, bytes | None]]:
    return [(event.key.rpartition("/")[2], event.value) for event in events]


async def names(store: Store, prefix: str, *, revision: int = 0) -> list[str]:
    page = await store.range(prefix, revision=revision)
    return [entry.key.removeprefix(prefix) for entry in page.entries]


# Writing and reading


async def test_what_was_created_can_be_read(opened, root):
    async with opened() as store:
        revision = await store.create(root + "a", b"1")
        entry = await store.get(root + "a")
        assert entry == KeyValue(root + "a", b"1", revision, revision)
        assert await store.get(root + "b") is None


async def test_every_write_gets_a_greater_revision(opened, root):
    async with opened() as store:
        first = await store.create(root + "a", b"1")
        second = await store.update(root + "a", b"2", expected=first)
        third = await store.delete(root + "a", expected=second)
        assert first < second < third <= await store.current_revision()


async def test_an_update_keeps_when_the_key_was_created(opened, root):
    async with opened() as store:
        first = await store.create(root + "a", b"1")
        second = await store.update(root + "a", b"2", expected=first)
        assert await store.get(root + "a") == KeyValue(root + "a", b"2", first, second)


async def test_a_key_cannot_be_created_twice(opened, root):
    async with opened() as store:
        await store.create(root + "a", b"1")
        with pytest.raises(KeyExists):
            await store.create(root + "a", b"2")


async def test_a_deleted_key_can_be_created_again_as_a_new_one(opened, root):
    async with opened() as store:
        first = await store.create(root + "a", b"1")
        await store.delete(root + "a", expected=first)
        again = await store.create(root + "a", b"2")
        assert await store.get(root + "a") == KeyValue(root + "a", b"2", again, again)


async def test_update_and_delete_of_a_stale_revision_are_refused_with_the_current_entry(opened, root):
    async with opened() as store:
        first = await store.create(root + "a", b"1")
        second = await store.update(root + "a", b"2", expected=first)
        for attempt in (
            store.update(root + "a", b"3", expected=first),
            store.delete(root + "a", expected=first),
        ):
            with pytest.raises(RevisionMismatch) as caught:
                await attempt
            assert caught.value.current == KeyValue(root + "a", b"2", first, second)
        assert await store.get(root + "a") == KeyValue(root + "a", b"2", first, second)


async def test_update_and_delete_of_a_missing_key_are_refused(opened, root):
    async with opened() as store:
        with pytest.raises(KeyNotFound):
            await store.update(root + "a", b"3", expected=1)
        with pytest.raises(KeyNotFound):
            await store.delete(root + "a", expected=1)


async def test_of_many_writers_that_expect_the_same_revision_one_wins(opened, root):
    async with opened() as store:
        first = await store.create(root + "a", b"0")
        outcomes = await asyncio.gather(
            *(store.update(root + "a", b"%d" % n, expected=first) for n in range(20)), return_exceptions=True
        )
        won = [outcome for outcome in outcomes if isinstance(outcome, int)]
        assert len(won) == 1
        assert all(isinstance(o, RevisionMismatch) for o in outcomes if not isinstance(o, int))
        entry = await store.get(root + "a")
        assert entry is not None and entry.mod_revision == won[0]


async def test_concurrent_writers_get_revisions_of_their_own(opened, root):
    async with opened() as store:
        revisions = await asyncio.gather(*(store.create(f"{root}{n:03}", b"x") for n in range(100)))
        assert len(set(revisions)) == 100
        page = await store.range(root)
        assert [entry.mod_revision for entry in page.entries] == revisions


async def test_values_are_bytes_and_keys_any_text(opened, root):
    async with opened() as store:
        key, value = root + "größe/ü.x-y_z", bytes(range(256))
        await store.create(key, value)
        assert [(e.key, e.value) for e in (await store.range(root)).entries] == [(key, value)]


# Transactions


async def test_a_transaction_writes_all_its_keys_and_a_watch_gets_them_together(opened, root):
    async with opened() as store:
        gone = await store.create(root + "gone", b"1")
        kept = await store.create(root + "kept", b"1")
        async with store.watch(root, after=await store.current_revision()) as watch:
            revision = await store.transact(
                [
                    Put(root + "new", b"2"),
                    Unchanged(root + "absent", 0),
                    Delete(root + "gone", gone),
                    Put(root + "kept", b"2", kept),
                ]
            )
            batch = await anext(aiter(watch))
        assert summary(batch) == [("new", b"2"), ("gone", None), ("kept", b"2")]
        assert batch[-1].revision == revision
        assert await store.get(root + "kept") == KeyValue(root + "kept", b"2", kept, revision)
        assert await names(store, root) == ["kept", "new"]


@pytest.mark.parametrize(
    ("broken", "refusal"),
    [
        (lambda root, _: Put(root + "there", b"x"), KeyExists),
        (lambda root, there: Put(root + "there", b"x", there + 1), RevisionMismatch),
        (lambda root, _: Put(root + "absent", b"x", 7), KeyNotFound),
        (lambda root, there: Delete(root + "there", there + 1), RevisionMismatch),
        (lambda root, _: Delete(root + "absent", 7), KeyNotFound),
        (lambda root, there: Unchanged(root + "there", there + 1), RevisionMismatch),
        (lambda root, _: Unchanged(root + "there", 0), KeyExists),
    ],
)
async def test_a_transaction_with_one_broken_condition_writes_nothing_and_names_the_key(
    opened, root, broken, refusal
):
    async with opened() as store:
        there = await store.create(root + "there", b"1")
        operation = broken(root, there)
        with pytest.raises(refusal) as caught:
            await store.transact([Put(root + "first", b"1"), operation, Put(root + "last", b"1")])
        assert caught.value.key == operation.key
        assert caught.value.current == await store.get(operation.key)
        assert await names(store, root) == ["there"]


async def test_of_many_transactions_that_overlap_in_one_key_one_wins(opened, root):
    async with opened() as store:
        first = await store.create(root + "shared", b"0")
        outcomes = await asyncio.gather(
            *(
                store.transact([Put(f"{root}own-{n}", b""), Put(root + "shared", b"%d" % n, first)])
                for n in range(20)
            ),
            return_exceptions=True,
        )
        won = [n for n, outcome in enumerate(outcomes) if isinstance(outcome, int)]
        assert len(won) == 1
        assert await names(store, root) == [f"own-{won[0]}", "shared"]


async def test_single_writes_and_transactions_exclude_each_other(opened, root):
    async with opened() as store:
        first = await store.create(root + "a", b"0")
        outcomes = await asyncio.gather(
            store.update(root + "a", b"1", expected=first),
            store.transact([Put(root + "b", b"2"), Unchanged(root + "a", first)]),
            store.transact([Put(root + "a", b"3", first), Put(root + "c", b"3")]),
            return_exceptions=True,
        )
        final = await store.get(root + "a")
        assert final is not None and final.value == (b"1" if isinstance(outcomes[0], int) else b"3")
        assert isinstance(outcomes[0], int) != isinstance(outcomes[2], int)


async def test_a_transaction_is_there_when_the_store_is_opened_again(durable, root):
    async with durable() as store:
        await store.transact([Put(root + "a", b"1"), Put(root + "b", b"1")])
    async with durable() as store:
        assert await names(store, root) == ["a", "b"]


# Ranges


async def test_a_range_is_in_key_order_and_stays_within_its_prefix(opened, root):
    async with opened() as store:
        for name in ("b/2", "a/1", "b/1", "b.c/1", "c/1"):
            await store.create(root + name, b"")
        assert await names(store, root) == ["a/1", "b.c/1", "b/1", "b/2", "c/1"]
        assert await names(store, root + "b/") == ["1", "2"]
        assert await names(store, root + "d/") == []


async def test_a_range_with_a_limit_says_what_remains(opened, root):
    async with opened() as store:
        for n in range(5):
            await store.create(f"{root}{n}", b"")
        page = await store.range(root, limit=2)
        assert [e.key[-1] for e in page.entries] == ["0", "1"]
        assert (page.more, page.remaining) == (True, 3)
        page = await store.range(root, limit=5)
        assert (len(page.entries), page.more, page.remaining) == (5, False, 0)


async def test_a_range_continues_at_a_fixed_revision_as_if_nothing_had_happened_since(opened, root):
    async with opened() as store:
        revisions = {n: await store.create(f"{root}{n}", b"old") for n in range(0, 10, 2)}
        first = await store.range(root, limit=2)
        await store.create(root + "5", b"new")
        await store.update(root + "6", b"new", expected=revisions[6])
        await store.delete(root + "8", expected=revisions[8])
        rest = await store.range(root, start=first.entries[-1].key + "\0", limit=2, revision=first.revision)
        last = await store.range(root, start=rest.entries[-1].key + "\0", limit=2, revision=first.revision)
        seen = [*first.entries, *rest.entries, *last.entries]
        assert [(e.key.removeprefix(root), e.value) for e in seen] == [
            (str(n), b"old") for n in range(0, 10, 2)
        ]
        assert {p.revision for p in (first, rest, last)} == {first.revision}
        assert (rest.more, rest.remaining, last.more, last.remaining) == (True, 1, False, 0)


async def test_a_range_at_a_revision_that_has_not_happened_is_refused(opened, root):
    async with opened() as store:
        with pytest.raises(FutureRevision):
            await store.range(root, revision=await store.current_revision() + 1000)


async def test_a_range_before_the_compaction_is_refused_and_says_what_is_oldest(opened, root):
    async with opened() as store:
        first = await store.create(root + "a", b"1")
        second = await store.update(root + "a", b"2", expected=first)
        third = await store.update(root + "a", b"3", expected=second)
        await store.compact(second)
        await store.compact(second)
        with pytest.raises(Compacted) as caught:
            await store.range(root, revision=first)
        assert caught.value.oldest == second
        assert [e.value for e in (await store.range(root, revision=second)).entries] == [b"2"]
        assert [e.value for e in (await store.range(root, revision=third)).entries] == [b"3"]


async def test_the_future_cannot_be_compacted(opened, root):
    async with opened() as store:
        with pytest.raises(FutureRevision):
            await store.compact(await store.current_revision() + 1000)


# Watching


async def test_a_watch_sees_what_happens_with_what_was_there_before(opened, root):
    async with opened() as store:
        async with store.watch(root, after=await store.current_revision()) as watch:
            first = await store.create(root + "a", b"1")
            second = await store.update(root + "a", b"2", expected=first)
            third = await store.delete(root + "a", expected=second)
            created, updated, deleted = await take(watch, 3)
        assert created == Event(first, root + "a", b"1", None)
        assert updated == Event(second, root + "a", b"2", KeyValue(root + "a", b"1", first, first))
        assert deleted == Event(third, root + "a", None, KeyValue(root + "a", b"2", first, second))
        assert deleted.deleted and not updated.deleted
        assert updated.entry == KeyValue(root + "a", b"2", first, second)


async def test_a_watch_begins_after_any_revision_since_the_compaction(opened, root):
    async with opened() as store:
        revisions = [await store.create(f"{root}{n}", b"") for n in range(5)]
        for n, revision in enumerate(revisions[:-1]):
            async with store.watch(root, after=revision) as watch:
                assert [event.revision for event in await take(watch, 4 - n)] == revisions[n + 1 :]


async def test_what_was_written_before_is_there_when_the_store_is_opened_again(durable, root):
    async with durable() as store:
        kept = await store.create(root + "kept", b"1")
        changed = await store.create(root + "changed", b"1")
        changed_again = await store.update(root + "changed", b"2", expected=changed)
        gone = await store.create(root + "gone", b"1")
        last = await store.delete(root + "gone", expected=gone)
    async with durable() as store:
        assert (await store.range(root)).entries == [
            KeyValue(root + "changed", b"2", changed, changed_again),
            KeyValue(root + "kept", b"1", kept, kept),
        ]
        assert await store.create(root + "new", b"1") > last
        assert await names(store, root, revision=gone) == ["changed", "gone", "kept"]


async def test_a_watch_from_before_the_store_was_opened_has_no_gap(durable, root):
    async with durable() as store:
        start = await store.current_revision()
        for n in range(3):
            await store.create(f"{root}{n}", b"old")
    async with durable() as store, store.watch(root, after=start) as watch:
        await store.create(root + "3", b"new")
        assert summary(await take(watch, 4)) == [
            ("0", b"old"),
            ("1", b"old"),
            ("2", b"old"),
            ("3", b"new"),
        ]


async def test_a_watch_sees_only_its_prefix(opened, root):
    async with opened() as store:
        start = await store.current_revision()
        async with (
            store.watch(root + "b/", after=start) as folder,
            store.watch(root + "b", after=start) as text,
        ):
            for name in ("a/1", "b.c/1", "b/1", "c/1"):
                await store.create(root + name, b"")
            assert [e.key.removeprefix(root) for e in await take(text, 2)] == ["b.c/1", "b/1"]
            assert [e.key.removeprefix(root) for e in await take(folder, 1)] == ["b/1"]


async def test_a_watch_from_before_the_compaction_is_refused_and_says_what_is_oldest(opened, root):
    async with opened() as store:
        first = await store.create(root + "a", b"1")
        second = await store.update(root + "a", b"2", expected=first)
        third = await store.update(root + "a", b"3", expected=second)
        await store.compact(third)
        with pytest.raises(Compacted) as caught:
            await take(store.watch(root, after=first), 1)
        assert caught.value.oldest == third
        async with store.watch(root, after=third) as watch:
            await store.delete(root + "a", expected=third)
            assert summary(await take(watch, 1)) == [("a", None)]


async def test_a_watch_of_a_future_revision_waits_for_it(opened, root):
    async with opened() as store:
        current = await store.current_revision()
        async with store.watch(root, after=current + 2) as watch:
            for n in range(4):
                await store.create(f"{root}{n}", b"")
            events = await take(watch, 2)
            assert [e.revision for e in events] == [current + 3, current + 4]


async def test_many_watchers_see_the_same_in_the_same_order(opened, root):
    async with opened() as store:
        start = await store.current_revision()
        watches = [store.watch(root, after=start) for _ in range(20)]
        await asyncio.gather(*(store.create(f"{root}{n}", b"") for n in range(50)))
        seen = [await take(watch, 50) for watch in watches]
        assert all(events == seen[0] for events in seen)
        assert [e.revision for e in seen[0]] == sorted(e.revision for e in seen[0])
        for watch in watches:
            watch.close()


async def test_a_closed_watch_ends_plainly(opened, root):
    async with opened() as store:
        watch = store.watch(root, after=await store.current_revision())
        reader = asyncio.create_task(anext(aiter(watch), None))
        await asyncio.sleep(0)
        watch.close()
        assert await reader is None


async def test_closing_the_store_ends_its_watches(opened, root):
    async with opened() as store:
        watch = store.watch(root, after=await store.current_revision())
        reader = asyncio.create_task(anext(aiter(watch)))
        await asyncio.sleep(0)
    with pytest.raises(StoreUnavailable):
        await reader


async def test_a_closed_store_refuses_everything(opened, root):
    async with opened() as store:
        pass
    for attempt in (
        store.get(root),
        store.range(root),
        store.create(root, b""),
        store.update(root, b"", expected=1),
        store.delete(root, expected=1),
        store.transact([Put(root, b"")]),
        store.current_revision(),
        store.wait_until_fresh(),
        store.compact(1),
    ):
        with pytest.raises(StoreUnavailable):
            await attempt
    await store.close()


# Subscribing


async def test_a_subscriber_has_a_write_before_its_writer_is_answered(opened, root):
    async with opened() as store:
        seen: list[Event] = []
        subscription = store.subscribe(root, seen.extend, after=await store.current_revision())

        async def write(n: int) -> None:
            revision = await store.create(f"{root}{n}", b"")
            assert seen[-1].revision >= revision
            assert any(event.key == f"{root}{n}" for event in seen)
            assert store.revision >= revision

        await asyncio.gather(*(write(n) for n in range(50)))
        assert [event.revision for event in seen] == sorted(event.revision for event in seen)
        subscription.close()
        await store.create(root + "unseen", b"")
        assert len(seen) == 50


async def test_range_then_subscribe_leaves_no_gap(opened, root):
    async with opened() as store:
        await store.create(root + "a", b"")
        page = await store.range(root)
        await store.create(root + "b", b"")
        seen: list[Event] = []
        store.subscribe(root, seen.extend, after=page.revision)
        assert summary(seen) == [("b", b"")]
        await store.create(root + "c", b"")
        assert summary(seen) == [("b", b""), ("c", b"")]


async def test_a_subscriber_that_fails_is_told_so_and_harms_nobody(opened, root, caplog):
    async with opened() as store:
        seen: list[Event] = []
        lost: list[Exception] = []

        def fail(events: Sequence[Event]) -> None:
            raise ValueError("no")

        start = await store.current_revision()
        store.subscribe(root, fail, after=start, lost=lost.append)
        store.subscribe(root, seen.extend, after=start)
        await store.create(root + "a", b"")
        await store.create(root + "b", b"")
        assert len(lost) == 1
        assert summary(seen) == [("a", b""), ("b", b"")]


async def test_a_subscriber_is_told_when_the_store_is_closed(opened, root):
    lost: list[Exception] = []
    async with opened() as store:
        store.subscribe(root, lambda events: None, after=await store.current_revision(), lost=lost.append)
    assert [type(error) for error in lost] == [StoreUnavailable]


async def test_caught_up_reaches_the_newest_revision(opened, root):
    async with opened() as store:
        revision = await store.create(root + "a", b"")
        assert await store.wait_until_fresh() >= revision
        assert await store.wait_until_fresh(revision) >= revision
        assert store.revision >= revision


async def test_caught_up_waits_for_a_revision_to_come(opened, root):
    async with opened() as store:
        waiting = asyncio.create_task(store.wait_until_fresh(await store.current_revision() + 2))
        await asyncio.sleep(0)
        await store.create(root + "a", b"")
        assert not waiting.done()
        revision = await store.create(root + "b", b"")
        async with asyncio.timeout(10):
            assert await waiting == revision


# Expiry


async def test_a_key_with_a_ttl_is_deleted_when_its_time_is_over(opened, root):
    async with opened() as store:
        async with store.watch(root, after=await store.current_revision()) as watch:
            await store.create(root + "brief", b"1", ttl=1)
            await store.create(root + "lasting", b"1")
            assert summary(await take(watch, 3)) == [("brief", b"1"), ("lasting", b"1"), ("brief", None)]
        assert await names(store, root) == ["lasting"]


async def test_an_update_without_a_ttl_makes_the_key_stay(opened, root):
    async with opened() as store:
        async with store.watch(root, after=await store.current_revision()) as watch:
            first = await store.create(root + "kept", b"1", ttl=1)
            await store.create(root + "brief", b"1", ttl=1)
            await store.update(root + "kept", b"2", expected=first)
            events = await take(watch, 4)
        assert summary(events)[-1] == ("brief", None)
        assert await names(store, root) == ["kept"]

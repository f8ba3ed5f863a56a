"""A store in etcd, over its own protocol: several API servers can share it, kube-apiserver among them.

Reads and writes are etcd's. One watch of the whole key space feeds the watchers and subscribers here, so whatever
anybody writes arrives, in order; and as every revision is the revision of some event, "the cache has reached revision
n" is known exactly, without etcd's progress notifications (which before 3.4.25 could overtake the events they follow).
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Coroutine, Iterable, Sequence
from typing import Any, Final

from dray.backoff import Backoff
from dray.store.access import EtcdAccess
from dray.store.etcd_api import alarms, compaction, lease_manager
from dray.store.etcd_api import rpc_pb2 as rpc
from dray.store.etcd_api.connection import EVERYTHING, AnswerLost, Connection
from dray.store.etcd_api.newest import NewestRevision, newest
from dray.store.fanout import LAG_LIMIT, CallbackSubscription, Fanout, QueuedWatch
from dray.store.history import History
from dray.store.interface import (
    Compacted,
    Delete,
    Deliver,
    Event,
    FutureRevision,
    KeyExists,
    KeyNotFound,
    KeyValue,
    Lookup,
    Lost,
    Operation,
    Page,
    Put,
    Refused,
    RevisionMismatch,
    StoreError,
    StoreFull,
    StoreUnavailable,
    Unchanged,
)
from dray.store.keys import prefix_end
from dray.store.progress import Progress
from dray.store.state import FIRST_REVISION

_log = logging.getLogger(__name__)

#: Recent events kept here, for watches that begin in the near past. Older ones etcd itself is asked for.
HISTORY_EVENTS: Final = 20_000
HISTORY_BYTES: Final = 32 * 2**20
#: How long a writer waits for its own event before it is answered without; the event comes when the watch is back.
APPLY_TIMEOUT: Final = 5.0
_NOT_KNOWN: Final = "etcd gave no answer in time, and whether the write took place is not known"
RECONNECT_BACKOFF: Final = Backoff(initial=0.1, maximum=2.0)


class EtcdStore:
    """See ``open``."""

    def __init__(self, connection: Connection, revision: int, *, lag_limit: int = LAG_LIMIT) -> None:
        self._connection = connection
        self._newest = NewestRevision(connection)
        self._progress = Progress(revision)
        # An etcd that was never written to stands at a revision without an event: nothing lies before it.
        self._history = History(0 if revision == FIRST_REVISION else revision)
        self._fanout = Fanout()
        self._lag_limit = lag_limit
        self._leases = lease_manager.LeaseManager(connection)
        self._closed = False
        self._tasks: set[asyncio.Task[None]] = set()
        self._own(self._follow())
        self._own(compaction.compact_periodically(connection))
        self._own(alarms.report_periodically(connection))

    @classmethod
    async def open(
        cls, endpoints: Sequence[str], *, access: EtcdAccess | None = None, lag_limit: int = LAG_LIMIT
    ) -> EtcdStore:
        """Connect to the etcd cluster behind ``endpoints`` (HOST:PORT each)."""
        if access is not None:
            access.check()
        connection = Connection(endpoints, access)
        try:
            revision = await newest(connection)
        except StoreError as error:
            await connection.close()
            raise StoreUnavailable(f"cannot open etcd at {','.join(endpoints)}: {error}") from error
        return cls(connection, revision, lag_limit=lag_limit)

    def _own(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Run something until it ends or the store is closed."""
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            # Not an outage, which ends, but a bug: tasks must not wait for events that will not come.
            _log.error("the etcd store is broken", exc_info=error)
            self._fail(StoreUnavailable(f"the store is broken: {error!r}"))

    def _fail(self, error: StoreUnavailable) -> None:
        self._progress.fail(error)
        self._fanout.fail(error)

    # Reading

    @property
    def shared(self) -> bool:
        return True

    @property
    def revision(self) -> int:
        return self._progress.revision

    @property
    def past(self) -> None:
        return None

    def lookup(self, prefix: str) -> Lookup | None:
        return None

    async def get(self, key: str) -> KeyValue | None:
        self._check_open()
        reply = await self._connection.range(rpc.RangeRequest(key=_encode(key)))
        return _entry(reply.kvs[0]) if reply.kvs else None

    async def range(self, prefix: str, *, start: str = "", limit: int = 0, revision: int = 0) -> Page:
        self._check_open()
        end = prefix_end(prefix)
        request = rpc.RangeRequest(
            key=_encode(max(start, prefix)) or EVERYTHING,
            range_end=EVERYTHING if end is None else _encode(end),
            limit=limit,
            revision=revision,
        )
        try:
            reply = await self._connection.range(request)
        except Compacted as error:
            raise await self._compacted(revision) from error
        except FutureRevision as error:
            raise FutureRevision(revision, self.revision) from error
        entries = [_entry(kv) for kv in reply.kvs]
        return Page(entries, revision or reply.header.revision, reply.more, reply.count - len(entries))

    async def current_revision(self) -> int:
        self._check_open()
        return await self._newest.get()

    async def wait_until_fresh(self, revision: int = 0) -> int:
        self._check_open()
        await self._progress.reached(revision or await self._newest.get())
        return self.revision

    # Writing

    async def create(self, key: str, value: bytes, *, ttl: float | None = None) -> int:
        return await self._commit((Put(key, value),), lease=await self._lease(ttl))

    async def update(self, key: str, value: bytes, *, expected: int, ttl: float | None = None) -> int:
        return await self._commit((Put(key, value, expected),), lease=await self._lease(ttl))

    async def delete(self, key: str, *, expected: int) -> int:
        return await self._commit((Delete(key, expected),))

    async def transact(self, operations: Sequence[Operation]) -> int:
        return await self._commit(operations)

    async def _commit(self, operations: Sequence[Operation], *, lease: int = 0) -> int:
        """Do ``operations`` if all their conditions hold, and return the revision.

        A condition on a revision makes it safe to try again when an answer got lost: if the first attempt was carried
        out after all, the second is refused, and the history then tells the two apart. A write that only creates has
        no such condition. Others may have deleted what the first attempt made, so that the second would make it again.
        """
        self._check_open()
        before = self.revision
        conditions, writes, reads = [], [], []
        for operation in operations:
            key = _encode(operation.key)
            conditions.append(rpc.Compare(target=rpc.Compare.MOD, key=key, mod_revision=operation.expected))
            reads.append(rpc.RequestOp(request_range=rpc.RangeRequest(key=key)))
            if isinstance(operation, Put):
                put = rpc.PutRequest(key=key, value=operation.value, lease=lease)
                writes.append(rpc.RequestOp(request_put=put))
            elif isinstance(operation, Delete):
                writes.append(rpc.RequestOp(request_delete_range=rpc.DeleteRangeRequest(key=key)))
        request = rpc.TxnRequest(compare=conditions, success=writes, failure=reads)
        repeatable = any(
            operation.expected for operation in operations if not isinstance(operation, Unchanged)
        )
        try:
            reply, repeated = await self._connection.txn(request, repeatable=repeatable)
        except AnswerLost as error:
            if revision := await self._lost_success(operations, after=before):
                return revision
            raise StoreUnavailable(_NOT_KNOWN) from error
        if reply.succeeded:
            return await self._applied(reply.header.revision)
        found = [
            _entry(read.response_range.kvs[0]) if read.response_range.kvs else None
            for read in reply.responses
        ]
        if repeated and (revision := await self._lost_success(operations, after=before)):
            return revision
        raise _refusal(operations, found)

    async def _lost_success(self, operations: Sequence[Operation], *, after: int) -> int:
        """The revision at which an attempt without an answer was carried out; 0 if it was not.

        Since then others may have replaced what it wrote, so the keys themselves do not tell. Where the history does
        not tell either, the caller learns that nobody knows.
        """
        await self.wait_until_fresh()
        if after < self._history.floor:
            raise StoreUnavailable(_NOT_KNOWN)
        wanted = {
            operation.key: operation.value if isinstance(operation, Put) else None
            for operation in operations
            if not isinstance(operation, Unchanged)
        }
        written: dict[int, dict[str, bytes | None]] = {}  # by revision, of which a transaction has one
        for event in self._history.since(after):
            if event.key in wanted:
                written.setdefault(event.revision, {})[event.key] = event.value
        for revision, values in written.items():
            if values == wanted:
                if any(value is not None for value in values.values()):
                    return revision
                raise StoreUnavailable(
                    "etcd gave no answer in time; the key is deleted, by this write or another"
                )
        return 0

    async def _lease(self, ttl: float | None) -> int:
        self._check_open()
        return 0 if ttl is None else await self._leases.get(ttl)

    async def _applied(self, revision: int) -> int:
        """A write is answered when subscribers here know of it. It is durable either way, so the wait is bounded."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(APPLY_TIMEOUT):
                await self._progress.reached(revision)
        return revision

    # Watching

    def watch(self, prefix: str, *, after: int) -> QueuedWatch:
        watch = QueuedWatch(self._fanout, prefix, after=after, limit=self._lag_limit)
        if self._closed:
            watch.fail(StoreUnavailable("the store has been closed"))
        elif after >= self._history.floor:
            watch.backlog(self._history.since(after, prefix=prefix))
            self._fanout.add(watch)
        else:
            self._own(self._catch_up(watch, after))
        return watch

    def subscribe(
        self, prefix: str, deliver: Deliver, *, after: int, lost: Lost | None = None
    ) -> CallbackSubscription:
        self._check_open()
        if after < self._history.floor:
            raise Compacted(after, self._history.floor)
        callback = CallbackSubscription(self._fanout, prefix, deliver, after=after, lost=lost)
        if missed := self._history.since(after, prefix=prefix):
            deliver(missed)
        self._fanout.add(callback)
        return callback

    async def _catch_up(self, watch: QueuedWatch, after: int) -> None:
        """Read from etcd what the history here does not reach back to, then join the live watch without a gap."""
        missed: list[Event] = []
        reached = after
        try:
            async with self._connection.watch(after=after) as stream:
                while reached < self._history.floor and not watch.closed:
                    events = _events(await anext(stream), after=reached)
                    if events:
                        reached = events[-1].revision
                        missed += (event for event in events if event.key.startswith(watch.prefix))
        except StoreError as error:
            watch.fail(error)
            return
        if not watch.closed:
            watch.backlog([*missed, *self._history.since(reached, prefix=watch.prefix)])
            self._fanout.add(watch)

    async def _follow(self) -> None:
        """Feed everybody from one watch, which is opened again where it broke off."""
        failures = 0
        while True:
            try:
                async with self._connection.watch(after=self.revision) as stream:
                    async for events in stream:
                        failures = 0
                        self._receive(_events(events, after=self.revision))
            except Compacted as error:
                # So long away that etcd has forgotten what happened meanwhile: everybody must read anew. Until then
                # what they hold is old, and nobody may take it for the state at this revision.
                _log.warning("the watch on etcd has a gap: %s", error)
                self._history = History(error.oldest)
                if reloads := self._fanout.fail(error):
                    await asyncio.wait(reloads)
                self._progress.advance(error.oldest)
            except StoreError as error:
                _log.warning("the watch on etcd broke off and is opened again: %s", error)
                await asyncio.sleep(RECONNECT_BACKOFF.after(failures))
                failures += 1

    def _receive(self, events: Sequence[Event]) -> None:
        if not events:
            return
        self._history.extend(events)
        while len(self._history) > HISTORY_EVENTS or self._history.held_bytes > HISTORY_BYTES:
            self._history.drop(self._history.older_half())
        self._progress.advance(events[-1].revision)
        self._fanout.publish(events)

    # Compaction and end

    async def check_writable(self) -> None:
        self._check_open()
        if problem := await alarms.problem(self._connection):
            raise StoreFull(problem)

    async def compact(self, revision: int) -> None:
        self._check_open()
        try:
            await self._connection.compact(rpc.CompactionRequest(revision=revision))
        except Compacted:
            pass
        except FutureRevision as error:
            raise FutureRevision(revision, self.revision) from error
        self._history.drop(min(revision, self.revision))

    async def _compacted(self, revision: int) -> Compacted:
        """etcd tells the oldest revision only to watchers, so ask as one."""
        with contextlib.suppress(StoreError, TimeoutError):
            try:
                async with asyncio.timeout(1), self._connection.watch(after=revision) as stream:
                    await anext(stream)
            except Compacted as error:
                return error
        return Compacted(revision, self._history.floor)

    async def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._newest.close()
        self._fail(StoreUnavailable("the store has been closed"))
        await self._connection.close()

    def _check_open(self) -> None:
        if self._closed:
            raise StoreUnavailable("the store has been closed")


def _refusal(operations: Sequence[Operation], found: Sequence[KeyValue | None]) -> Refused:
    """The first condition that does not hold."""
    for operation, entry in zip(operations, found, strict=True):
        if entry is None:
            if operation.expected:
                return KeyNotFound(operation.key)
        elif entry.mod_revision != operation.expected:
            if operation.expected:
                return RevisionMismatch(operation.key, entry)
            return KeyExists(operation.key, entry)
    # etcd compared and read in one step, so that one of them does not hold.
    raise AssertionError("etcd refused a transaction whose conditions hold")


def _encode(key: str) -> bytes:
    return key.encode("utf-8", "surrogateescape")


def _decode(key: bytes) -> str:
    return key.decode("utf-8", "surrogateescape")


def _entry(kv: rpc.KeyValue) -> KeyValue:
    return KeyValue(_decode(kv.key), kv.value, kv.create_revision, kv.mod_revision)


def _events(events: Iterable[rpc.Event], *, after: int) -> list[Event]:
    return [
        Event(
            event.kv.mod_revision,
            _decode(event.kv.key),
            None if event.type == rpc.Event.DELETE else event.kv.value,
            _entry(event.prev_kv) if event.HasField("prev_kv") else None,
        )
        for event in events
        if event.kv.mod_revision > after
    ]

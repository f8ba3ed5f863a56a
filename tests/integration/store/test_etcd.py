"""What only etcd has: other clients, members that come and go, leases that are shared."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from pathlib import Path

import aiohttp
import grpc
import grpc.aio
import pytest

from dray.app import pki
from dray.store.access import EtcdAccess
from dray.store.etcd import EtcdStore
from dray.store.etcd_api import alarms, compaction, connection
from dray.store.etcd_api import rpc_pb2 as rpc
from dray.store.etcd_api.connection import Connection
from dray.store.interface import (
    Compacted,
    Delete,
    KeyExists,
    KeyValue,
    Put,
    StoreError,
    StoreFull,
    StoreUnavailable,
)
from tests.support.etcd import Etcd
from tests.support.wait import wait_for


@contextlib.asynccontextmanager
async def opened(*endpoints: str):
    store = await EtcdStore.open(endpoints)
    try:
        yield store
    finally:
        await store.close()


async def take(watch, count: int):
    events = []
    async with asyncio.timeout(20):
        while len(events) < count:
            events += await anext(watch)
    return events


async def test_several_servers_on_one_etcd_see_each_others_writes(etcd, root):
    async with opened(etcd.endpoint) as one, opened(etcd.endpoint) as other:
        seen = []
        other.subscribe(root, seen.extend, after=await other.current_revision())
        first = await one.create(root + "a", b"1")
        with pytest.raises(KeyExists):
            await other.create(root + "a", b"2")
        assert await other.wait_until_fresh() >= first
        assert [event.value for event in seen] == [b"1"]
        second = await other.update(root + "a", b"2", expected=first)
        entry = await one.get(root + "a")
        assert entry is not None and (entry.value, entry.mod_revision) == (b"2", second)


async def test_caught_up_needs_no_write_of_ones_own_nor_under_ones_prefix(etcd, root):
    async with opened(etcd.endpoint) as one, opened(etcd.endpoint) as other:
        seen = []
        other.subscribe(root + "mine/", seen.extend, after=await other.current_revision())
        for n in range(20):
            written = await one.create(f"{root}elsewhere/{n}", b"")
            assert await other.wait_until_fresh() >= written
        assert not seen


async def test_readers_share_a_question_but_only_one_that_was_sent_after_they_asked(etcd, root, monkeypatch):
    async with opened(etcd.endpoint) as one, opened(etcd.endpoint) as other:
        ask, sent, answered, held = Connection.range, [], asyncio.Event(), asyncio.Event()

        async def counted(connection, request):
            sent.append(request)
            reply = await ask(connection, request)
            answered.set()
            if len(sent) == 1:
                await held.wait()  # the answer is on its way while others write and ask
            return reply

        monkeypatch.setattr(Connection, "range", counted)
        early = asyncio.create_task(other.current_revision())
        await answered.wait()
        written = await one.create(root + "a", b"")
        late = [asyncio.create_task(other.current_revision()) for _ in range(20)]
        late[0].cancel()  # a client that goes away takes nobody with it
        await asyncio.sleep(0.01)
        held.set()
        assert await early < written
        assert min(await asyncio.gather(*late[1:])) >= written
        assert len(sent) == 2


async def test_whoever_waits_for_the_newest_revision_learns_that_the_store_was_closed(etcd, monkeypatch):
    async with opened(etcd.endpoint) as store:
        monkeypatch.setattr(Connection, "range", lambda *_: asyncio.Event().wait())
        waiting = [asyncio.create_task(store.current_revision())]
        await asyncio.sleep(0.01)
        waiting.append(asyncio.create_task(store.current_revision()))
        await asyncio.sleep(0.01)
        await store.close()
        outcomes = await asyncio.gather(*waiting, return_exceptions=True)
        assert [type(outcome) for outcome in outcomes] == [StoreUnavailable, StoreUnavailable]


async def test_a_watch_goes_on_without_a_gap_when_etcd_restarts(fresh_etcd):
    async with opened(fresh_etcd.endpoint) as store:
        seen = []
        store.subscribe("/r/", seen.extend, after=await store.current_revision())
        watch = store.watch("/r/", after=await store.current_revision())
        await store.create("/r/before", b"")
        fresh_etcd.stop()
        fresh_etcd.start()
        async with opened(fresh_etcd.endpoint) as other:
            await other.create("/r/meanwhile", b"")
        await store.create("/r/after", b"")
        assert [event.key for event in await take(watch, 3)] == ["/r/before", "/r/meanwhile", "/r/after"]
        assert [event.key for event in seen] == ["/r/before", "/r/meanwhile", "/r/after"]


async def test_a_gap_that_cannot_be_closed_is_told_to_everybody(fresh_etcd):
    async with opened(fresh_etcd.endpoint) as store:
        lost = []
        read_anew = asyncio.Event()

        def lose(error: StoreError) -> asyncio.Task[None]:
            lost.append(error)
            return asyncio.create_task(read_anew.wait())

        store.subscribe("/r/", lambda events: None, after=await store.current_revision(), lost=lose)
        watch = store.watch("/r/", after=await store.current_revision())
        # As if the connection had been away: the watch here does not hear of what the other one does.
        following = next(task for task in store._tasks if "_follow" in task.get_coro().__qualname__)
        following.cancel()
        async with opened(fresh_etcd.endpoint) as other:
            revision = await other.create("/r/a", b"")
            for _ in range(3):
                revision = await other.update("/r/a", b"", expected=revision)
            await other.compact(revision)
        store._own(store._follow())
        with pytest.raises(Compacted) as caught:
            await take(watch, 1)
        assert caught.value.oldest == revision
        assert [type(error) for error in lost] == [Compacted]
        # Nobody is told that what is held here is fresh before it has been read anew.
        fresh = asyncio.create_task(store.wait_until_fresh())
        await asyncio.wait([fresh], timeout=0.2)
        assert not fresh.done() and store.revision < revision
        read_anew.set()
        # And life goes on from there.
        async with asyncio.timeout(20):
            assert await fresh >= revision
        again = []
        store.subscribe("/r/", again.extend, after=store.revision)
        await store.create("/r/b", b"")
        assert [event.key for event in again] == ["/r/b"]


async def test_a_member_that_is_away_is_passed_over(etcd, root):
    dead = "127.0.0.1:1"
    async with opened(dead, etcd.endpoint) as store:
        seen = []
        store.subscribe(root, seen.extend, after=await store.current_revision())
        revision = await store.create(root + "a", b"")
        assert [event.revision for event in seen] == [revision]


async def test_any_member_of_a_cluster_can_be_lost_in_the_middle_of_a_write_load(etcd_cluster):
    async with opened(*(member.endpoint for member in etcd_cluster)) as store:
        seen = []
        store.subscribe("/r/", seen.extend, after=await store.current_revision())
        watch = store.watch("/r/", after=await store.current_revision())
        written = {}
        under_way = asyncio.Event()

        async def create(key: str) -> int:
            """Nobody else has these keys, so it is safe to try again where the answer got lost."""
            while True:
                try:
                    return await store.create(key, key.encode())
                except StoreUnavailable:
                    await asyncio.sleep(0.05)
                except KeyExists as error:
                    return error.current.mod_revision

        async def write(writer: int) -> None:
            for n in range(40):
                key = f"/r/{writer}-{n}"
                written[key] = await create(key)
                if len(written) == 60:
                    under_way.set()

        writers = [asyncio.create_task(write(writer)) for writer in range(8)]
        await under_way.wait()
        await asyncio.to_thread(etcd_cluster[0].stop)  # the one that is talked to
        await asyncio.gather(*writers)
        page = await store.range("/r/")
        assert {entry.key: entry.mod_revision for entry in page.entries} == written
        await store.wait_until_fresh()
        assert {event.key: event.revision for event in seen} == written
        assert [event.revision for event in seen] == sorted(written.values())
        assert [event.revision for event in await take(watch, 320)] == sorted(written.values())


async def test_without_any_member_everything_is_unavailable_and_comes_back(fresh_etcd, monkeypatch):
    monkeypatch.setattr("dray.store.etcd_api.connection.RETRY_SECONDS", 0.1)
    async with opened(fresh_etcd.endpoint) as store:
        fresh_etcd.stop()
        for attempt in (store.get("/r/a"), store.create("/r/a", b""), store.current_revision()):
            with pytest.raises(StoreUnavailable):
                await attempt
        fresh_etcd.start()
        async with asyncio.timeout(20):
            while True:
                with contextlib.suppress(StoreUnavailable, KeyExists):
                    await store.create("/r/b", b"")
                    break
        assert await store.get("/r/b") is not None


def lose_answers(
    store: EtcdStore, *, after_sending: Callable[[], Awaitable[object]] | None, details: str
) -> list[str]:
    """The next transaction gets an error for an answer, be it carried out (``after_sending``) or not at all (None)."""
    endpoint = store._connection._endpoint()
    send = store._connection._channel(endpoint).unary_unary(
        "/etcdserverpb.KV/Txn",
        request_serializer=rpc.TxnRequest.SerializeToString,
        response_deserializer=rpc.TxnResponse.FromString,
    )
    attempts: list[str] = []

    async def lossy(request, **options):
        attempts.append("lost" if not attempts else "sent")
        if len(attempts) > 1:
            return await send(request, **options)
        if after_sending is not None:
            await send(request, **options)
            await after_sending()
        raise grpc.aio.AioRpcError(
            grpc.StatusCode.UNAVAILABLE, grpc.aio.Metadata(), grpc.aio.Metadata(), details=details
        )

    store._connection._calls[endpoint, "KV/Txn"] = lossy
    return attempts


async def nothing() -> None:
    pass


async def test_a_write_whose_answer_got_lost_is_recognised(etcd, root):
    async with opened(etcd.endpoint) as store:
        lose_answers(store, after_sending=nothing, details="Socket closed")
        first = await store.create(root + "a", b"1")
        lose_answers(store, after_sending=nothing, details="Socket closed")
        second = await store.update(root + "a", b"2", expected=first)
        entry = await store.get(root + "a")
        assert entry == KeyValue(root + "a", b"2", first, second)
        with pytest.raises(KeyExists):
            await store.create(root + "a", b"2")


async def test_a_key_is_not_created_twice_when_an_answer_got_lost(etcd, root):
    """Somebody deletes the key before the answer is missed: a second attempt would find its condition met."""
    async with opened(etcd.endpoint) as store, opened(etcd.endpoint) as other:

        async def delete() -> None:
            entry = await other.get(root + "a")
            assert entry is not None
            await other.delete(root + "a", expected=entry.mod_revision)

        attempts = lose_answers(store, after_sending=delete, details="Socket closed")
        await store.create(root + "a", b"1")
        assert attempts == ["lost"] and await store.get(root + "a") is None


async def test_nobody_claims_to_know_whether_a_key_was_created(etcd, root):
    """A request that is still on its way may arrive after anything that is asked now."""
    async with opened(etcd.endpoint) as store:
        attempts = lose_answers(store, after_sending=None, details="Deadline Exceeded")
        with pytest.raises(StoreUnavailable, match="whether the write took place is not known"):
            await store.create(root + "a", b"1")
        assert attempts == ["lost"]


@pytest.mark.parametrize(
    "details",
    ["etcdserver: no leader", "failed to connect to all addresses; last error: UNKNOWN: Connection refused"],
)
async def test_a_key_is_created_after_all_when_the_request_was_turned_away(etcd, root, details):
    async with opened(etcd.endpoint) as store:
        attempts = lose_answers(store, after_sending=None, details=details)
        await store.create(root + "a", b"1")
        assert attempts == ["lost", "sent"] and await store.get(root + "a") is not None


async def test_keys_that_expire_share_their_leases(etcd, root):
    async with opened(etcd.endpoint) as store:
        for n in range(5):
            await store.create(f"{root}{n}", b"", ttl=3600)
        await store.create(f"{root}other", b"", ttl=60)
        reply = await store._connection.range(
            rpc.RangeRequest(key=root.encode(), range_end=root[:-1].encode() + b"0")
        )
        assert len({kv.lease for kv in reply.kvs}) == 2
        assert all(kv.lease for kv in reply.kvs)


async def test_servers_take_turns_in_compacting(fresh_etcd):
    """The key and its clock are kube-apiserver's, which may be one of the servers."""
    async with opened(fresh_etcd.endpoint) as store:
        connection = Connection([fresh_etcd.endpoint])
        revision = await store.create("/r/a", b"0")
        mine = await compaction.compact_once(connection, 0, 0)
        others = await compaction.compact_once(connection, 0, 0)
        assert mine[0] == others[0] == 1
        for n in range(3):
            revision = await store.update("/r/a", b"%d" % n, expected=revision)
        mine = await compaction.compact_once(connection, *mine)
        with pytest.raises(Compacted) as caught:
            await store.range("/r/", revision=2)
        oldest = caught.value.oldest
        others = await compaction.compact_once(
            connection, *others
        )  # too late for this round: nothing happens
        with pytest.raises(Compacted) as caught:
            await store.range("/r/", revision=2)
        assert caught.value.oldest == oldest
        assert mine[0] == others[0] == 2
        await connection.close()


async def test_a_transaction_whose_answer_was_lost_is_known_by_everything_that_it_wrote(etcd, root):
    async with opened(etcd.endpoint) as store, opened(etcd.endpoint) as other:
        gone = await store.create(root + "gone", b"1")
        lose_answers(store, after_sending=nothing, details="Socket closed")
        revision = await store.transact([Delete(root + "gone", gone), Put(root + "b", b"1")])
        entry = await store.get(root + "b")
        assert entry is not None and entry.mod_revision == revision

        # This one never gets there, and somebody else writes a part of the same.
        entry = await store.get(root + "b")
        assert entry is not None
        await other.create(root + "c", b"1")
        lose_answers(store, after_sending=None, details="Socket closed")
        with pytest.raises(KeyExists):
            await store.transact([Put(root + "b", b"2", entry.mod_revision), Put(root + "c", b"1")])
        assert await store.get(root + "b") == entry


# Access and health


async def test_etcd_is_reached_with_tls_and_a_client_certificate(etcd_binary, tmp_path, monkeypatch):
    keys = pki.ensure(tmp_path / "pki", ["127.0.0.1"])
    etcd = Etcd(etcd_binary, tmp_path, tls=keys)
    etcd.start()
    try:
        client = keys.leaf("admin")
        access = EtcdAccess(keys.ca, client.certificate, client.key)
        store = await EtcdStore.open([etcd.endpoint], access=access)
        first = await store.create("/a", b"1")
        assert await store.wait_until_fresh() == first
        await store.close()
        monkeypatch.setattr(connection, "RETRY_SECONDS", 0.0)
        monkeypatch.setattr(connection, "CALL_TIMEOUT", 1.0)
        for wrong in (EtcdAccess(), EtcdAccess(keys.ca)):  # plain; without a certificate of one's own
            with pytest.raises(StoreUnavailable, match=etcd.endpoint):
                await EtcdStore.open([etcd.endpoint], access=wrong)
    finally:
        etcd.stop()


@pytest.mark.parametrize(
    ("access", "problem"),
    [
        (EtcdAccess(certificate=Path("c.pem")), "needs both --etcd-certfile and --etcd-keyfile"),
        (EtcdAccess(username="u"), "needs both --etcd-username and --etcd-password-file"),
        (EtcdAccess(ca=Path("/nowhere.pem")), "/nowhere.pem cannot be read"),
    ],
)
async def test_access_that_cannot_work_is_refused_at_once(access, problem):
    with pytest.raises(StoreError, match=problem):
        await EtcdStore.open(["127.0.0.1:1"], access=access)


async def test_user_and_password_open_etcd_and_a_token_that_ran_out_is_renewed(fresh_etcd, tmp_path):
    async with aiohttp.ClientSession(f"http://{fresh_etcd.endpoint}") as session:
        for path, body in (
            ("user/add", {"name": "root", "password": "secret"}),
            ("role/add", {"name": "root"}),
            ("user/grant", {"user": "root", "role": "root"}),
            ("enable", {}),
        ):
            async with session.post(f"/v3/auth/{path}", json=body) as answer:
                assert answer.status == 200, await answer.text()
    with pytest.raises(StoreError, match="etcd refuses"):
        await EtcdStore.open([fresh_etcd.endpoint])
    password = tmp_path / "password"
    password.write_text("secret\n")
    store = await EtcdStore.open(
        [fresh_etcd.endpoint], access=EtcdAccess(username="root", password_file=password)
    )
    first = await store.create("/a", b"1")
    store._connection._token = "run.out"
    second = await store.update("/a", b"2", expected=first)
    assert await store.wait_until_fresh() == second
    await store.close()
    password.write_text("wrong")
    with pytest.raises(StoreError, match="authentication failed"):
        await EtcdStore.open(
            [fresh_etcd.endpoint], access=EtcdAccess(username="root", password_file=password)
        )


async def test_an_etcd_without_space_says_so(etcd_binary, tmp_path):
    etcd = Etcd(etcd_binary, tmp_path, options=["--quota-backend-bytes=2000000"])
    etcd.start()
    try:
        async with opened(etcd.endpoint) as store:
            await store.check_writable()
            with pytest.raises(StoreFull, match="no space left"):
                for n in range(400):  # etcd looks at the size of its file, which grows ten times a second
                    await store.create(f"/{n}", b"x" * 200_000)
            with pytest.raises(StoreFull, match="etcd has raised NOSPACE of member"):
                await store.check_writable()
            assert await store.get("/0") is not None, "reading goes on"
    finally:
        etcd.stop()


async def test_a_file_that_is_mostly_empty_and_an_alarm_are_told_once_in_the_log(
    etcd_binary, tmp_path, monkeypatch, caplog
):
    monkeypatch.setattr(alarms, "WORTH_DEFRAGMENTING", 2_000_000)
    caplog.set_level("INFO", alarms.__name__)
    etcd = Etcd(etcd_binary, tmp_path, options=["--quota-backend-bytes=16000000"])
    etcd.start()

    async def told(words: str) -> None:
        await wait_for(f"the log to say {words!r}", lambda: any(words in said for said in caplog.messages))

    try:
        async with opened(etcd.endpoint) as store:
            reporting = asyncio.create_task(alarms.report_periodically(store._connection, interval=0.02))
            for n in range(30):
                last = await store.create(f"/{n}", b"x" * 200_000)
                revision = await store.delete(f"/{n}", expected=last)
            await store.compact(revision)
            for n in range(3):  # etcd counts pages as free once something is written after the compaction
                await asyncio.sleep(0.2)
                await store.create(f"/after/{n}", b"")
            await told("etcdctl defrag gives the rest back")
            with pytest.raises(StoreFull):
                for n in range(400):
                    await store.create(f"/{n}", b"x" * 200_000)
            await told("etcd has raised NOSPACE of member")
            await asyncio.sleep(0.2)
            reporting.cancel()
        assert sum("defrag gives" in message for message in caplog.messages) == 1
        assert sum("NOSPACE" in message for message in caplog.messages) == 1
    finally:
        etcd.stop()

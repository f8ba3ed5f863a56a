from __future__ import annotations

import asyncio
from datetime import UTC, datetime

import pytest

from dray.api.errors import ServiceUnavailable
from dray.client.leaderelection import LeaderElector, LeadershipLost
from dray.metrics.registry import Registry
from tests.support.wait import wait_for

PATH = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/boss"


class Clock:
    """Seconds that pass only while somebody sleeps, or when a test says so."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        self.now += seconds
        await asyncio.sleep(0)

    def moment(self) -> datetime:
        return datetime.fromtimestamp(self.now, UTC)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def contender(client, clock):
    def make(identity: str, **more) -> LeaderElector:
        return LeaderElector(
            client,
            namespace="kube-system",
            name="boss",
            identity=identity,
            **{"clock": clock, "now": clock.moment, "sleep": clock.sleep, "randomness": lambda: 0.5, **more},
        )

    return make


async def test_the_first_contender_creates_the_lease_and_leads(contender, server):
    a = contender("a")
    assert await a.try_acquire_or_renew()
    assert a.is_leader
    assert server.objects[PATH]["spec"] == {
        "holderIdentity": "a",
        "leaseDurationSeconds": 15,
        "acquireTime": "1970-01-01T00:16:40.000000Z",
        "renewTime": "1970-01-01T00:16:40.000000Z",
        "leaseTransitions": 0,
    }


async def test_renewing_moves_the_time_and_needs_no_look_first(contender, server, clock):
    a = contender("a")
    await a.try_acquire_or_renew()
    clock.now += 2
    server.requests.clear()
    assert await a.try_acquire_or_renew()
    assert [method for method, *_ in server.requests] == ["PUT"]
    spec = server.objects[PATH]["spec"]
    assert spec["acquireTime"] == "1970-01-01T00:16:40.000000Z"
    assert spec["renewTime"] == "1970-01-01T00:16:42.000000Z"


async def test_nobody_else_gets_it_while_it_is_renewed(contender, clock):
    a, b = contender("a"), contender("b")
    for _ in range(10):
        assert await a.try_acquire_or_renew()
        assert not await b.try_acquire_or_renew()
        clock.now += 10
    assert b.leader == "a"


async def test_it_changes_hands_when_it_has_not_changed_for_its_duration(contender, server, clock):
    a, b = contender("a"), contender("b")
    await a.try_acquire_or_renew()
    assert not await b.try_acquire_or_renew()
    clock.now += 14
    assert not await b.try_acquire_or_renew()
    clock.now += 2
    assert await b.try_acquire_or_renew()
    assert server.objects[PATH]["spec"]["holderIdentity"] == "b"
    assert server.objects[PATH]["spec"]["leaseTransitions"] == 1
    assert not await a.try_acquire_or_renew()
    assert not a.is_leader


async def test_the_lease_of_one_that_is_known_to_have_ended_is_free_at_once(contender, server):
    assert await contender("a").try_acquire_or_renew()
    assert not await contender("b", ended=lambda holder: False).try_acquire_or_renew()
    assert await contender("b", ended=lambda holder: holder == "a").try_acquire_or_renew()
    assert server.objects[PATH]["spec"]["holderIdentity"] == "b"
    assert server.objects[PATH]["spec"]["leaseTransitions"] == 1


async def test_metrics_tell_who_leads(contender):
    registries = [Registry(), Registry()]
    for identity, registry in zip("ab", registries, strict=True):
        elector = contender(identity)
        elector.register_metrics(registry)
        await elector.try_acquire_or_renew()
    assert 'leader_election_master_status{name="boss"} 1' in registries[0].text()
    assert 'leader_election_master_status{name="boss"} 0' in registries[1].text()


async def test_of_two_that_take_an_expired_lease_one_wins(contender, clock):
    a, b, c = contender("a"), contender("b"), contender("c")
    await a.try_acquire_or_renew()
    await b.try_acquire_or_renew()
    await c.try_acquire_or_renew()
    clock.now += 16
    assert sorted(await asyncio.gather(b.try_acquire_or_renew(), c.try_acquire_or_renew())) == [False, True]


async def test_a_lease_given_up_is_free_at_once(contender, server):
    a, b = contender("a"), contender("b")
    await a.try_acquire_or_renew()
    await a.release()
    assert not a.is_leader
    assert server.objects[PATH]["spec"]["holderIdentity"] == ""
    assert await b.try_acquire_or_renew()


async def test_run_leads_until_the_work_is_done_and_gives_up_the_lease(contender, server):
    a, led = contender("a"), []

    async def lead() -> None:
        led.append(a.is_leader)

    await a.run(lead)
    assert led == [True]
    assert server.objects[PATH]["spec"]["holderIdentity"] == ""


async def test_run_stops_the_work_when_the_lease_cannot_be_renewed(contender, server, caplog):
    a, stopped = contender("a"), []

    async def lead() -> None:
        server.failures += [ServiceUnavailable("gone")] * 1000
        try:
            await asyncio.Event().wait()
        finally:
            stopped.append(True)

    with pytest.raises(LeadershipLost):
        await a.run(lead)
    assert stopped == [True]


async def test_who_stood_still_for_longer_than_the_deadline_leads_on_if_nobody_took_the_lease(
    contender, client, server, clock, monkeypatch
):
    renewals, update = 0, client.update

    async def stand_still(seconds: float) -> None:
        clock.now += 60

    async def answer_after_a_while(*args, **more):
        nonlocal renewals
        await asyncio.sleep(0.02)
        renewals += 1
        return await update(*args, **more)

    async def work() -> None:
        await wait_for("renewals", lambda: renewals > 3)

    monkeypatch.setattr(client, "update", answer_after_a_while)
    await contender("a", sleep=stand_still).run(work)
    assert server.objects[PATH]["spec"]["leaseTransitions"] == 0


async def test_who_stood_still_and_lost_the_lease_stops(contender, clock):
    b = contender("b")

    async def stand_still(seconds: float) -> None:
        clock.now += 60
        await b.try_acquire_or_renew()
        clock.now += 60
        await b.try_acquire_or_renew()

    with pytest.raises(LeadershipLost):
        await contender("a", sleep=stand_still).run(asyncio.Event().wait)
    assert b.is_leader


async def test_run_passes_on_what_goes_wrong_in_the_work(contender, server):
    async def lead() -> None:
        raise KeyError("mine")

    with pytest.raises(KeyError):
        await contender("a").run(lead)
    assert server.objects[PATH]["spec"]["holderIdentity"] == ""


async def test_a_cancelled_run_gives_up_the_lease(contender, server):
    a = contender("a")
    task = asyncio.create_task(a.run(asyncio.Event().wait))
    await wait_for("a to lead", lambda: a.is_leader)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert server.objects[PATH]["spec"]["holderIdentity"] == ""


def test_times_that_cannot_work_are_refused(client):
    with pytest.raises(ValueError, match="outlast"):
        LeaderElector(client, namespace="a", name="b", identity="c", lease_duration=5, renew_deadline=10)

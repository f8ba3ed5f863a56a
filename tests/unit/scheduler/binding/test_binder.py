"""What is written and said while a pod is bound, and when that fails."""

from __future__ import annotations

import asyncio

import pytest

from dray.api.errors import Conflict, Forbidden, Invalid, NotFound
from dray.placement.cache.claims import ClaimCache
from dray.placement.decision import Bind
from dray.scheduler.binding.binder import BindingError
from tests.support.fake_client import ALLOCATION, FakeClient, FakeRecorder, conditional, writer
from tests.support.scheduler import claim, pod


def failure(server: FakeClient, decision: Bind) -> str:
    with pytest.raises(BindingError) as caught:
        asyncio.run(writer(server).binder.bind(pod("p"), decision, binding_timeout=1.0))
    return str(caught.value)


def test_what_a_claim_fails_with_is_put_down_to_the_plugin_for_claims() -> None:
    decision = Bind("a", claims=[claim("c", allocation=ALLOCATION)])
    said = failure(FakeClient(update_status=Invalid("too many")), decision)
    assert said == 'running PreBind plugin "DynamicResources": add reservation to claim default/c: too many'


def test_what_the_binding_itself_fails_with_is_put_down_to_the_binder() -> None:
    said = failure(FakeClient(bind=NotFound('pods "p" not found')), Bind("a"))
    assert said == 'running Bind plugin "DefaultBinder": pods "p" not found'


def test_a_claim_that_cannot_be_read_after_a_conflict_is_named() -> None:
    server = FakeClient(update_status=Conflict("changed"), get=Forbidden("no"))
    said = failure(server, Bind("a", claims=[claim("c", allocation=ALLOCATION)]))
    assert said.endswith('"DynamicResources": get updated claim default/c after conflict: no')


def test_a_node_that_cannot_be_announced_is_bound_to_all_the_same() -> None:
    told = FakeRecorder()
    server = FakeClient(patch_status=Conflict("later"))
    decision = Bind("a", claims=[claim("c", allocation=ALLOCATION)])
    asyncio.run(writer(server, told).binder.bind(pod("p"), decision, binding_timeout=1.0))
    assert [reason for reason, _ in told.events] == ["Scheduled"]


def test_what_a_driver_says_of_a_failure_is_quoted() -> None:
    conditions = [{"type": "broken", "status": "True", "reason": "Oops", "message": 'it "broke"\n'}]
    failed = conditional(devices=[{"driver": "d", "pool": "p", "device": "x", "conditions": conditions}])
    assert failure(FakeClient(), Bind("a", claims=[failed])) == (
        'running PreBind plugin "DynamicResources": device binding failed: claim=c, reason=Oops, '
        'message="it \\"broke\\"\\n"'
    )


@pytest.mark.parametrize("dates_all", [True, False])
def test_an_allocation_of_somebody_else_is_dated_only_as_in_1_36(dates_all: bool) -> None:
    server = FakeClient()
    undated = claim("c", allocation={"devices": {"results": []}})
    work = writer(server, dates_all=dates_all)
    asyncio.run(work.binder.bind(pod("p"), Bind("a", claims=[undated]), binding_timeout=1.0))
    assert ("allocationTimestamp" in server.claims[0]["status"]["allocation"]) is dates_all


def test_a_failed_binding_tells_what_it_has_made_of_the_pod() -> None:
    server = FakeClient(update_status=Invalid("no"))
    work = writer(server).binder.bind(
        pod("p"), Bind("a", claims=[claim("c", allocation=ALLOCATION)]), binding_timeout=1.0
    )
    with pytest.raises(BindingError) as caught:
        asyncio.run(work)
    assert caught.value.patched_pod == {"metadata": {"name": "p"}}


def test_a_claim_that_goes_while_its_devices_are_waited_for_is_named() -> None:
    told, claim_cache = FakeRecorder(), ClaimCache()
    work = writer(FakeClient(), told, claim_cache=claim_cache)
    waiting = conditional()

    async def play() -> None:
        binding = asyncio.create_task(
            work.binder.bind(pod("p"), Bind("a", claims=[waiting]), binding_timeout=1e9)
        )
        await told.something.wait()
        claim_cache.remove_claim(waiting)
        work.readiness.claims_changed()
        await binding

    with pytest.raises(BindingError, match='DynamicResources": could not find ResourceClaim "default/c"'):
        asyncio.run(play())

"""What is written and said while a pod is bound, and when that fails."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from dray.api.errors import Conflict, Forbidden, Invalid, NotFound
from dray.placement.cache.claims import ClaimCache
from dray.scheduler.binding.claim_binding import BindingError
from dray.scheduler.writers import Writers
from tests.support.fake_client import ALLOCATION, FakeClient, FakeRecorder, binding, conditional, writer
from tests.support.scheduler import claim, pod


def bind(writers: Writers, *claims: dict[str, Any]) -> None:
    asyncio.run(writers.binder.bind(pod("p"), "a", binding(writers, pod("p"), *claims)))


def failure(server: FakeClient, *claims: dict[str, Any]) -> BindingError:
    with pytest.raises(BindingError) as caught:
        bind(writer(server), *claims)
    return caught.value


def test_what_a_claim_fails_with_is_put_down_to_the_plugin_for_claims() -> None:
    said = str(failure(FakeClient(update_status=Invalid("too many")), claim("c", allocation=ALLOCATION)))
    assert said == 'running PreBind plugin "DynamicResources": add reservation to claim default/c: too many'


def test_what_the_binding_itself_fails_with_is_put_down_to_the_binder() -> None:
    said = failure(FakeClient(bind=NotFound('pods "p" not found')))
    assert str(said) == 'running Bind plugin "DefaultBinder": pods "p" not found'


def test_a_claim_that_cannot_be_read_after_a_conflict_is_named() -> None:
    server = FakeClient(update_status=Conflict("changed"), get=Forbidden("no"))
    said = failure(server, claim("c", allocation=ALLOCATION))
    assert str(said).endswith('"DynamicResources": get updated claim default/c after conflict: no')


def test_a_node_that_cannot_be_announced_is_bound_to_all_the_same() -> None:
    told = FakeRecorder()
    server = FakeClient(patch_status=Conflict("later"))
    bind(writer(server, told), claim("c", allocation=ALLOCATION))
    assert [reason for reason, _ in told.events] == ["Scheduled"]


def test_what_a_driver_says_of_a_failure_is_quoted() -> None:
    conditions = [{"type": "broken", "status": "True", "reason": "Oops", "message": 'it "broke"\n'}]
    failed = conditional(devices=[{"driver": "d", "pool": "p", "device": "x", "conditions": conditions}])
    assert str(failure(FakeClient(), failed)) == (
        'running PreBind plugin "DynamicResources": device binding failed: claim=c, reason=Oops, '
        'message="it \\"broke\\"\\n"'
    )


@pytest.mark.parametrize("dated", [True, False])
def test_an_allocation_of_somebody_else_is_dated_only_if_a_release_is_emulated(dated: bool) -> None:
    server = FakeClient()
    undated = claim("c", allocation={"devices": {"results": []}})
    bind(writer(server, dates_foreign_allocations=dated), undated)
    assert ("allocationTimestamp" in server.claims[0]["status"]["allocation"]) is dated


def test_a_failed_binding_tells_what_it_has_made_of_the_pod() -> None:
    server = FakeClient(update_status=Invalid("no"))
    assert failure(server, claim("c", allocation=ALLOCATION)).patched_pod == {"metadata": {"name": "p"}}


def test_a_claim_that_goes_while_its_devices_are_waited_for_is_named() -> None:
    told, claim_cache = FakeRecorder(), ClaimCache()
    work = writer(FakeClient(), told, claim_cache=claim_cache)
    waiting = conditional()

    async def play() -> None:
        claims = binding(work, pod("p"), waiting, binding_timeout=1e9)
        bound = asyncio.create_task(work.binder.bind(pod("p"), "a", claims))
        await told.something.wait()
        claim_cache.remove_claim(waiting)
        work.waiter.claims_changed()
        await bound

    with pytest.raises(BindingError, match='DynamicResources": could not find ResourceClaim "default/c"'):
        asyncio.run(play())
